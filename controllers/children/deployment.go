package children

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

// StockImage is the image of producers whose template names none.
type StockImage struct {
	// Name is the image's reference.
	Name string
	// PullPolicy is empty for Kubernetes' own default.
	PullPolicy corev1.PullPolicy
}

// producerGracePeriodSeconds is how long a producer may answer its last
// requests.
const producerGracePeriodSeconds = 30

// Deployment runs the producer of an in-memory queue: one pod, and the old one
// is gone before the new one starts, since two would each have their own jobs.
func Deployment(p *v1alpha1.Producer, image StockImage) (Child, error) {
	template, err := applyTemplate(ProducerTemplate(p, image))
	if err != nil {
		return Child{}, fmt.Errorf("render the template of Producer %s: %w", p.Name, err)
	}
	name := ProducerName(p.Name)
	config := appsv1ac.Deployment(name, p.Namespace).
		WithLabels(ProducerLabels(p.Name)).
		WithOwnerReferences(ownerReference(p, v1alpha1.ProducerKind)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(1).
			WithRevisionHistoryLimit(2).
			WithStrategy(appsv1ac.DeploymentStrategy().WithType(appsv1.RecreateDeploymentStrategyType)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(ProducerSelector(p.Name))).
			WithTemplate(template))
	return newChild("Deployment", name, config,
		func() *appsv1.Deployment { return &appsv1.Deployment{} }, appsv1ac.ExtractDeployment), nil
}

// ProducerTemplate is the producer's pod: the user's template with everything
// that the operator adds.
func ProducerTemplate(p *v1alpha1.Producer, image StockImage) corev1.PodTemplateSpec {
	var template corev1.PodTemplateSpec
	if p.Spec.Template != nil {
		p.Spec.Template.DeepCopyInto(&template)
	}
	template.Labels = overlay(template.Labels, overlay(ProducerLabels(p.Name), map[string]string{
		v1alpha1.LabelRole:       v1alpha1.RoleActive,
		v1alpha1.LabelMembership: string(v1alpha1.MembershipMember),
	}))
	pod := &template.Spec
	if pod.ServiceAccountName == "" {
		pod.ServiceAccountName = ProducerName(p.Name)
	}
	if pod.TerminationGracePeriodSeconds == nil {
		pod.TerminationGracePeriodSeconds = ptr.To[int64](producerGracePeriodSeconds)
	}
	main := container(pod, podenv.ProducerContainer)
	if main == nil {
		pod.Containers = append([]corev1.Container{{Name: podenv.ProducerContainer}}, pod.Containers...)
		main = &pod.Containers[0]
	}
	if main.Image == "" {
		useStockImage(pod, main, image)
	}
	setEnv(main, producerEnv(p))
	addPorts(main, append(memberPorts(),
		tcpPort(podenv.LinkPortName, podenv.DefaultLinkPort),
		tcpPort(podenv.IntakePortName, podenv.DefaultIntakePort),
		tcpPort(podenv.HealthPortName, podenv.DefaultHealthPort))...)
	setProbes(main)
	secure(pod)
	return template
}

func producerEnv(p *v1alpha1.Producer) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: podenv.System, Value: SystemName(p.Namespace, p.Name)},
		{Name: podenv.Producer, Value: p.Name},
	}
	env = append(env, identityEnv()...)
	return append(env,
		corev1.EnvVar{Name: podenv.Membership, Value: podenv.MembershipMember},
		intEnv(podenv.RemotingPort, podenv.DefaultRemotingPort),
		intEnv(podenv.GossipPort, podenv.DefaultGossipPort),
		intEnv(podenv.PeersPort, podenv.DefaultPeersPort),
		intEnv(podenv.LinkPort, podenv.DefaultLinkPort),
		intEnv(podenv.IntakePort, podenv.DefaultIntakePort),
		intEnv(podenv.HealthPort, podenv.DefaultHealthPort),
		corev1.EnvVar{Name: podenv.Queue, Value: podenv.QueueMemory},
		intEnv(podenv.MaxPending, p.Spec.Intake.MaxPending),
		intEnv(podenv.MaxJobBytes, p.Spec.Intake.MaxJobBytes),
		corev1.EnvVar{Name: podenv.RetryInterval, Value: p.Spec.Delivery.RetryInterval.Duration.String()},
	)
}

// tmpVolume is what the stock image may write to.
const tmpVolume = "workpull-tmp"

// useStockImage runs the stock intake with a read-only root and a /tmp of its
// own. A user's image gets neither: it may need to write elsewhere.
func useStockImage(pod *corev1.PodSpec, main *corev1.Container, image StockImage) {
	main.Image = image.Name
	if main.ImagePullPolicy == "" {
		main.ImagePullPolicy = image.PullPolicy
	}
	if main.Command == nil && main.Args == nil {
		main.Args = []string{"producer"}
	}
	if main.SecurityContext == nil {
		main.SecurityContext = &corev1.SecurityContext{}
	}
	if main.SecurityContext.ReadOnlyRootFilesystem == nil {
		main.SecurityContext.ReadOnlyRootFilesystem = ptr.To(true)
	}
	for _, mount := range main.VolumeMounts {
		if mount.MountPath == "/tmp" || mount.Name == tmpVolume {
			return
		}
	}
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: tmpVolume, MountPath: "/tmp"})
	for _, volume := range pod.Volumes {
		if volume.Name == tmpVolume {
			return
		}
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{
		Name: tmpVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
}

// applyTemplate turns a template into an apply configuration that owns what
// the template says and nothing else: fields that are null or empty only
// because Go has no absent struct are left out.
func applyTemplate(template corev1.PodTemplateSpec) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	value, err := asValue(template)
	if err != nil {
		return nil, err
	}
	prune(value)
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("marshal template: %w", err)
	}
	config := corev1ac.PodTemplateSpec()
	if err := json.Unmarshal(data, config); err != nil {
		return nil, fmt.Errorf("read template as apply configuration: %w", err)
	}
	return config, nil
}

// prune removes null values and the empty resources that typed containers
// always have.
func prune(value map[string]any) {
	for key, v := range value {
		switch v := v.(type) {
		case nil:
			delete(value, key)
		case map[string]any:
			prune(v)
			if key == "resources" && len(v) == 0 {
				delete(value, key)
			}
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					prune(m)
				}
			}
		}
	}
}
