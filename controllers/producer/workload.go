package producer

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workload is what the status wants to know of the Deployment or StatefulSet.
type workload struct {
	rolledOut bool   // every pod is of the current template and available
	refused   string // why a pod cannot be made, or ""
	stuck     string // why the rollout does not go on, or ""
}

// workloadOf looks at a live object; ok is false for any other kind.
func workloadOf(live client.Object) (w workload, ok bool) {
	switch o := live.(type) {
	case *appsv1.Deployment:
		want := ptr.Deref(o.Spec.Replicas, 1)
		return workload{
			rolledOut: o.Status.ObservedGeneration >= o.Generation && o.Status.Replicas == want &&
				o.Status.UpdatedReplicas == want && o.Status.AvailableReplicas == want,
			refused: deploymentSays(o, appsv1.DeploymentReplicaFailure, corev1.ConditionTrue),
			stuck:   deploymentSays(o, appsv1.DeploymentProgressing, corev1.ConditionFalse),
		}, true
	case *appsv1.StatefulSet:
		want := ptr.Deref(o.Spec.Replicas, 1)
		return workload{
			rolledOut: o.Status.ObservedGeneration >= o.Generation && o.Status.Replicas == want &&
				o.Status.UpdatedReplicas == want && o.Status.AvailableReplicas == want,
		}, true
	}
	return workload{}, false
}

// deploymentSays is the message of a Deployment's condition when it has the
// status, or "".
func deploymentSays(d *appsv1.Deployment, t appsv1.DeploymentConditionType, status corev1.ConditionStatus) string {
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == t && c.Status == status
	})
	if i < 0 {
		return ""
	}
	return d.Status.Conditions[i].Message
}

// recreation is a StatefulSet whose template of the claim is not what it should
// be. It cannot be changed: the claim is enlarged, and the StatefulSet made
// again while its pod runs on.
type recreation struct {
	name  string
	uid   types.UID
	claim string // its name
	size  resource.Quantity
}
