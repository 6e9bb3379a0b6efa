package children

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workpull/operator/runtime/podenv"
)

// container returns the container of that name, or nil.
func container(pod *corev1.PodSpec, name string) *corev1.Container {
	for i := range pod.Containers {
		if pod.Containers[i].Name == name {
			return &pod.Containers[i]
		}
	}
	return nil
}

// setEnv puts the operator's variables first, so that the user's may refer to
// them, and drops the user's of the same name: they are the contract with the
// program in the container.
func setEnv(c *corev1.Container, env []corev1.EnvVar) {
	ours := make(map[string]bool, len(env))
	for _, e := range env {
		ours[e.Name] = true
	}
	out := env
	for _, e := range c.Env {
		if !ours[e.Name] {
			out = append(out, e)
		}
	}
	c.Env = out
}

// identityEnv comes from the downward API.
func identityEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		fieldEnv(podenv.PodName, "metadata.name"),
		fieldEnv(podenv.PodNamespace, "metadata.namespace"),
		fieldEnv(podenv.PodUID, "metadata.uid"),
		fieldEnv(podenv.PodIP, "status.podIP"),
		fieldEnv(podenv.NodeName, "spec.nodeName"),
	}
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

func intEnv(name string, value int32) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: strconv.Itoa(int(value))}
}

// addPorts lists ports that the container does not list yet. A port that the
// user listed under another name keeps it.
func addPorts(c *corev1.Container, ports ...corev1.ContainerPort) {
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP // part of the list's key in server-side apply
		}
	}
	for _, port := range ports {
		if !listsPort(c.Ports, port) {
			c.Ports = append(c.Ports, port)
		}
	}
}

func listsPort(ports []corev1.ContainerPort, port corev1.ContainerPort) bool {
	for _, p := range ports {
		if p.Name == port.Name || (p.ContainerPort == port.ContainerPort && p.Protocol == port.Protocol) {
			return true
		}
	}
	return false
}

func tcpPort(name string, port int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP}
}

// memberPorts are the ports of a GoAkt cluster member. Gossip uses UDP too.
func memberPorts() []corev1.ContainerPort {
	return []corev1.ContainerPort{
		tcpPort(podenv.RemotingPortName, podenv.DefaultRemotingPort),
		tcpPort(podenv.GossipPortName, podenv.DefaultGossipPort),
		{Name: podenv.GossipPortName + "-udp", ContainerPort: podenv.DefaultGossipPort, Protocol: corev1.ProtocolUDP},
		tcpPort(podenv.PeersPortName, podenv.DefaultPeersPort),
	}
}

// setProbes adds probes on the health port where the user has none. Readiness
// is asked every second, so that a worker counts soon after it registered.
func setProbes(c *corev1.Container) {
	if c.ReadinessProbe == nil {
		c.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  healthProbe(podenv.ReadinessPath),
			PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1,
		}
	}
	if c.LivenessProbe == nil {
		c.LivenessProbe = &corev1.Probe{
			ProbeHandler:        healthProbe(podenv.LivenessPath),
			InitialDelaySeconds: 5, PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3, SuccessThreshold: 1,
		}
	}
}

func healthProbe(path string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: path, Port: intstr.FromInt32(podenv.DefaultHealthPort), Scheme: corev1.URISchemeHTTP,
	}}
}
