package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
)

// poolWithPods makes a Producer and a pool whose pods are all ready.
func poolWithPods(t *testing.T, ns string, replicas int32, edit ...func(*v1alpha1.WorkerPool)) *v1alpha1.WorkerPool {
	t.Helper()
	w := newPool(ns, "pool", "jobs", replicas)
	for _, e := range edit {
		e(w)
	}
	create(t, newProducer(ns, "jobs"), w)
	names := []string{}
	for i := range replicas {
		names = append(names, fmt.Sprintf("pool-%d", i))
	}
	makeReady(t, waitForPods(t, ns, "pool", names...), names...)
	waitForCondition(t, w, "Available", "True Ready")
	return w
}

func TestPoolScalesThroughTheScaleSubresource(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	w := poolWithPods(t, ns, 2)
	require.Equal(t, int32(2), w.Status.ReadyReplicas)

	scale := func(to int32) {
		require.NoError(t, api.SubResource("scale").Update(t.Context(), w,
			client.WithSubResourceBody(&autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: ns},
				Spec:       autoscalingv1.ScaleSpec{Replicas: to},
			})))
	}
	scale(4)
	pods := waitForPods(t, ns, "pool", "pool-0", "pool-1", "pool-2", "pool-3")
	makeReady(t, pods, "pool-2") // pool-3 stays unscheduled

	var seen autoscalingv1.Scale
	require.NoError(t, api.SubResource("scale").Get(t.Context(), w, &seen))
	require.Equal(t, "app.kubernetes.io/component=worker,workpull.dev/pool=pool", seen.Status.Selector)

	scale(2)
	pods = waitForPods(t, ns, "pool", "pool-0", "pool-1", "pool-2!")
	end(t, pods["pool-2"])
	scale(0)
	pods = waitForPods(t, ns, "pool", "pool-0!", "pool-1!")
	end(t, pods["pool-0"])
	end(t, pods["pool-1"])
	waitForCondition(t, w, "Available", "True ScaledToZero")
	waitForPods(t, ns, "pool")
}

// S19: a failed pod frees its slot and is replaced once; so is one that is
// deleted by hand, and its slot is used again only when it is gone.
func TestS19DeadPodsAreReplacedOnce(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, _ := operator(t, ns)
	poolWithPods(t, ns, 2)
	pods := waitForPods(t, ns, "pool", "pool-0", "pool-1")

	report(t, pods["pool-0"], func(s *corev1.PodStatus) { s.Phase, s.Reason = corev1.PodFailed, "Evicted" })
	pods = waitForPods(t, ns, "pool", "pool-1", "pool-2")
	makeReady(t, pods, "pool-2")
	quiet(t, count)
	require.Equal(t, int64(3), count.podCreates.Load(), "replaced once")

	require.NoError(t, api.Delete(t.Context(), pods["pool-1"]))
	pods = waitForPods(t, ns, "pool", "pool-0", "pool-1!", "pool-2")
	makeReady(t, pods, "pool-0")
	end(t, pods["pool-1"])
	waitForPods(t, ns, "pool", "pool-0", "pool-2")
	quiet(t, count)
	require.Equal(t, int64(4), count.podCreates.Load(), "replaced once")
	require.Equal(t, int64(1), count.podDeletes.Load())
}

// S21: pods have no finalizer of ours; one of somebody else that keeps a pod
// from going neither counts as capacity nor drives a loop.
func TestS21LeftOverFinalizerDrivesNoLoop(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, _ := operator(t, ns)
	poolWithPods(t, ns, 1)
	pods := waitForPods(t, ns, "pool", "pool-0")
	require.Empty(t, pods["pool-0"].Finalizers)

	change(t, pods["pool-0"], func(p *corev1.Pod) { p.Finalizers = []string{"example.com/left-over"} })
	end(t, pods["pool-0"])
	pods = waitForPods(t, ns, "pool", "pool-0!", "pool-1")
	makeReady(t, pods, "pool-1")
	quiet(t, count)
	require.Equal(t, int64(2), count.podCreates.Load())
	require.Zero(t, count.podDeletes.Load())
	change(t, pods["pool-0"], func(p *corev1.Pod) { p.Finalizers = nil })
	waitForPods(t, ns, "pool", "pool-1")
}

// S22: nothing of ours holds a namespace, and creates that it refuses because
// it terminates are dropped, not retried.
func TestS22TerminatingNamespaceIsLeftAlone(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, _ := operator(t, ns)
	w := poolWithPods(t, ns, 1)
	require.NoError(t, api.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
	change(t, w, func(w *v1alpha1.WorkerPool) { w.Spec.Replicas = ptr.To[int32](3) })
	eventually(t, "the create is tried", func(c *assert.CollectT) {
		assert.GreaterOrEqual(c, count.podCreates.Load(), int64(2))
	})
	quiet(t, count)
	require.Equal(t, int64(2), count.podCreates.Load(), "refused once and dropped")
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &appsv1.DeploymentList{},
		&appsv1.ControllerRevisionList{}, &rbacv1.RoleList{}, &v1alpha1.ProducerList{}, &v1alpha1.WorkerPoolList{},
	} {
		require.NoError(t, api.List(t.Context(), list, client.InNamespace(ns)))
		requireNoFinalizer(t, list)
	}
}

// S23: an event that changes nothing writes nothing, also after a restart.
func TestS23PoolAtRestWritesNothing(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, stop := operator(t, ns)
	w := poolWithPods(t, ns, 3)
	before := quiet(t, count)
	require.LessOrEqual(t, count.statuses.Load(), int64(12), "statuses of two objects on the way here")

	pods := waitForPods(t, ns, "pool", "pool-0", "pool-1", "pool-2")
	for i, pod := range []string{"pool-0", "pool-1", "pool-2", "pool-0", "pool-1"} {
		report(t, pods[pod], func(s *corev1.PodStatus) { s.Message = fmt.Sprint("note ", i) })
	}
	change(t, w, func(w *v1alpha1.WorkerPool) { w.Labels = map[string]string{"edited": "yes"} })
	require.Equal(t, before, quiet(t, count))

	stop()
	again, _ := operator(t, ns)
	require.Zero(t, quiet(t, again))
}

// S24: edits of labels while the status changes lose nothing, on either side.
func TestS24ConcurrentLabelEditsLoseNothing(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	w := poolWithPods(t, ns, 1)
	pod := waitForPods(t, ns, "pool", "pool-0")["pool-0"]
	const edits = 30
	edited := make(chan error, 1)
	go func() {
		for i := range edits {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"edit-%d":"yes"}}}`, i)
			target := newPool(ns, "pool", "jobs", 1)
			if err := api.Patch(t.Context(), target, client.RawPatch("application/merge-patch+json", patch)); err != nil {
				edited <- err
				return
			}
		}
		edited <- nil
	}()
	for i := range edits {
		report(t, pod, runs(i%2 == 1))
	}
	require.NoError(t, <-edited)
	waitForCondition(t, w, "Available", "True Ready")
	require.Len(t, w.Labels, edits)
	require.Equal(t, int32(1), *w.Spec.Replicas)
}

// S20: a quota that refuses pods is a condition; those that fit work, and the
// pool recovers when the quota rises.
func TestS20QuotaIsAConditionAndIsRecoveredFrom(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "few"}}
	setHard := func(pods string) {
		hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
		change(t, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard = hard })
		before := quota.DeepCopy()
		quota.Status.Hard = hard // there is no quota controller
		if quota.Status.Used == nil {
			quota.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
		}
		require.NoError(t, api.Status().Patch(t.Context(), quota, client.MergeFrom(before)))
	}
	create(t, quota)
	setHard("2")
	operator(t, ns)
	w := newPool(ns, "pool", "jobs", 5)
	create(t, newProducer(ns, "jobs"), w)

	message := waitForCondition(t, w, "ReplicaFailure", "True QuotaExceeded")
	require.Contains(t, message, "exceeded quota: few")
	pods := waitForPods(t, ns, "pool", "pool-0", "pool-1")
	makeReady(t, pods, "pool-0", "pool-1")

	eventually(t, "an event tells it too", func(c *assert.CollectT) {
		var events eventsv1.EventList
		assert.NoError(c, api.List(t.Context(), &events, client.InNamespace(ns)))
		assert.True(c, slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Type == corev1.EventTypeWarning && e.Reason == v1alpha1.ReasonQuotaExceeded && e.Regarding.Name == "pool"
		}))
	})

	setHard("10")
	waitForPods(t, ns, "pool", "pool-0", "pool-1", "pool-2", "pool-3", "pool-4")
	waitForCondition(t, w, "ReplicaFailure", "False NoFailure")
}

func TestRolloutReplacesOneAtATimeAndDrains(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	w := poolWithPods(t, ns, 2)
	change(t, w, func(w *v1alpha1.WorkerPool) { w.Spec.Worker.Concurrency = 2 })
	change(t, w, func(w *v1alpha1.WorkerPool) { w.Spec.Template.Spec.Containers[0].Image = "example.com/worker:2" })

	var pods map[string]*corev1.Pod
	var first, second string
	eventually(t, "one goes, its successor comes", func(c *assert.CollectT) {
		pods = podsOf(t.Context(), c, ns, "pool")
		first, second = "pool-0", "pool-1"
		if pods["pool-1"] != nil && pods["pool-1"].DeletionTimestamp != nil {
			first, second = second, first
		}
		if assert.Len(c, pods, 3) {
			assert.NotNil(c, pods[first].DeletionTimestamp)
			assert.Nil(c, pods[second].DeletionTimestamp)
		}
	})
	require.Equal(t, int64(35), *pods[first].Spec.TerminationGracePeriodSeconds, "drain.timeout and 5s")
	require.Equal(t, "example.com/worker:2", pods["pool-2"].Spec.Containers[0].Image)
	waitForCondition(t, w, "Progressing", "True RollingOut")
	require.LessOrEqual(t, w.Status.Replicas, int32(2), "S18")

	makeReady(t, pods, "pool-2")
	pods = waitForPods(t, ns, "pool", first+"!", second+"!", "pool-2", "pool-3")
	makeReady(t, pods, "pool-3")
	end(t, pods[first])
	end(t, pods[second])
	waitForCondition(t, w, "Progressing", "False Stable")
	var revisions appsv1.ControllerRevisionList
	require.NoError(t, api.List(t.Context(), &revisions, client.InNamespace(ns)))
	require.Len(t, revisions.Items, 2, "concurrency is not part of the template")
}

func TestPodOnALostNodeIsReplacedAndIsSurplusWhenItReturns(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	w := poolWithPods(t, ns, 2)
	pods := waitForPods(t, ns, "pool", "pool-0", "pool-1")
	ready := func(status corev1.ConditionStatus) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) {
			s.Conditions[0].Status = status
			s.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(2 * time.Second)) // after the others, in whole seconds
		}
	}
	report(t, pods["pool-0"], ready(corev1.ConditionFalse)) // as the node life-cycle controller does
	pods = waitForPods(t, ns, "pool", "pool-0", "pool-1", "pool-2")
	waitForCondition(t, w, "ReplicaFailure", "True NodeLost")
	makeReady(t, pods, "pool-2")
	waitForCondition(t, w, "Available", "True Ready")

	report(t, pods["pool-0"], ready(corev1.ConditionTrue))
	waitForPods(t, ns, "pool", "pool-0!", "pool-1", "pool-2")
}

func TestCrashLoopIsReplacedWithBackoffAndHealsWithTheTemplate(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, _ := operator(t, ns)
	w := poolWithPods(t, ns, 1)
	crash := func(pod *corev1.Pod) {
		if pod.Spec.NodeName == "" {
			schedule(t, pod)
		}
		report(t, pod, func(s *corev1.PodStatus) {
			runs(false)(s)
			s.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			s.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}}
		})
	}
	pods := waitForPods(t, ns, "pool", "pool-0")
	crash(pods["pool-0"])
	pods = waitForPods(t, ns, "pool", "pool-0!", "pool-1")
	end(t, pods["pool-0"])
	crash(pods["pool-1"])
	message := waitForCondition(t, w, "ReplicaFailure", "True CrashLoopBackOff")
	require.Contains(t, message, "exit code 2")
	quiet(t, count)
	waitForPods(t, ns, "pool", "pool-1") // waits for its backoff

	change(t, w, func(w *v1alpha1.WorkerPool) { w.Spec.Template.Spec.Containers[0].Image = "example.com/worker:2" })
	pods = waitForPods(t, ns, "pool", "pool-1!", "pool-0")
	require.Equal(t, "example.com/worker:2", pods["pool-0"].Spec.Containers[0].Image)
	makeReady(t, pods, "pool-0")
	waitForCondition(t, w, "ReplicaFailure", "False NoFailure")
}

func TestPoolWithoutProducer(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, _ := operator(t, ns)
	w := newPool(ns, "pool", "jobs", 2)
	create(t, w)
	require.Contains(t, waitForCondition(t, w, "Degraded", "True ProducerNotFound"), "Producer jobs")
	quiet(t, count)
	waitForPods(t, ns, "pool")

	p := newProducer(ns, "jobs")
	create(t, p)
	waitForPods(t, ns, "pool", "pool-0", "pool-1")
	waitForCondition(t, w, "Degraded", "False AsExpected")
	require.NoError(t, api.Delete(t.Context(), p))
	waitForCondition(t, w, "Degraded", "True ProducerNotFound")
	quiet(t, count)
	waitForPods(t, ns, "pool", "pool-0", "pool-1")
}

// A pod of somebody else keeps its name, and the pool does without it.
func TestPoolLeavesANamesakeAlone(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pool-0"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	create(t, stranger)
	operator(t, ns)
	w := newPool(ns, "pool", "jobs", 2)
	create(t, newProducer(ns, "jobs"), w)
	waitForPods(t, ns, "pool", "pool-1", "pool-2")
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(stranger), stranger))
	require.Empty(t, stranger.OwnerReferences)
}

func TestMemberPoolGetsAnAccountAndLosesItWhenAttached(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	w := poolWithPods(t, ns, 1, func(w *v1alpha1.WorkerPool) { w.Spec.Worker.Membership = v1alpha1.MembershipMember })
	key := client.ObjectKey{Namespace: ns, Name: "pool-worker"}
	accounts := []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}}
	for _, object := range accounts {
		require.NoError(t, api.Get(t.Context(), key, object))
		require.True(t, metav1.IsControlledBy(object, w))
	}
	require.Equal(t, "pool-worker", waitForPods(t, ns, "pool", "pool-0")["pool-0"].Spec.ServiceAccountName)

	change(t, w, func(w *v1alpha1.WorkerPool) { w.Spec.Worker.Membership = v1alpha1.MembershipAttached })
	pods := waitForPods(t, ns, "pool", "pool-0!", "pool-1")
	require.False(t, *pods["pool-1"].Spec.AutomountServiceAccountToken)
	makeReady(t, pods, "pool-1")
	end(t, pods["pool-0"])
	eventually(t, "the account goes with the last member", func(c *assert.CollectT) {
		for _, object := range accounts {
			assert.True(c, apierrors.IsNotFound(api.Get(t.Context(), key, object)), "%T", object)
		}
	})
}

func TestOperatorRestartInARolloutGoesOn(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	_, stop := operator(t, ns)
	w := poolWithPods(t, ns, 2)
	change(t, w, func(w *v1alpha1.WorkerPool) { w.Spec.Template.Spec.Containers[0].Image = "example.com/worker:2" })
	eventually(t, "the rollout begins", func(c *assert.CollectT) {
		assert.Contains(c, podsOf(t.Context(), c, ns, "pool"), "pool-2")
	})
	stop()
	count, _ := operator(t, ns)
	quiet(t, count)
	require.Zero(t, count.podDeletes.Load(), "S25: no second delete")
	require.Zero(t, count.podCreates.Load())
	makeReady(t, podsOf(t.Context(), t, ns, "pool"), "pool-2")
	waitForPods(t, ns, "pool", "pool-0!", "pool-1!", "pool-2", "pool-3")
}

func TestDeletedPoolIsNotRefilled(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, _ := operator(t, ns)
	w := poolWithPods(t, ns, 1)
	require.NoError(t, api.Delete(t.Context(), w, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	quiet(t, count)
	end(t, waitForPods(t, ns, "pool", "pool-0")["pool-0"])
	quiet(t, count)
	waitForPods(t, ns, "pool")
}
