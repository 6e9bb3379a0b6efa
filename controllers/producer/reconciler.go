// Package producer reconciles a Producer into its workload: ServiceAccount,
// Role, RoleBinding, Services and Deployment.
package producer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
	"github.com/workpull/operator/controllers/children"
)

// conflictInterval is how often a name that somebody else has is looked at.
const conflictInterval = 30 * time.Second

// Reconciler keeps the children of Producers as they should be.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Recorder takes events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Image is the stock intake image.
	Image children.StockImage
}

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

// Reconcile observes, plans, executes and writes one status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var producer v1alpha1.Producer
	if err := r.Client.Get(ctx, req.NamespacedName, &producer); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if producer.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // the garbage collector deletes the children
	}
	s, err := r.observe(ctx, &producer)
	if err != nil {
		return ctrl.Result{}, err
	}
	out, executeErr := r.execute(ctx, makePlan(s))
	if err := errors.Join(executeErr, r.writeStatus(ctx, s, out)); err != nil {
		return ctrl.Result{}, err
	}
	if len(out.applied) > 0 {
		r.Recorder.Eventf(&producer, nil, corev1.EventTypeNormal, v1alpha1.EventChildApplied, "Apply",
			"applied %s", strings.Join(out.applied, ", "))
	}
	if len(out.conflicts) > 0 || out.childErr != nil {
		return ctrl.Result{RequeueAfter: conflictInterval}, nil
	}
	return ctrl.Result{}, nil
}

// writeStatus writes the status when it changed, at most once.
func (r *Reconciler) writeStatus(ctx context.Context, s state, out outcome) error {
	status := makeStatus(s, out)
	if apiequality.Semantic.DeepEqual(s.producer.Status, status) {
		return nil
	}
	return apply.Status(ctx, r.Client, s.producer, v1alpha1.ProducerKind, &status)
}
