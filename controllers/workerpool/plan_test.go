package workerpool

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
)

func TestClassify(t *testing.T) {
	gated := func(pod *corev1.Pod) {
		isLost(pod)
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want class
	}{
		"no node yet":                       {testPod(0, isUnscheduled), unscheduled},
		"no node for an hour":               {testPod(0, isUnscheduled, isOld), unscheduled},
		"on a node":                         {testPod(0, onNode), starting},
		"runs, never ready":                 {testPod(0, isStarting), starting},
		"never ready for an hour":           {testPod(0, isStarting, isOld), overdue},
		"ready":                             {testPod(0, isReady), ready},
		"ready for an hour":                 {testPod(0, isReady, isOld), ready},
		"was ready, producer is away":       {testPod(0, isUnready), unready},
		"was ready long ago":                {testPod(0, isUnready, isOld), unready},
		"crashes":                           {testPod(0, isCrashing), crashing},
		"evicted":                           {testPod(0, isFailed), finished},
		"succeeded":                         {testPod(0, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), finished},
		"being deleted":                     {testPod(0, isTerminating), terminating},
		"node does not report":              {testPod(0, isLost), lost},
		"node lost, Ready unknown":          {testPod(0, running, func(p *corev1.Pod) { set(p, corev1.PodReady, corev1.ConditionUnknown, t0) }), lost},
		"held back by a gate, node is fine": {testPod(0, gated), unready},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, classify(tt.pod, t0, 10*time.Minute))
		})
	}
}

// want is a plan in short: pods to delete with the reason, slots to create.
func short(p plan) (deleted []string, created []int) {
	for _, d := range p.delete {
		deleted = append(deleted, fmt.Sprintf("%d %s", d.slot, d.why))
	}
	return deleted, p.create
}

func TestPlan(t *testing.T) {
	backoffUntil := func(d time.Duration) func(*state) {
		return func(s *state) { s.replace = backoff{failures: 1, until: t0.Add(d)} }
	}
	tests := map[string]struct {
		replicas int32
		pods     []*corev1.Pod
		change   func(*state)
		deleted  []string
		created  []int
		wake     time.Duration // after t0
	}{
		"from nothing":  {replicas: 3, created: []int{0, 1, 2}},
		"nothing to do": {replicas: 2, pods: []*corev1.Pod{testPod(0, isReady), testPod(1, isReady)}},
		"lowest free slots first": {replicas: 4,
			pods: []*corev1.Pod{testPod(1, isReady), testPod(3, isReady)}, created: []int{0, 2}},
		"S8: nothing before the cache shows our own last write": {replicas: 3,
			pods: []*corev1.Pod{testPod(0, isFailed)}, change: func(s *state) { s.settled = false }},
		"S7: slow pods count": {replicas: 3,
			pods: []*corev1.Pod{testPod(0, isUnscheduled), testPod(1, onNode), testPod(2, isStarting)},
			wake: 9 * time.Minute},
		"S21: a terminating pod is no capacity and keeps its name": {replicas: 2,
			pods: []*corev1.Pod{testPod(0, isTerminating), testPod(1, isReady)}, created: []int{2}},
		"S19: a failed pod is deleted and replaced once": {replicas: 2,
			pods:    []*corev1.Pod{testPod(0, isFailed), testPod(1, isReady)},
			deleted: []string{"0 failed"}, created: []int{2}},
		"a failed pod waits for the backoff and is not multiplied": {replicas: 2,
			pods:   []*corev1.Pod{testPod(0, isFailed), testPod(1, isReady)},
			change: backoffUntil(20 * time.Second), wake: 20 * time.Second},
		"a crashing pod waits for the backoff and is not multiplied": {replicas: 2,
			pods:   []*corev1.Pod{testPod(0, isCrashing), testPod(1, isReady)},
			change: backoffUntil(20 * time.Second), wake: 20 * time.Second},
		"a crashing pod is replaced when the backoff is over": {replicas: 1,
			pods: []*corev1.Pod{testPod(0, isCrashing)}, change: backoffUntil(0),
			deleted: []string{"0 failed"}, created: []int{1}},
		"an overdue pod is replaced": {replicas: 1,
			pods:    []*corev1.Pod{testPod(0, isStarting, isOld)},
			deleted: []string{"0 failed"}, created: []int{1}},
		"a pod on a lost node is replaced in another slot and left alone": {replicas: 2,
			pods: []*corev1.Pod{testPod(0, isLost), testPod(1, isReady)}, created: []int{2}},
		"a pod that comes back from a lost node is the surplus": {replicas: 2,
			pods:    []*corev1.Pod{testPod(0, readySinceTime(-time.Second)), testPod(1, isReady), testPod(2, readySinceTime(-5*time.Second))},
			deleted: []string{"0 not needed any more"}},
		"S11: scale-down takes unscheduled, then starting, then ready ones, newest first": {replicas: 1,
			pods:    []*corev1.Pod{testPod(0, readySinceTime(-10*time.Second)), testPod(1, isStarting), testPod(2, isUnscheduled), testPod(3, readySinceTime(-30*time.Second))},
			deleted: []string{"2 not needed any more", "1 not needed any more", "0 not needed any more"}},
		"scale-down prefers pods that were never ready to unready ones, which may be busy": {replicas: 1,
			pods:    []*corev1.Pod{testPod(0, isUnready), testPod(1, isStarting)},
			deleted: []string{"1 not needed any more"}, wake: 0},
		"to zero": {replicas: 0,
			pods: []*corev1.Pod{testPod(0, isReady), testPod(1, isTerminating)}, deleted: []string{"0 not needed any more"}},
		"without a producer none is made and those that are there stay": {replicas: 3,
			pods: []*corev1.Pod{testPod(0, isReady), testPod(1, isCrashing)}, change: func(s *state) { s.producer = false }},
		"without a producer the surplus still goes": {replicas: 1,
			pods: []*corev1.Pod{testPod(0, isReady), testPod(1, isStarting)}, change: func(s *state) { s.producer = false },
			deleted: []string{"1 not needed any more"}},
		"an invalid spec changes nothing": {replicas: 3,
			change: func(s *state) { s.invalid = field.ErrorList{field.Required(field.NewPath("spec"), "x")} }},
		"S22: nothing is made in a namespace that terminates": {replicas: 3,
			change: func(s *state) { s.closing = true }},
		"S20: after a refusal creates wait": {replicas: 2, pods: []*corev1.Pod{testPod(0, isReady)},
			change: func(s *state) { s.refusal = &refusal{backoff: backoff{until: t0.Add(7 * time.Second)}} },
			wake:   7 * time.Second},
		"S20: and are tried again": {replicas: 2, pods: []*corev1.Pod{testPod(0, isReady)},
			change: func(s *state) { s.refusal = &refusal{backoff: backoff{until: t0}} }, created: []int{1}},
		"a slot whose name somebody else has is passed over": {replicas: 2,
			change: func(s *state) { s.blocked = map[int]bool{0: true} }, created: []int{1, 2}},
		"S15: an update replaces one ready worker at a time": {replicas: 3,
			pods:    []*corev1.Pod{testPod(0, isReady, isOutdated), testPod(1, isReady, isOutdated), testPod(2, isReady, isOutdated)},
			deleted: []string{"2 made from an older template"}, created: []int{3}},
		"an update waits for the successor": {replicas: 3,
			pods: []*corev1.Pod{testPod(0, isReady, isOutdated), testPod(1, isReady, isOutdated), testPod(2, isTerminating, isOutdated), testPod(3, isStarting)},
			wake: 9 * time.Minute},
		"an update goes on when the successor is ready, while the predecessor drains": {replicas: 2,
			pods:    []*corev1.Pod{testPod(0, isReady, isOutdated), testPod(1, isTerminating, isOutdated), testPod(2, isReady)},
			deleted: []string{"0 made from an older template"}, created: []int{3}},
		"S16: outdated pods that run nothing are replaced at once": {replicas: 3,
			pods:    []*corev1.Pod{testPod(0, isCrashing, isOutdated), testPod(1, isStarting, isOutdated), testPod(2, isUnscheduled, isOutdated)},
			change:  backoffUntil(time.Minute),
			deleted: []string{"0 failed", "1 made from an older template", "2 made from an older template"}, created: []int{3, 4, 5}},
		"an update while the producer is away takes one unready worker at most": {replicas: 2,
			pods:    []*corev1.Pod{testPod(0, isUnready, isOutdated), testPod(1, isUnready, isOutdated)},
			deleted: []string{"1 made from an older template"}, created: []int{2}},
		"an update that crashes stops": {replicas: 2,
			pods:   []*corev1.Pod{testPod(0, isReady, isOutdated), testPod(2, isCrashing)},
			change: backoffUntil(time.Minute), wake: time.Minute},
		"an update and a scale-down together take outdated ones": {replicas: 1,
			pods:    []*corev1.Pod{testPod(0, isReady, isOutdated), testPod(1, isReady)},
			deleted: []string{"0 not needed any more"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := testState(testPool(tt.replicas), tt.pods...)
			if tt.change != nil {
				tt.change(&s)
			}
			p := makePlan(s)
			deleted, created := short(p)
			require.Equal(t, tt.deleted, deleted)
			require.Equal(t, tt.created, created)
			if tt.wake == 0 {
				require.Zero(t, p.wake)
			} else {
				require.Equal(t, t0.Add(tt.wake), p.wake)
			}
		})
	}
}

func TestCreatesComeInBatches(t *testing.T) {
	p := makePlan(testState(testPool(1000)))
	require.Len(t, p.create, createBatch)
	require.Equal(t, 1000, p.missing)
}

func TestRevisionsAreComparedAsValues(t *testing.T) {
	pool := testPool(1)
	_, isNew, err := currentRevision(pool, nil)
	require.NoError(t, err)
	require.True(t, isNew)

	// The same template as another library version may have written it.
	older := testRevision("older", 1)
	older.Data.Raw = []byte(`{"template":{"spec":{"containers":[{"image":"example","name":"worker","resources":{"limits":{"cpu":"1000m"}}}]},"metadata":{"creationTimestamp":null}},"membership":"Attached"}`)
	pool.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: quantity("1")}
	current, isNew, err := currentRevision(pool, stored(older))
	require.NoError(t, err)
	require.False(t, isNew)
	require.Equal(t, older, current)

	// Tuning that is outside the template rolls nothing.
	pool.Spec.Worker.Concurrency, pool.Spec.Worker.FlowControlWindow = 7, 8
	pool.Spec.Drain.Timeout = &metav1.Duration{Duration: time.Hour}
	_, isNew, err = currentRevision(pool, stored(older))
	require.NoError(t, err)
	require.False(t, isNew)

	// The template and the membership do.
	changed := pool.DeepCopy()
	changed.Spec.Template.Spec.Containers[0].Image = "other"
	next, isNew, err := currentRevision(changed, stored(older))
	require.NoError(t, err)
	require.True(t, isNew)
	require.Equal(t, int64(2), next.Revision)
	changed = pool.DeepCopy()
	changed.Spec.Worker.Membership = v1alpha1.MembershipMember
	_, isNew, err = currentRevision(changed, stored(older))
	require.NoError(t, err)
	require.True(t, isNew)
}

func TestRevisionHistory(t *testing.T) {
	pool := testPool(1, func(w *v1alpha1.WorkerPool) { w.Spec.RevisionHistoryLimit = ptr.To[int32](1) })
	s := testState(pool, testPod(0, isReady, isOutdated))
	s.stored = stored(testRevision("a", 1), testRevision("b", 2), testRevision("before", 3), testRevision("c", 4), testRevision("now", 5))
	s.current = s.stored[4]
	p := makePlan(s)
	require.Equal(t, stored(s.stored[0], s.stored[1]), p.expired,
		"the oldest go; the current one and those in use stay")
	require.Nil(t, p.revision)

	s.current = s.stored[1]
	p = makePlan(s)
	require.True(t, p.renumber, "a template that came back is the newest again")
}

func TestLedger(t *testing.T) {
	book := newLedgers().open(testPool(1))
	require.False(t, book.settle(nil), "a new process compares with the API server first")

	book.compare(pods(testPod(0, isReady), testPod(1, isTerminating)), t0)
	require.False(t, book.settle(nil))
	require.False(t, book.settle(pods(testPod(0, isReady), testPod(1, isReady))), "the deletion is not seen yet")
	require.True(t, book.settle(pods(testPod(0, isReady), testPod(1, isTerminating))))

	book.created["new"] = pending{pod: "pool-2", since: t0}
	require.False(t, book.settle(pods(testPod(0, isReady))))
	require.Empty(t, book.overdue(t0.Add(time.Second), expectationTimeout))
	require.Len(t, book.overdue(t0.Add(time.Minute), expectationTimeout), 1)
}

func TestLedgerForgetsPodsThatCameAndWent(t *testing.T) {
	books := newLedgers()
	pool := testPool(1)
	book := books.open(pool)
	book.compare(nil, t0)
	books.podGone(keyOf(pool), "brief") // the event may come before the create returns
	book.created["brief"] = pending{pod: "pool-0", since: t0}
	require.True(t, books.open(pool).settle(nil))
}

func TestLedgerOfANamesakeIsFresh(t *testing.T) {
	books := newLedgers()
	books.open(testPool(1)).verified = true
	again := testPool(1, func(w *v1alpha1.WorkerPool) { w.UID = "other" })
	require.False(t, books.open(again).verified)
}

func TestBackoffDoublesUpToItsCapAndForgets(t *testing.T) {
	var b backoff
	var delays []time.Duration
	for now := t0; len(delays) < 7; now = b.until {
		b = b.fail(now, replaceBackoffFirst, replaceBackoffCap)
		delays = append(delays, b.until.Sub(now))
	}
	require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second,
		160 * time.Second, 300 * time.Second, 300 * time.Second}, delays)
	later := b.until.Add(replaceBackoffCap + time.Second)
	require.Equal(t, later.Add(replaceBackoffFirst), b.fail(later, replaceBackoffFirst, replaceBackoffCap).until)
}

func TestBackoffsStartAgainWithANewSpec(t *testing.T) {
	book := newLedgers().open(testPool(1))
	book.adopt(1, "a")
	book.replace, book.refusal = backoff{failures: 3, until: t0.Add(time.Hour)}, &refusal{}
	book.adopt(1, "a")
	require.NotNil(t, book.refusal)
	book.adopt(2, "a")
	require.Nil(t, book.refusal, "whatever changed may be what was refused")
	require.NotZero(t, book.replace, "an autoscaler that writes replicas mends no crash")
	book.adopt(3, "b")
	require.Zero(t, book.replace)
}

func TestSlotOf(t *testing.T) {
	for name, want := range map[string]int{"pool-0": 0, "pool-12": 12, "pool-01": -1, "pool-x": -1, "pool--1": -1, "other-1": -1} {
		require.Equal(t, want, slotOf("pool", name), name)
	}
}
