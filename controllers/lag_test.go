package controllers_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/workerpool"
)

// lagging is a client whose lists of pods stay as they were when the test last
// let the cache catch up. Everything else is real.
type lagging struct {
	client.Client
	seen     corev1.PodList
	onCreate func()
}

func (l *lagging) catchUp(t *testing.T, ns string) {
	t.Helper()
	l.seen = corev1.PodList{}
	require.NoError(t, api.List(t.Context(), &l.seen, client.InNamespace(ns),
		client.HasLabels{v1alpha1.LabelPool}))
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if pods, ok := list.(*corev1.PodList); ok {
		l.seen.DeepCopyInto(pods)
		return nil
	}
	return l.Client.List(ctx, list, opts...)
}

func (l *lagging) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	if _, ok := object.(*corev1.Pod); ok && l.onCreate != nil {
		l.onCreate()
	}
	return l.Client.Create(ctx, object, opts...)
}

// poolReconciler is a reconciler without a manager: the test decides when it
// runs and what it sees.
func poolReconciler(c client.Client) *workerpool.Reconciler {
	r := &workerpool.Reconciler{Client: c, Live: api, Recorder: events.NewFakeRecorder(1000), Clock: clock.RealClock{}}
	r.Init()
	return r
}

func reconcile(t *testing.T, r *workerpool.Reconciler, pool *v1alpha1.WorkerPool) {
	t.Helper()
	_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pool)})
	require.NoError(t, err)
}

// alive counts the pods that are neither finished nor terminating.
func alive(t *testing.T, ns string) int {
	t.Helper()
	n := 0
	for _, pod := range podsOf(t.Context(), t, ns, "pool") {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}

// S8: with a cache that lags there is never a create beyond the desired count.
func TestS8LaggingCacheNeverOvershoots(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	pool := newPool(ns, "pool", "jobs", 3)
	create(t, newProducer(ns, "jobs"), pool)
	lag := &lagging{Client: api}
	r := poolReconciler(lag)

	for range 5 {
		reconcile(t, r, pool)
		require.Equal(t, 3, alive(t, ns))
	}
	lag.catchUp(t, ns)
	reconcile(t, r, pool)
	require.Equal(t, 3, alive(t, ns))

	// A failed pod is replaced once, however long the cache shows it.
	pods := podsOf(t.Context(), t, ns, "pool")
	report(t, pods["pool-1"], func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
	lag.catchUp(t, ns)
	for range 5 {
		reconcile(t, r, pool)
		require.Equal(t, 3, alive(t, ns))
	}
	lag.catchUp(t, ns)

	// A scale-down deletes as many as it should, once.
	change(t, pool, func(w *v1alpha1.WorkerPool) { w.Spec.Replicas = ptr.To[int32](1) })
	for range 5 {
		reconcile(t, r, pool)
		require.Equal(t, 1, alive(t, ns))
	}
	// And a scale-up on top of it makes no more than that.
	change(t, pool, func(w *v1alpha1.WorkerPool) { w.Spec.Replicas = ptr.To[int32](2) })
	for range 5 {
		reconcile(t, r, pool)
		require.LessOrEqual(t, alive(t, ns), 2)
	}
	lag.catchUp(t, ns)
	reconcile(t, r, pool)
	require.Equal(t, 2, alive(t, ns))
}

// S8 after a restart: a new process with a stale cache does not know what the
// old one wrote, so it compares with the API server first.
func TestS8NewOperatorWithStaleCacheMakesNothing(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	pool := newPool(ns, "pool", "jobs", 3)
	create(t, newProducer(ns, "jobs"), pool)
	first := &lagging{Client: api}
	old := poolReconciler(first)
	reconcile(t, old, pool)
	report(t, podsOf(t.Context(), t, ns, "pool")["pool-0"], func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
	first.catchUp(t, ns)
	reconcile(t, old, pool)
	pods := waitForPods(t, ns, "pool", "pool-1", "pool-2", "pool-3") // the name pool-0 is free

	stale := &lagging{Client: api} // sees no pod at all
	r := poolReconciler(stale)
	for range 3 {
		reconcile(t, r, pool)
		require.Equal(t, 3, alive(t, ns))
	}

	// Neither does it wait for ever for a pod that went before it was seen.
	end(t, pods["pool-1"])
	require.Eventually(t, func() bool {
		stale.catchUp(t, ns)
		reconcile(t, r, pool)
		return alive(t, ns) == 3
	}, soon, 200*time.Millisecond, "the pod that went is replaced")
}

// S8 at random: pods die, are deleted and are scaled while the cache catches
// up only now and then.
func TestS8RandomWalkNeverOvershoots(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	pool := newPool(ns, "pool", "jobs", 4)
	create(t, newProducer(ns, "jobs"), pool)
	lag := &lagging{Client: api}
	desired := 4
	lag.onCreate = func() { require.Less(t, alive(t, ns), desired, "a create beyond the desired count") }
	r := poolReconciler(lag)

	random := rand.New(rand.NewPCG(8, 715))
	for range 150 {
		switch random.IntN(6) {
		case 0:
			lag.catchUp(t, ns)
		case 1: // a pod is deleted by hand
			for _, pod := range podsOf(t.Context(), t, ns, "pool") {
				end(t, pod)
				break
			}
		case 2: // a pod fails
			for _, pod := range podsOf(t.Context(), t, ns, "pool") {
				report(t, pod, func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
				break
			}
		case 3:
			desired = random.IntN(7)
			change(t, pool, func(w *v1alpha1.WorkerPool) { w.Spec.Replicas = ptr.To(int32(desired)) })
		default:
			reconcile(t, r, pool)
		}
	}
	require.Eventually(t, func() bool {
		lag.catchUp(t, ns)
		reconcile(t, r, pool)
		return alive(t, ns) == desired
	}, 30*time.Second, 200*time.Millisecond, "it converges once the cache keeps up")
}
