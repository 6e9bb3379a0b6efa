package workerpool

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/children"
)

// t0 is the time of all unit tests.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testPool(replicas int32, change ...func(*v1alpha1.WorkerPool)) *v1alpha1.WorkerPool {
	w := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Name: "pool", Namespace: "ns", UID: "pool-uid", Generation: 1}}
	w.Spec.ProducerRef.Name = "jobs"
	w.Spec.Replicas = ptr.To(replicas)
	w.Spec.Template.Spec.Containers = []corev1.Container{{Name: "worker", Image: "example"}}
	w.SetDefaults()
	for _, c := range change {
		c(w)
	}
	return w
}

// testPod is the pod of a slot, made a minute ago.
func testPod(slot int, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: children.PodName("pool", slot), Namespace: "ns", UID: types.UID(children.PodName("uid", slot)),
		Labels:            map[string]string{v1alpha1.LabelRevision: "now"},
		CreationTimestamp: metav1.NewTime(t0.Add(-time.Minute)),
	}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func set(pod *corev1.Pod, t corev1.PodConditionType, status corev1.ConditionStatus, since time.Time) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: t, Status: status, LastTransitionTime: metav1.NewTime(since),
	})
}

func onNode(pod *corev1.Pod) { pod.Spec.NodeName = "node" }

func running(pod *corev1.Pod) {
	onNode(pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "worker", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{
			StartedAt: metav1.NewTime(t0.Add(-50 * time.Second))}},
	}}
}

func isStarting(pod *corev1.Pod) {
	running(pod)
	set(pod, corev1.PodReady, corev1.ConditionFalse, t0.Add(-time.Minute))
	set(pod, corev1.ContainersReady, corev1.ConditionFalse, t0.Add(-time.Minute))
}

func isReady(pod *corev1.Pod) { readySinceTime(-40 * time.Second)(pod) }

func readySinceTime(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		running(pod)
		set(pod, corev1.PodReady, corev1.ConditionTrue, t0.Add(ago))
		set(pod, corev1.ContainersReady, corev1.ConditionTrue, t0.Add(ago))
	}
}

func isUnready(pod *corev1.Pod) {
	running(pod)
	set(pod, corev1.PodReady, corev1.ConditionFalse, t0.Add(-10*time.Second))
	set(pod, corev1.ContainersReady, corev1.ConditionFalse, t0.Add(-10*time.Second))
}

func isLost(pod *corev1.Pod) {
	running(pod)
	set(pod, corev1.PodReady, corev1.ConditionFalse, t0.Add(-10*time.Second))
	set(pod, corev1.ContainersReady, corev1.ConditionTrue, t0.Add(-40*time.Second))
}

func isTerminating(pod *corev1.Pod) {
	isReady(pod)
	pod.DeletionTimestamp = ptr.To(metav1.NewTime(t0.Add(30 * time.Second)))
}

func isFailed(pod *corev1.Pod) {
	onNode(pod)
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
}

func isCrashing(pod *corev1.Pod) {
	isStarting(pod)
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}
}

func isOld(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(t0.Add(-time.Hour)) }

func isUnscheduled(*corev1.Pod) {}

func isOutdated(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelRevision] = "before" }

// testState is a settled state with a producer and these pods.
func testState(pool *v1alpha1.WorkerPool, pods ...*corev1.Pod) state {
	return state{
		now: t0, pool: pool, producer: true, settled: true,
		current: testRevision("now", 2),
		stored:  []*appsv1.ControllerRevision{testRevision("before", 1), testRevision("now", 2)},
		workers: workersOf(pool, pods, "now", t0),
	}
}

func testRevision(hash string, number int64) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "pool-" + hash, Labels: map[string]string{v1alpha1.LabelRevision: hash}},
		Revision:   number,
	}
}

func stored(revisions ...*appsv1.ControllerRevision) []*appsv1.ControllerRevision { return revisions }

func pods(list ...*corev1.Pod) []*corev1.Pod { return list }

func keyOf(pool *v1alpha1.WorkerPool) types.NamespacedName {
	return types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }
