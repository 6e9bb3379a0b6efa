package children

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
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

// Workload is what runs the producer's pods: a StatefulSet where the queue is
// on a volume, a Deployment otherwise.
func Workload(p *v1alpha1.Producer, image StockImage) (Child, error) {
	template, err := applyTemplate(ProducerTemplate(p, image))
	if err != nil {
		return Child{}, fmt.Errorf("render the template of Producer %s: %w", p.Name, err)
	}
	if Claim(p) != nil {
		return statefulSet(p, template), nil
	}
	return deployment(p, template), nil
}

// deployment runs one pod, and the old one is gone before the new one starts:
// two would each have their own jobs, or one would fence the other. Standbys
// are made first and then replace the old pods.
func deployment(p *v1alpha1.Producer, template *corev1ac.PodTemplateSpecApplyConfiguration) Child {
	strategy := appsv1ac.DeploymentStrategy().WithType(appsv1.RecreateDeploymentStrategyType)
	if Standbys(p) {
		strategy = appsv1ac.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
			WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
				WithMaxSurge(intstr.FromInt32(1)).WithMaxUnavailable(intstr.FromInt32(0)))
	}
	name := ProducerName(p.Name)
	config := appsv1ac.Deployment(name, p.Namespace).
		WithLabels(ProducerLabels(p.Name)).
		WithOwnerReferences(ownerReference(p, v1alpha1.ProducerKind)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(*p.Spec.Replicas).
			WithRevisionHistoryLimit(2).
			WithStrategy(strategy).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(ProducerSelector(p.Name))).
			WithTemplate(template))
	return newChild("Deployment", name, config,
		func() *appsv1.Deployment { return &appsv1.Deployment{} }, appsv1ac.ExtractDeployment)
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
