package producer

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/workpull/operator/api/v1alpha1"
)

// +kubebuilder:rbac:groups=workpull.dev,resources=producers,verbs=get;list;watch
// +kubebuilder:rbac:groups=workpull.dev,resources=producers/status,verbs=get;patch
// +kubebuilder:rbac:groups=workpull.dev,resources=producers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// Deleted to be made again with another size of its claim.
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// Updates are the pods': nobody can grant what it does not hold.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;patch;update
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("producer").
		For(&v1alpha1.Producer{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&coordinationv1.Lease{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: holderChanged})).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(producerOf)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the Producer controller: %w", err)
	}
	return nil
}

// holderChanged keeps the renewals of a Lease, two a second, from being
// reconciled.
func holderChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*coordinationv1.Lease)
	after, also := e.ObjectNew.(*coordinationv1.Lease)
	return !ok || !also || ptr.Deref(before.Spec.HolderIdentity, "") != ptr.Deref(after.Spec.HolderIdentity, "") ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
}

// producerOf maps a producer pod to its Producer.
func producerOf(_ context.Context, pod client.Object) []ctrl.Request {
	labels := pod.GetLabels()
	if labels[v1alpha1.LabelComponent] != v1alpha1.ComponentProducer {
		return nil
	}
	key := client.ObjectKey{Namespace: pod.GetNamespace(), Name: labels[v1alpha1.LabelProducer]}
	return []ctrl.Request{{NamespacedName: key}}
}
