package producer

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	s.workload = &workload{rolledOut: true}
	s.pods = []corev1.Pod{testPod("jobs-producer-x", v1alpha1.RoleActive, true)}
}

// testPod is a pod of a producer whose UID is its name.
func testPod(name, role string, ready bool, change ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Labels: map[string]string{v1alpha1.LabelRole: role}}}
	value := corev1.ConditionFalse
	if ready {
		value = corev1.ConditionTrue
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: value}, {Type: corev1.ContainersReady, Status: value}}
	for _, c := range change {
		c(&pod)
	}
	return pod
}

func inPostgres(replicas int32) func(*state) {
	return func(s *state) {
		s.producer.Spec.Replicas = &replicas
		s.producer.Spec.Queue = v1alpha1.Queue{Postgres: &v1alpha1.PostgresQueue{URLSecretKeyRef: v1alpha1.SecretKeyRef{Name: "database", Key: "url"}}}
	}
}

func onVolume(size string) func(*state) {
	return func(s *state) {
		claim := &v1alpha1.VolumeClaimTemplate{}
		claim.Spec.Resources.Requests.Storage = resource.MustParse(size)
		s.producer.Spec.Queue = v1alpha1.Queue{Embedded: &v1alpha1.EmbeddedQueue{VolumeClaimTemplate: claim}}
	}
}

// The pod that holds the Lease is labelled first, so that the Service always
// has one; where none holds it the labels stay.
func TestPlanLabelsTheHolderOfTheLease(t *testing.T) {
	const a, b, c = "jobs-producer-a", "jobs-producer-b", "jobs-producer-c"
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(t0)) }
	tests := map[string]struct {
		replicas int32
		holder   string
		want     []string
	}{
		"taken over":           {3, b + "_" + b, []string{b + " active", a + " standby"}},
		"as it is":             {3, a + "_" + a, []string{}},
		"nobody yet":           {3, "", []string{}},
		"a pod that is gone":   {3, "gone_gone", []string{}},
		"a namesake's UID":     {3, b + "_other", []string{}},
		"one pod, no election": {1, b + "_" + b, []string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := testState(inPostgres(tt.replicas))
			s.holder = tt.holder
			s.pods = []corev1.Pod{testPod(a, "active", true), testPod(b, "standby", true), testPod(c, "active", true, leaving)}
			got := []string{}
			for _, r := range makePlan(s).roles {
				got = append(got, r.pod.Name+" "+r.role)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// A StatefulSet cannot be given another size of its claim: it is made again.
func TestPlanEnlargesTheVolume(t *testing.T) {
	s := testState(onVolume("2Gi"))
	child, err := children.Workload(s.producer, children.StockImage{Name: "x"})
	require.NoError(t, err)
	live := func(size string) *appsv1.StatefulSet {
		claim := corev1.PersistentVolumeClaim{}
		claim.Labels = children.ProducerLabels("jobs")
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: child.Name, UID: "set"}}
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
		return set
	}
	s.children = []apply.Observed{{Child: child, Live: live("1Gi")}}
	p := makePlan(s)
	require.Empty(t, p.apply, "it would be refused")
	require.Equal(t, "workpull-queue-jobs-producer-0", p.recreate.claim)
	require.Equal(t, "2Gi", p.recreate.size.String())
	require.Equal(t, types.UID("set"), p.recreate.uid)

	s.children = []apply.Observed{{Child: child, Live: live("2048Mi")}}
	p = makePlan(s)
	require.Nil(t, p.recreate, "the same size in other words")
	require.Len(t, p.apply, 1)

	s.children = []apply.Observed{{Child: child}}
	require.Nil(t, makePlan(s).recreate)
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
			w, _ := workloadOf(&appsv1.Deployment{Status: appsv1.DeploymentStatus{
				Conditions: []appsv1.DeploymentCondition{{Type: t, Status: status, Message: message}}}})
			s.workload = &w
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
		"no secret": {both(inPostgres(1), with(testPod("x", "active", false, waits("CreateContainerConfigError", `secret "database" not found`)))), outcome{},
			map[string]string{"Available": "False QueueSecretNotFound", "Degraded": "True QueueSecretNotFound"}, "wants key url of Secret database"},
		"no key": {both(inPostgres(1), with(testPod("x", "active", false, waits("CreateContainerConfigError", `couldn't find key url in Secret ns/database`)))), outcome{},
			map[string]string{"Degraded": "True QueueSecretNotFound"}, "couldn't find key url"},
		"no other secret": {both(inPostgres(1), with(testPod("x", "active", false, waits("CreateContainerConfigError", `configmap "c" not found`)))), outcome{},
			map[string]string{"Available": "False ContainerConfigError", "Degraded": "True ContainerConfigError"}, "of pod x cannot be made"},
		"no image": {with(testPod("x", "active", false, waits("ImagePullBackOff", ""))), outcome{},
			map[string]string{"Available": "False ImagePullFailed", "Degraded": "False AsExpected"}, "container producer of pod x"},
		"no node": {with(testPod("x", "active", false, unscheduled)), outcome{},
			map[string]string{"Available": "False Unschedulable", "Degraded": "False AsExpected"}, "unbound immediate PersistentVolumeClaims"},
		"node lost, volume": {both(onVolume("1Gi"), with(testPod("x", "active", false, silent))), outcome{},
			map[string]string{"Available": "False NodeLost", "Degraded": "True NodeLost"}, "kubectl taint nodes n1 node.kubernetes.io/out-of-service"},
		"node lost, leaving": {both(onVolume("1Gi"), with(testPod("x", "active", false, silent, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(t0)) }))), outcome{},
			map[string]string{"Available": "False NodeLost", "Degraded": "True NodeLost"}, "out-of-service"},
		"node lost, postgres": {both(inPostgres(1), with(testPod("x", "active", false, silent))), outcome{},
			map[string]string{"Available": "False NodeLost", "Degraded": "False AsExpected"}, "five minutes"},
		"node lost, taken over": {both(inPostgres(2), with(testPod("x", "standby", false, silent), testPod("y", "active", true))), outcome{},
			map[string]string{"Available": "True Ready", "Degraded": "False AsExpected"}, ""},
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

func both(changes ...func(*state)) func(*state) {
	return func(s *state) {
		for _, c := range changes {
			c(s)
		}
	}
}

func with(pods ...corev1.Pod) func(*state) {
	return func(s *state) { s.pods = pods }
}

func waits(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "producer", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

func unscheduled(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "pod has unbound immediate PersistentVolumeClaims"})
}

// silent is a pod whose node does not report.
func silent(p *corev1.Pod) {
	p.Spec.NodeName = "n1"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
}

// A workload is rolled out when the live object says so of its last template.
func TestWorkloadIsRolledOut(t *testing.T) {
	for want, status := range map[bool]appsv1.StatefulSetStatus{
		true:  {ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
		false: {ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	} {
		w, ok := workloadOf(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: status})
		require.True(t, ok)
		require.Equal(t, want, w.rolledOut)
	}
	two := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
		Status: appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 1}}
	w, _ := workloadOf(two)
	require.False(t, w.rolledOut, "a standby is missing")
	_, ok := workloadOf(&corev1.Service{})
	require.False(t, ok)
}

// S23: what did not change is the same value, so that it is not written.
func TestStatusIsStable(t *testing.T) {
	s := testState(deployed)
	s.producer.Status = makeStatus(s, outcome{})
	require.Equal(t, "jobs-producer-x", s.producer.Status.ActivePod)
	s.now = s.now.Add(time.Hour)
	require.Equal(t, s.producer.Status, makeStatus(s, outcome{}))
}
