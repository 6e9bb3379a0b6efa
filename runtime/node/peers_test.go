package node_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/workpull/operator/runtime/node"
)

// The members of a cluster, as a real API server tells of them (S19: a pod
// that has finished is no member, whatever its address).
func TestPodPeers(t *testing.T) {
	server := &envtest.Environment{}
	config, err := server.Start()
	require.NoError(t, err, "KUBEBUILDER_ASSETS names the folder of the API server's binaries")
	defer func() { require.NoError(t, server.Stop()) }()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	ctx := context.Background()

	member := func(producer, component string) map[string]string {
		return map[string]string{
			"workpull.dev/producer": producer, "workpull.dev/membership": "Member", "app.kubernetes.io/component": component,
		}
	}
	create := func(name, ip string, phase corev1.PodPhase, labels map[string]string, change ...func(*corev1.Pod)) *corev1.Pod {
		t.Helper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "none"}}},
		}
		for _, f := range change {
			f(pod)
		}
		pod, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		require.NoError(t, err)
		if ip != "" {
			pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = phase, ip, []corev1.PodIP{{IP: ip}}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			pod, err = client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
		return pod
	}
	namedPort := func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "gossip", ContainerPort: 9101}}
	}
	create("producer", "10.0.0.1", corev1.PodRunning, member("thumbs", "producer"), namedPort)
	create("not-ready", "10.0.0.2", corev1.PodRunning, member("thumbs", "worker"))
	create("no-address", "", "", member("thumbs", "worker"))
	create("self", "10.0.0.3", corev1.PodRunning, member("thumbs", "worker"))
	create("failed", "10.0.0.4", corev1.PodFailed, member("thumbs", "worker"))
	create("succeeded", "10.0.0.5", corev1.PodSucceeded, member("thumbs", "worker"))
	create("other-producer", "10.0.0.6", corev1.PodRunning, member("videos", "worker"))
	create("attached", "10.0.0.7", corev1.PodRunning, map[string]string{"workpull.dev/producer": "thumbs"})
	create("terminating", "10.0.0.8", corev1.PodRunning, member("thumbs", "worker"), func(pod *corev1.Pod) {
		pod.Finalizers = []string{"test.workpull.dev/hold"}
	})
	require.NoError(t, client.CoreV1().Pods("default").Delete(ctx, "terminating", metav1.DeleteOptions{}))

	peers := &node.PodPeers{Client: client, Namespace: "default", Producer: "thumbs", Self: "10.0.0.3", GossipPort: 9001}
	found, err := peers.List(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, []node.Peer{
		{Gossip: "10.0.0.1:9101", Producer: true},
		{Gossip: "10.0.0.2:9001"},
	}, found)

	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = peers.List(canceled)
	require.ErrorContains(t, err, "list the pods")
}
