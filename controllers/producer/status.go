package producer

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/children"
)

// makeStatus is pure: what was observed, and what came of the plan → status.
func makeStatus(s state, out outcome) v1alpha1.ProducerStatus {
	status := *s.producer.Status.DeepCopy()
	status.ObservedGeneration = s.producer.Generation
	status.ActivePod = s.activePod()
	status.Endpoint = children.Endpoint(s.producer.Namespace, s.producer.Name, s.producer.Spec.Intake.Service.Port)
	for _, c := range []metav1.Condition{available(s), progressing(s, out), degraded(s, out)} {
		c.ObservedGeneration = s.producer.Generation
		c.LastTransitionTime = metav1.NewTime(s.now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

func available(s state) metav1.Condition {
	if s.activePod() != "" {
		return metav1.Condition{
			Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue,
			Reason: v1alpha1.ReasonReady, Message: "the intake takes jobs",
		}
	}
	c := metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonPodNotReady, Message: "the producer has no ready pod",
	}
	if s.workload != nil && s.workload.refused != "" {
		c.Message += ": " + s.workload.refused
		return c
	}
	if t := troubleOf(s); t.reason != "" {
		c.Reason, c.Message = t.reason, t.message
	}
	return c
}

func progressing(s state, out outcome) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonDeploying, Message: "the producer's pods are rolling out"}
	if len(s.invalid) > 0 || len(out.applied) == 0 && s.workload != nil && s.workload.rolledOut {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonStable, "nothing is being changed"
	}
	return c
}

func degraded(s state, out outcome) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue}
	switch t := troubleOf(s); {
	case len(s.invalid) > 0:
		c.Reason, c.Message = v1alpha1.ReasonInvalidSpec, s.invalid.ToAggregate().Error()
	case len(out.conflicts) > 0:
		c.Reason = v1alpha1.ReasonNameConflict
		c.Message = strings.Join(out.conflicts, ", ") + " exists and does not belong to this Producer; delete or rename it"
	case out.childErr != nil:
		c.Reason, c.Message = v1alpha1.ReasonChildFailed, out.childErr.Error()
	case t.acts:
		c.Reason, c.Message = t.reason, t.message
	case s.workload != nil && s.workload.stuck != "":
		c.Reason, c.Message = v1alpha1.ReasonChildFailed, s.workload.stuck
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonAsExpected, "nobody has to act"
	}
	return c
}
