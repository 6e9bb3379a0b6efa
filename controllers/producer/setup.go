package producer

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workpull/operator/api/v1alpha1"
)

// +kubebuilder:rbac:groups=workpull.dev,resources=producers,verbs=get;list;watch
// +kubebuilder:rbac:groups=workpull.dev,resources=producers/status,verbs=get;patch
// +kubebuilder:rbac:groups=workpull.dev,resources=producers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("producer").
		For(&v1alpha1.Producer{}).
		Owns(&appsv1.Deployment{}).
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

// producerOf maps a producer pod to its Producer.
func producerOf(_ context.Context, pod client.Object) []ctrl.Request {
	labels := pod.GetLabels()
	if labels[v1alpha1.LabelComponent] != v1alpha1.ComponentProducer {
		return nil
	}
	key := client.ObjectKey{Namespace: pod.GetNamespace(), Name: labels[v1alpha1.LabelProducer]}
	return []ctrl.Request{{NamespacedName: key}}
}
