package children

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

// graceBeyondDrain is what a pod gets beyond its drain timeout to take leave.
const graceBeyondDrain = 5 * time.Second

// WorkerPod is the pod of a pool in a slot. It has no finalizer (S21).
func WorkerPod(w *v1alpha1.WorkerPool, slot int, revision string) *corev1.Pod {
	template := w.Spec.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        PodName(w.Name, slot),
			Namespace:   w.Namespace,
			Annotations: template.Annotations,
			Labels: overlay(template.Labels, overlay(PoolLabels(w.Name, w.Spec.ProducerRef.Name), map[string]string{
				v1alpha1.LabelRevision:   revision,
				v1alpha1.LabelMembership: string(w.Spec.Worker.Membership),
			})),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(w, v1alpha1.GroupVersion.WithKind(v1alpha1.WorkerPoolKind)),
			},
		},
		Spec: template.Spec,
	}
	spec := &pod.Spec
	spec.RestartPolicy = corev1.RestartPolicyAlways
	spec.TerminationGracePeriodSeconds = ptr.To(int64(math.Ceil((w.Spec.Drain.Timeout.Duration + graceBeyondDrain).Seconds())))
	if w.Spec.Worker.Membership == v1alpha1.MembershipMember {
		if spec.ServiceAccountName == "" {
			spec.ServiceAccountName = WorkerAccountName(w.Name)
		}
	} else if spec.AutomountServiceAccountToken == nil {
		spec.AutomountServiceAccountToken = ptr.To(false) // an attached worker asks the API nothing
	}
	if main := container(spec, podenv.WorkerContainer); main != nil {
		setEnv(main, workerEnv(w))
		addPorts(main, workerPorts(w)...)
		setProbes(main)
	}
	secure(spec)
	return pod
}

func workerPorts(w *v1alpha1.WorkerPool) []corev1.ContainerPort {
	health := tcpPort(podenv.HealthPortName, podenv.DefaultHealthPort)
	if w.Spec.Worker.Membership == v1alpha1.MembershipMember {
		return append(memberPorts(), health)
	}
	return []corev1.ContainerPort{tcpPort(podenv.RemotingPortName, podenv.DefaultRemotingPort), health}
}

func workerEnv(w *v1alpha1.WorkerPool) []corev1.EnvVar {
	producer := w.Spec.ProducerRef.Name
	env := []corev1.EnvVar{
		{Name: podenv.System, Value: SystemName(w.Namespace, producer)},
		{Name: podenv.Producer, Value: producer},
		{Name: podenv.Pool, Value: w.Name},
	}
	env = append(env, identityEnv()...)
	env = append(env,
		corev1.EnvVar{Name: podenv.Membership, Value: string(w.Spec.Worker.Membership)},
		corev1.EnvVar{Name: podenv.ProducerHost, Value: ProducerHost(w.Namespace, producer)},
		intEnv(podenv.RemotingPort, podenv.DefaultRemotingPort),
		intEnv(podenv.LinkPort, podenv.DefaultLinkPort),
		intEnv(podenv.HealthPort, podenv.DefaultHealthPort),
	)
	if w.Spec.Worker.Membership == v1alpha1.MembershipMember {
		env = append(env,
			intEnv(podenv.GossipPort, podenv.DefaultGossipPort),
			intEnv(podenv.PeersPort, podenv.DefaultPeersPort))
	}
	return append(env,
		intEnv(podenv.Concurrency, w.Spec.Worker.Concurrency),
		intEnv(podenv.FlowControlWindow, w.Spec.Worker.FlowControlWindow),
		corev1.EnvVar{Name: podenv.DrainTimeout, Value: w.Spec.Drain.Timeout.Duration.String()},
	)
}
