package children

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

// ClusterService is the headless Service that resolves to the addresses of the
// producer's pods, ready or not: workers look the producer up by it.
func ClusterService(p *v1alpha1.Producer) Child {
	config := corev1ac.Service(ProducerName(p.Name), p.Namespace).
		WithLabels(ProducerLabels(p.Name)).
		WithOwnerReferences(ownerReference(p, v1alpha1.ProducerKind)).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(ProducerSelector(p.Name)).
			WithPorts(
				servicePort(podenv.RemotingPortName, podenv.DefaultRemotingPort),
				servicePort(podenv.GossipPortName, podenv.DefaultGossipPort),
				servicePort(podenv.PeersPortName, podenv.DefaultPeersPort),
				servicePort(podenv.LinkPortName, podenv.DefaultLinkPort),
			))
	return serviceChild(ProducerName(p.Name), config)
}

// IntakeService is the Service that clients submit jobs to. It selects the
// active pod.
func IntakeService(p *v1alpha1.Producer) Child {
	config := corev1ac.Service(p.Name, p.Namespace).
		WithLabels(ProducerLabels(p.Name)).
		WithOwnerReferences(ownerReference(p, v1alpha1.ProducerKind)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(p.Spec.Intake.Service.Type).
			WithSelector(overlay(ProducerSelector(p.Name), map[string]string{
				v1alpha1.LabelRole: v1alpha1.RoleActive,
			})).
			WithPorts(servicePort(podenv.IntakePortName, p.Spec.Intake.Service.Port)))
	return serviceChild(p.Name, config)
}

func serviceChild(name string, config *corev1ac.ServiceApplyConfiguration) Child {
	return newChild("Service", name, config,
		func() *corev1.Service { return &corev1.Service{} }, corev1ac.ExtractService)
}

// servicePort leads to the container port of the same name.
func servicePort(name string, port int32) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().WithName(name).WithProtocol(corev1.ProtocolTCP).
		WithPort(port).WithTargetPort(intstr.FromString(name))
}
