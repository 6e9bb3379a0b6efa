package workerpool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workpull/operator/api/v1alpha1"
)

// concurrentReconciles is how many pools are reconciled at once.
const concurrentReconciles = 4

// +kubebuilder:rbac:groups=workpull.dev,resources=workerpools,verbs=get;list;watch
// +kubebuilder:rbac:groups=workpull.dev,resources=workerpools/status,verbs=get;patch
// +kubebuilder:rbac:groups=workpull.dev,resources=workerpools/finalizers,verbs=update
// +kubebuilder:rbac:groups=workpull.dev,resources=producers,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.Init()
	err := ctrl.NewControllerManagedBy(mgr).
		Named("workerpool").
		For(&v1alpha1.WorkerPool{}).
		Watches(&corev1.Pod{}, r.podHandler(mgr)).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&v1alpha1.Producer{}, handler.EnqueueRequestsFromMapFunc(r.poolsOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentReconciles}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the WorkerPool controller: %w", err)
	}
	return nil
}

// Init makes a reconciler usable without a manager.
func (r *Reconciler) Init() {
	if r.books == nil {
		r.books = newLedgers()
	}
}

// podHandler enqueues a pod's pool, and notes the end of pods in the ledger
// first.
func (r *Reconciler) podHandler(mgr ctrl.Manager) handler.EventHandler {
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(),
		&v1alpha1.WorkerPool{}, handler.OnlyControllerOwner())
	return handler.Funcs{
		CreateFunc: owner.Create,
		UpdateFunc: owner.Update,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if ref := metav1.GetControllerOf(e.Object); ref != nil && ref.Kind == v1alpha1.WorkerPoolKind {
				r.books.podGone(types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: ref.Name}, e.Object.GetUID())
			}
			owner.Delete(ctx, e, q)
		},
		GenericFunc: owner.Generic,
	}
}

// poolsOf maps a Producer to the pools that name it.
func (r *Reconciler) poolsOf(ctx context.Context, producer client.Object) []reconcile.Request {
	var pools v1alpha1.WorkerPoolList
	if err := r.Client.List(ctx, &pools, client.InNamespace(producer.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list the WorkerPools of a Producer", "producer", producer.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range pools.Items {
		if pools.Items[i].Spec.ProducerRef.Name == producer.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pools.Items[i])})
		}
	}
	return requests
}
