// Package podstate reads off a pod what both reconcilers want to know of it.
package podstate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Condition returns the pod's condition of a type, or nil.
func Condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Ready tells whether the pod is Ready.
func Ready(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// NodeLost tells whether the pod's node stopped reporting. The node life-cycle
// controller then turns Ready to False and leaves ContainersReady, which only
// the kubelet writes: a kubelet never reports the two apart unless a readiness
// gate is open. Reading it off the pod needs no right to read nodes.
func NodeLost(pod *corev1.Pod) bool {
	readyCondition := Condition(pod, corev1.PodReady)
	if readyCondition == nil {
		return false
	}
	if readyCondition.Status == corev1.ConditionUnknown || pod.Status.Reason == "NodeLost" {
		return true
	}
	containers := Condition(pod, corev1.ContainersReady)
	return readyCondition.Status == corev1.ConditionFalse &&
		containers != nil && containers.Status == corev1.ConditionTrue && gatesOpen(pod) == 0
}

// gatesOpen counts the readiness gates that hold the pod back.
func gatesOpen(pod *corev1.Pod) int {
	open := 0
	for _, gate := range pod.Spec.ReadinessGates {
		if c := Condition(pod, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			open++
		}
	}
	return open
}

// WaitingFor names the first container that waits for one of the reasons, or "".
func WaitingFor(pod *corev1.Pod, reasons ...string) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range statuses {
			if s.State.Waiting != nil && slices.Contains(reasons, s.State.Waiting.Reason) {
				return s.Name
			}
		}
	}
	return ""
}

// Unschedulable tells whether the scheduler found no node.
func Unschedulable(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}
