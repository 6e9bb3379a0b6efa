package producer

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/children"
)

// makeStatus is pure: what was observed, and what came of the plan → status.
func makeStatus(s state, out outcome) v1alpha1.ProducerStatus {
	status := *s.producer.Status.DeepCopy()
	status.ObservedGeneration = s.producer.Generation
	status.ActivePod = s.activePod
	status.Endpoint = children.Endpoint(s.producer.Namespace, s.producer.Name, s.producer.Spec.Intake.Service.Port)
	for _, c := range []metav1.Condition{available(s), progressing(s, out), degraded(s, out)} {
		c.ObservedGeneration = s.producer.Generation
		c.LastTransitionTime = metav1.NewTime(s.now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

func available(s state) metav1.Condition {
	if s.activePod != "" {
		return metav1.Condition{
			Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue,
			Reason: v1alpha1.ReasonReady, Message: "the intake takes jobs",
		}
	}
	message := "the producer has no ready pod"
	if why := deploymentSays(s.deployment, appsv1.DeploymentReplicaFailure, corev1.ConditionTrue); why != "" {
		message += ": " + why
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonPodNotReady, Message: message,
	}
}

func progressing(s state, out outcome) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonDeploying, Message: "the producer's Deployment is rolling out"}
	if len(s.invalid) > 0 || len(out.applied) == 0 && rolledOut(s.deployment) {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonStable, "nothing is being changed"
	}
	return c
}

// rolledOut tells whether the Deployment's one pod is of the current template
// and available.
func rolledOut(d *appsv1.Deployment) bool {
	return d != nil && d.Status.ObservedGeneration >= d.Generation &&
		d.Status.Replicas == 1 && d.Status.UpdatedReplicas == 1 && d.Status.AvailableReplicas == 1
}

func degraded(s state, out outcome) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue}
	switch {
	case len(s.invalid) > 0:
		c.Reason, c.Message = v1alpha1.ReasonInvalidSpec, s.invalid.ToAggregate().Error()
	case len(out.conflicts) > 0:
		c.Reason = v1alpha1.ReasonNameConflict
		c.Message = strings.Join(out.conflicts, ", ") + " exists and does not belong to this Producer; delete or rename it"
	case out.childErr != nil:
		c.Reason, c.Message = v1alpha1.ReasonChildFailed, out.childErr.Error()
	default:
		if why := deploymentSays(s.deployment, appsv1.DeploymentProgressing, corev1.ConditionFalse); why != "" {
			c.Reason, c.Message = v1alpha1.ReasonChildFailed, why
			return c
		}
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonAsExpected, "nobody has to act"
	}
	return c
}

// deploymentSays is the message of a Deployment's condition when it has the
// status, or "".
func deploymentSays(d *appsv1.Deployment, t appsv1.DeploymentConditionType, status corev1.ConditionStatus) string {
	if d == nil {
		return ""
	}
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == t && c.Status == status
	})
	if i < 0 {
		return ""
	}
	return d.Status.Conditions[i].Message
}
