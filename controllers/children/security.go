package children

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// secure fills what a pod leaves open so that it passes the restricted Pod
// Security standard. What the user set stays, field by field and container by
// container; what the user's choice forbids is not added.
func secure(pod *corev1.PodSpec) {
	if pod.OS != nil && pod.OS.Name == corev1.Windows {
		return // the fields below are refused on Windows
	}
	if pod.SecurityContext == nil {
		pod.SecurityContext = &corev1.PodSecurityContext{}
	}
	sc := pod.SecurityContext
	if sc.RunAsNonRoot == nil && ptr.Deref(sc.RunAsUser, -1) != 0 {
		sc.RunAsNonRoot = ptr.To(true)
	}
	if sc.SeccompProfile == nil {
		sc.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	for i := range pod.InitContainers {
		secureContainer(&pod.InitContainers[i])
	}
	for i := range pod.Containers {
		secureContainer(&pod.Containers[i])
	}
}

func secureContainer(c *corev1.Container) {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	sc := c.SecurityContext
	if sc.RunAsNonRoot == nil && ptr.Deref(sc.RunAsUser, -1) == 0 {
		sc.RunAsNonRoot = ptr.To(false) // the user asked for root here
	}
	if sc.Capabilities == nil {
		sc.Capabilities = &corev1.Capabilities{}
	}
	if sc.Capabilities.Drop == nil && !ptr.Deref(sc.Privileged, false) {
		sc.Capabilities.Drop = []corev1.Capability{"ALL"}
	}
	// The API server refuses false together with either of these.
	escalates := ptr.Deref(sc.Privileged, false) || slices.Contains(sc.Capabilities.Add, "SYS_ADMIN") ||
		slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN")
	if sc.AllowPrivilegeEscalation == nil && !escalates {
		sc.AllowPrivilegeEscalation = ptr.To(false)
	}
}
