package workerpool

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/children"
	"github.com/workpull/operator/controllers/podstate"
)

// makeStatus is pure: what was observed, and what came of the plan → status.
// Counts are those of the observed pods, before the plan.
func makeStatus(s state, out outcome) v1alpha1.WorkerPoolStatus {
	status := *s.pool.Status.DeepCopy()
	desired := *s.pool.Spec.Replicas
	status.ObservedGeneration = s.pool.Generation
	status.Selector = labels.SelectorFromSet(children.PoolSelector(s.pool.Name)).String()
	status.DesiredReplicas = desired
	count(&status, s.workers)
	status.Replicas = min(status.Replicas, desired) // S18

	for _, c := range []metav1.Condition{
		available(s, status), progressing(s, status), replicaFailure(s, out), degraded(s, out),
	} {
		c.ObservedGeneration = s.pool.Generation
		c.LastTransitionTime = metav1.NewTime(s.now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

func count(status *v1alpha1.WorkerPoolStatus, workers []worker) {
	status.Replicas, status.StartingReplicas, status.ReadyReplicas = 0, 0, 0
	status.TerminatingReplicas, status.UpdatedReplicas, status.FailedReplicas = 0, 0, 0
	for _, w := range workers {
		if w.class != terminating && w.class != finished {
			status.Replicas++
			if !w.outdated {
				status.UpdatedReplicas++
			}
		}
		switch w.class {
		case terminating:
			status.TerminatingReplicas++
		case lost, finished, crashing, overdue:
			status.FailedReplicas++
		case unscheduled, starting:
			status.StartingReplicas++
		case ready:
			status.ReadyReplicas++
		case unready: // neither ready nor starting
		}
	}
}

func available(s state, status v1alpha1.WorkerPoolStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAvailable}
	switch {
	case status.DesiredReplicas == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonScaledToZero, "no worker is wanted"
	case status.ReadyReplicas >= status.DesiredReplicas:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonReady, "every worker is ready"
	default:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonWorkersNotReady
		c.Message = "fewer workers are ready than are wanted"
	}
	return c
}

func progressing(s state, status v1alpha1.WorkerPoolStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue}
	rolling := slices.ContainsFunc(s.workers, func(w worker) bool { return w.outdated && w.present() })
	switch {
	case rolling && len(s.invalid) == 0:
		c.Reason, c.Message = v1alpha1.ReasonRollingOut, "workers of an older template are being replaced"
	case status.Replicas != status.DesiredReplicas || status.StartingReplicas > 0 || status.TerminatingReplicas > 0:
		c.Reason, c.Message = v1alpha1.ReasonScaling, "workers are starting or leaving"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonStable, "no worker is starting or leaving"
	}
	return c
}

// failure is one way in which pods fail, as the condition shows it.
type failure struct {
	reason  string
	message string
	is      func(w worker) bool
}

// failures, the most telling first.
var failures = []failure{
	{v1alpha1.ReasonCrashLoopBackOff, "crash again and again and are replaced with a backoff",
		func(w worker) bool { return w.class == crashing }},
	{v1alpha1.ReasonPodFailed, "ended and are replaced",
		func(w worker) bool { return w.class == finished }},
	{v1alpha1.ReasonStartupDeadlineExceeded, "were not ready within spec.startupDeadlineSeconds and are replaced with a backoff",
		func(w worker) bool { return w.class == overdue }},
	{v1alpha1.ReasonNodeLost, "are on a node that does not report and have been replaced",
		func(w worker) bool { return w.class == lost }},
	{v1alpha1.ReasonImagePullFailed, "cannot pull an image",
		func(w worker) bool { return w.class == starting && imagePull(w.pod) != "" }},
	{v1alpha1.ReasonUnschedulable, "find no node",
		func(w worker) bool { return w.class == unscheduled && podstate.Unschedulable(w.pod) }},
}

func replicaFailure(s state, out outcome) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReplicaFailure, Status: metav1.ConditionTrue}
	if out.refusal != nil {
		c.Reason, c.Message = out.refusal.reason, out.refusal.message
		return c
	}
	for _, f := range failures {
		if pods := podsThat(s.workers, f.is); len(pods) > 0 {
			c.Reason = f.reason
			c.Message = naming(namesOf(pods)) + " " + f.message + detail(pods[0])
			return c
		}
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonNoFailure, "no pod fails or is refused"
	return c
}

func degraded(s state, out outcome) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue}
	switch {
	case len(s.invalid) > 0:
		c.Reason, c.Message = v1alpha1.ReasonInvalidSpec, s.invalid.ToAggregate().Error()
	case len(out.conflicts) > 0:
		c.Reason = v1alpha1.ReasonNameConflict
		c.Message = strings.Join(out.conflicts, ", ") + " exists and does not belong to this WorkerPool; delete or rename it"
	case !s.producer:
		c.Reason = v1alpha1.ReasonProducerNotFound
		c.Message = fmt.Sprintf("Producer %s does not exist or is being deleted; workers are kept, none is made", s.pool.Spec.ProducerRef.Name)
	case out.childErr != nil:
		c.Reason, c.Message = v1alpha1.ReasonChildFailed, out.childErr.Error()
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonAsExpected, "nobody has to act"
	}
	return c
}

func podsThat(workers []worker, is func(worker) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, w := range workers {
		if is(w) {
			out = append(out, w.pod)
		}
	}
	return out
}

func namesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// naming lists up to three pods: a note of an event holds 1,024 bytes.
func naming(names []string) string {
	shown := names[:min(3, len(names))]
	if more := len(names) - len(shown); more > 0 {
		return fmt.Sprintf("pods %s and %d more", strings.Join(shown, ", "), more)
	}
	return "pods " + strings.Join(shown, ", ")
}

// detail is what the cluster says about one of the pods. It holds nothing that
// changes from look to look, such as a count of restarts.
func detail(pod *corev1.Pod) string {
	name := crashLoop(pod)
	if name == "" {
		name = imagePull(pod)
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			if status.Name != name {
				continue
			}
			if t := status.LastTerminationState.Terminated; t != nil {
				return fmt.Sprintf(": container %s ended with exit code %d (%s)", name, t.ExitCode, t.Reason)
			}
			return fmt.Sprintf(": container %s, image %s", name, status.Image)
		}
	}
	if pod.Status.Reason != "" {
		return fmt.Sprintf(": %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	return ""
}

// onlyCountsChanged tells whether a status differs in counts at most, which
// may wait a little.
func onlyCountsChanged(before, after v1alpha1.WorkerPoolStatus) bool {
	before.Replicas, before.StartingReplicas, before.ReadyReplicas = after.Replicas, after.StartingReplicas, after.ReadyReplicas
	before.TerminatingReplicas, before.UpdatedReplicas, before.FailedReplicas = after.TerminatingReplicas, after.UpdatedReplicas, after.FailedReplicas
	return apiequality.Semantic.DeepEqual(before, after)
}
