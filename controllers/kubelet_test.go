package controllers_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the scheduler and the kubelet do, done by hand.

// schedule binds a pod to a node, as the scheduler does.
func schedule(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	require.NoError(t, api.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
	}))
}

// report writes a pod's status, as the kubelet does.
func report(t *testing.T, pod *corev1.Pod, edit func(*corev1.PodStatus)) {
	t.Helper()
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	before := pod.DeepCopy()
	edit(&pod.Status)
	require.NoError(t, api.Status().Patch(t.Context(), pod, client.MergeFrom(before)))
}

// runs reports a pod as running and ready or not.
func runs(ready bool) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		value := corev1.ConditionFalse
		if ready {
			value = corev1.ConditionTrue
		}
		s.Phase = corev1.PodRunning
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", Ready: ready, Image: "x", ImageID: "x",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
		s.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: value, LastTransitionTime: metav1.Now()},
			{Type: corev1.ContainersReady, Status: value, LastTransitionTime: metav1.Now()},
		}
	}
}

// makeReady schedules pods and reports them ready.
func makeReady(t *testing.T, pods map[string]*corev1.Pod, names ...string) {
	t.Helper()
	for _, name := range names {
		require.Contains(t, pods, name)
		if pods[name].Spec.NodeName == "" {
			schedule(t, pods[name])
		}
		report(t, pods[name], runs(true))
	}
}

// end removes a terminating pod, as the kubelet does when its containers have
// ended.
func end(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	require.NoError(t, api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
}
