package workerpool

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/workpull/operator/api/v1alpha1"
)

func TestStatusCounts(t *testing.T) {
	s := testState(testPool(5),
		testPod(0, isReady), testPod(1, isReady, isOutdated), testPod(2, isStarting), testPod(3, isUnscheduled),
		testPod(4, isTerminating), testPod(5, isFailed), testPod(6, isCrashing), testPod(7, isLost), testPod(8, isUnready))
	got := makeStatus(s, outcome{})
	got.Conditions = nil
	require.Equal(t, v1alpha1.WorkerPoolStatus{
		ObservedGeneration: 1, Selector: "app.kubernetes.io/component=worker,workpull.dev/pool=pool",
		DesiredReplicas: 5, Replicas: 5, ReadyReplicas: 2, StartingReplicas: 2, TerminatingReplicas: 1,
		UpdatedReplicas: 6, FailedReplicas: 3,
	}, got)
}

// S18: an autoscaler that reads /scale must not see surge pods.
func TestStatusReplicasNeverExceedTheDesired(t *testing.T) {
	pods := []*corev1.Pod{testPod(0, isReady), testPod(1, isReady), testPod(2, isTerminating)}
	require.Equal(t, int32(2), makeStatus(testState(testPool(3), pods...), outcome{}).Replicas)
	require.Equal(t, int32(1), makeStatus(testState(testPool(1), pods...), outcome{}).Replicas)
}

func TestStatusConditions(t *testing.T) {
	refused := outcome{refusal: &refusal{reason: v1alpha1.ReasonQuotaExceeded, message: "exceeded quota: q"}}
	noProducer := func(s *state) { s.producer = false }
	tests := map[string]struct {
		replicas int32
		pods     []*corev1.Pod
		change   func(*state)
		out      outcome
		want     map[string]string // type → "status reason"
		message  [2]string         // type, part
	}{
		"all is well": {replicas: 1, pods: pods(testPod(0, isReady)), want: map[string]string{
			"Available": "True Ready", "Progressing": "False Stable", "ReplicaFailure": "False NoFailure", "Degraded": "False AsExpected"}},
		"zero": {replicas: 0, want: map[string]string{"Available": "True ScaledToZero", "Progressing": "False Stable"}},
		"starting": {replicas: 1, pods: pods(testPod(0, isStarting)), want: map[string]string{
			"Available": "False WorkersNotReady", "Progressing": "True Scaling"}},
		"leaving": {replicas: 0, pods: pods(testPod(0, isTerminating)), want: map[string]string{"Progressing": "True Scaling"}},
		"rolling out": {replicas: 1, pods: pods(testPod(0, isReady, isOutdated)), want: map[string]string{
			"Available": "True Ready", "Progressing": "True RollingOut"}},
		"S20: quota": {replicas: 2, pods: pods(testPod(0, isReady)), out: refused,
			want:    map[string]string{"ReplicaFailure": "True QuotaExceeded", "Available": "False WorkersNotReady"},
			message: [2]string{"ReplicaFailure", "exceeded quota"}},
		"crash": {replicas: 1, pods: pods(testPod(0, isCrashing)),
			want:    map[string]string{"ReplicaFailure": "True CrashLoopBackOff"},
			message: [2]string{"ReplicaFailure", "pool-0 crash again and again and are replaced with a backoff: container worker ended with exit code 2 (Error)"}},
		"evicted": {replicas: 1, pods: pods(testPod(0, isFailed)),
			want:    map[string]string{"ReplicaFailure": "True PodFailed"},
			message: [2]string{"ReplicaFailure", "Evicted: low on memory"}},
		"overdue": {replicas: 1, pods: pods(testPod(0, isStarting, isOld)),
			want: map[string]string{"ReplicaFailure": "True StartupDeadlineExceeded"}},
		"lost node": {replicas: 1, pods: pods(testPod(0, isLost)), want: map[string]string{"ReplicaFailure": "True NodeLost"}},
		"image": {replicas: 1, pods: pods(testPod(0, onNode, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", Image: "example",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		})), want: map[string]string{"ReplicaFailure": "True ImagePullFailed"},
			message: [2]string{"ReplicaFailure", "container worker, image example"}},
		"unschedulable": {replicas: 1, pods: pods(testPod(0, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
		})), want: map[string]string{"ReplicaFailure": "True Unschedulable"}},
		"producer not found": {replicas: 1, change: noProducer,
			want: map[string]string{"Degraded": "True ProducerNotFound"}, message: [2]string{"Degraded", "Producer jobs"}},
		"name taken": {replicas: 1, out: outcome{conflicts: []string{"Pod pool-0"}},
			want: map[string]string{"Degraded": "True NameConflict"}, message: [2]string{"Degraded", "Pod pool-0"}},
		"account refused": {replicas: 1, out: outcome{childErr: errors.New("no such verb")},
			want: map[string]string{"Degraded": "True ChildFailed"}, message: [2]string{"Degraded", "no such verb"}},
		"invalid": {replicas: 1, change: func(s *state) {
			s.invalid = field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), -1, "must be between 0 and 1000")}
		}, want: map[string]string{"Degraded": "True InvalidSpec"}, message: [2]string{"Degraded", "spec.replicas"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := testState(testPool(tt.replicas), tt.pods...)
			if tt.change != nil {
				tt.change(&s)
			}
			status := makeStatus(s, tt.out)
			require.Len(t, status.Conditions, 4)
			for conditionType, want := range tt.want {
				c := meta.FindStatusCondition(status.Conditions, conditionType)
				require.Equal(t, want, string(c.Status)+" "+c.Reason, conditionType)
				require.Equal(t, int64(1), c.ObservedGeneration)
			}
			if tt.message[0] != "" {
				require.Contains(t, meta.FindStatusCondition(status.Conditions, tt.message[0]).Message, tt.message[1])
			}
		})
	}
}

// S23: what did not change is the same value, so that it is not written.
func TestStatusIsStable(t *testing.T) {
	s := testState(testPool(1), testPod(0, isReady))
	s.pool.Status = makeStatus(s, outcome{})
	s.now = s.now.Add(time.Hour)
	require.Equal(t, s.pool.Status, makeStatus(s, outcome{}))
}

func TestOnlyCountsMayWait(t *testing.T) {
	before := makeStatus(testState(testPool(2), testPod(0, isStarting), testPod(1, isStarting)), outcome{})
	after := *before.DeepCopy()
	after.ReadyReplicas, after.StartingReplicas = 1, 1
	require.True(t, onlyCountsChanged(before, after))
	after.DesiredReplicas = 3
	require.False(t, onlyCountsChanged(before, after))
	after = *before.DeepCopy()
	meta.SetStatusCondition(&after.Conditions, metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "Ready"})
	require.False(t, onlyCountsChanged(before, after))
}
