package producer

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
	"github.com/workpull/operator/controllers/children"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testState(change ...func(*state)) state {
	p := &v1alpha1.Producer{ObjectMeta: metav1.ObjectMeta{Name: "jobs", Namespace: "ns", Generation: 4}}
	p.Spec.Queue.Memory = &v1alpha1.MemoryQueue{}
	p.SetDefaults()
	s := state{now: t0, producer: p}
	for _, c := range change {
		c(&s)
	}
	return s
}

func deployed(s *state) {
	s.deployment = &appsv1.Deployment{Status: appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}}
	s.activePod = "jobs-producer-x"
}

func TestPlanAppliesWhatDiffersAndLeavesStrangersAlone(t *testing.T) {
	child := func(name string) apply.Observed {
		return apply.Observed{Child: children.Child{Kind: "Service", Name: name}}
	}
	missing, current, changed, foreign, leaving := child("missing"), child("current"), child("changed"), child("foreign"), child("leaving")
	current.Live, current.Current = &corev1.Service{}, true
	changed.Live = &corev1.Service{}
	foreign.Live, foreign.Foreign = &corev1.Service{}, true
	leaving.Live = &corev1.Service{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.NewTime(t0))}}

	s := testState()
	s.children = []apply.Observed{missing, current, changed, foreign, leaving}
	p := makePlan(s)
	names := []string{}
	for _, o := range p.apply {
		names = append(names, o.Name)
	}
	require.Equal(t, []string{"missing", "changed"}, names)
	require.Equal(t, []string{"Service foreign"}, p.conflicts)

	s.invalid = field.ErrorList{field.Required(field.NewPath("spec", "queue"), "set one")}
	require.Equal(t, plan{}, makePlan(s), "an invalid spec changes nothing")
}

func TestStatusConditions(t *testing.T) {
	says := func(t appsv1.DeploymentConditionType, status corev1.ConditionStatus, message string) func(*state) {
		return func(s *state) {
			s.deployment = &appsv1.Deployment{Status: appsv1.DeploymentStatus{
				Conditions: []appsv1.DeploymentCondition{{Type: t, Status: status, Message: message}}}}
		}
	}
	tests := map[string]struct {
		change  func(*state)
		out     outcome
		want    map[string]string
		message string // part of any condition's message
	}{
		"serves":   {deployed, outcome{}, map[string]string{"Available": "True Ready", "Progressing": "False Stable", "Degraded": "False AsExpected"}, ""},
		"new":      {func(*state) {}, outcome{applied: []string{"x"}}, map[string]string{"Available": "False PodNotReady", "Progressing": "True Deploying", "Degraded": "False AsExpected"}, ""},
		"changing": {deployed, outcome{applied: []string{"x"}}, map[string]string{"Available": "True Ready", "Progressing": "True Deploying"}, ""},
		"invalid": {func(s *state) {
			s.invalid = field.ErrorList{field.Required(field.NewPath("spec", "queue"), "set one")}
		}, outcome{}, map[string]string{"Degraded": "True InvalidSpec", "Progressing": "False Stable"}, "spec.queue"},
		"name taken": {func(*state) {}, outcome{conflicts: []string{"Service jobs"}}, map[string]string{"Degraded": "True NameConflict"}, "Service jobs exists"},
		"refused":    {func(*state) {}, outcome{childErr: errors.New("no")}, map[string]string{"Degraded": "True ChildFailed"}, "no"},
		"quota": {says(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "exceeded quota"), outcome{},
			map[string]string{"Available": "False PodNotReady"}, "exceeded quota"},
		"stuck": {says(appsv1.DeploymentProgressing, corev1.ConditionFalse, "deadline exceeded"), outcome{},
			map[string]string{"Degraded": "True ChildFailed"}, "deadline exceeded"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			status := makeStatus(testState(tt.change), tt.out)
			require.Equal(t, int64(4), status.ObservedGeneration)
			require.Equal(t, "http://jobs.ns.svc", status.Endpoint)
			require.Len(t, status.Conditions, 3)
			messages := ""
			for _, c := range status.Conditions {
				messages += c.Message + "\n"
			}
			require.Contains(t, messages, tt.message)
			for conditionType, want := range tt.want {
				c := meta.FindStatusCondition(status.Conditions, conditionType)
				require.Equal(t, want, string(c.Status)+" "+c.Reason, conditionType)
			}
		})
	}
}

// S23: what did not change is the same value, so that it is not written.
func TestStatusIsStable(t *testing.T) {
	s := testState(deployed)
	s.producer.Status = makeStatus(s, outcome{})
	require.Equal(t, "jobs-producer-x", s.producer.Status.ActivePod)
	s.now = s.now.Add(time.Hour)
	require.Equal(t, s.producer.Status, makeStatus(s, outcome{}))
}
