package children

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

// Standbys tells whether a Producer has pods that wait to take over.
func Standbys(p *v1alpha1.Producer) bool { return *p.Spec.Replicas > 1 }

// ProducerTemplate is the producer's pod: the user's template with everything
// that the operator adds.
func ProducerTemplate(p *v1alpha1.Producer, image StockImage) corev1.PodTemplateSpec {
	var template corev1.PodTemplateSpec
	if p.Spec.Template != nil {
		p.Spec.Template.DeepCopyInto(&template)
	}
	template.Labels = overlay(template.Labels, overlay(ProducerLabels(p.Name), map[string]string{
		v1alpha1.LabelRole:       role(p),
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
	if p.Spec.Queue.Embedded != nil {
		mountQueue(p, pod, main)
	}
	if Standbys(p) {
		spread(p, pod)
	}
	secure(pod)
	return template
}

// role is that of a pod when it is made. The only pod is the active one.
func role(p *v1alpha1.Producer) string {
	if Standbys(p) {
		return v1alpha1.RoleStandby
	}
	return v1alpha1.RoleActive
}

// spread keeps standbys off the node and out of the zone of the active pod
// where that can be, unless the user has said where pods go.
func spread(p *v1alpha1.Producer, pod *corev1.PodSpec) {
	if len(pod.TopologySpreadConstraints) > 0 || pod.Affinity != nil && pod.Affinity.PodAntiAffinity != nil {
		return
	}
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		pod.TopologySpreadConstraints = append(pod.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: ProducerSelector(p.Name)},
		})
	}
}

func producerEnv(p *v1alpha1.Producer) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: podenv.System, Value: SystemName(p.Namespace, p.Name)},
		{Name: podenv.Producer, Value: p.Name},
	}
	env = append(env, identityEnv()...)
	env = append(env,
		corev1.EnvVar{Name: podenv.Membership, Value: podenv.MembershipMember},
		intEnv(podenv.RemotingPort, podenv.DefaultRemotingPort),
		intEnv(podenv.GossipPort, podenv.DefaultGossipPort),
		intEnv(podenv.PeersPort, podenv.DefaultPeersPort),
		intEnv(podenv.LinkPort, podenv.DefaultLinkPort),
		intEnv(podenv.IntakePort, podenv.DefaultIntakePort),
		intEnv(podenv.HealthPort, podenv.DefaultHealthPort),
		intEnv(podenv.MaxPending, p.Spec.Intake.MaxPending),
		intEnv(podenv.MaxJobBytes, p.Spec.Intake.MaxJobBytes),
	)
	env = append(env, deliveryEnv(&p.Spec.Delivery)...)
	env = append(env, queueEnv(&p.Spec.Queue)...)
	if Standbys(p) {
		env = append(env, corev1.EnvVar{Name: podenv.Lease, Value: LeaseName(p.Name)})
	}
	return env
}

func deliveryEnv(d *v1alpha1.Delivery) []corev1.EnvVar {
	return []corev1.EnvVar{
		durationEnv(podenv.RetryInterval, d.RetryInterval.Duration),
		intEnv(podenv.MaxAttempts, d.MaxAttempts),
		durationEnv(podenv.Backoff, d.Backoff.Initial.Duration),
		durationEnv(podenv.BackoffMax, d.Backoff.Max.Duration),
		durationEnv(podenv.DeduplicationWindow, d.DeduplicationWindow.Duration),
		intEnv(podenv.QueueAttempts, d.QueueRetry.Attempts),
		durationEnv(podenv.QueueBackoff, d.QueueRetry.Backoff.Duration),
	}
}

// queueEnv tells the program its queue. The database's URL holds a password, so
// it comes from the Secret by the kubelet and the operator never reads it.
func queueEnv(q *v1alpha1.Queue) []corev1.EnvVar {
	kind := func(value string) corev1.EnvVar { return corev1.EnvVar{Name: podenv.Queue, Value: value} }
	switch {
	case q.Embedded != nil:
		return []corev1.EnvVar{kind(podenv.QueueEmbedded), {Name: podenv.QueueDir, Value: podenv.DefaultQueueDir}}
	case q.Postgres != nil:
		return []corev1.EnvVar{kind(podenv.QueuePostgres), {
			Name: podenv.QueueURL,
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: q.Postgres.URLSecretKeyRef.Name},
				Key:                  q.Postgres.URLSecretKeyRef.Key,
			}},
		}}
	}
	return []corev1.EnvVar{kind(podenv.QueueMemory)}
}

func durationEnv(name string, value time.Duration) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: value.String()}
}
