// Package producer reconciles a Producer into its workload: ServiceAccount,
// Role, RoleBinding, Services, Deployment or StatefulSet, and what standbys need.
package producer

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	out, executeErr := r.execute(ctx, producer.Namespace, makePlan(s))
	status := makeStatus(s, out)
	if err := errors.Join(executeErr, r.writeStatus(ctx, s, status)); err != nil {
		return ctrl.Result{}, err
	}
	apply.Warn(r.Recorder, s.producer, s.producer.Status.Conditions, status.Conditions, v1alpha1.ConditionDegraded)
	if len(out.applied) > 0 {
		r.Recorder.Eventf(&producer, nil, corev1.EventTypeNormal, v1alpha1.EventChildApplied, "Apply",
			"applied %s", strings.Join(out.applied, ", "))
	}
	if out.enlarged != "" {
		r.Recorder.Eventf(&producer, nil, corev1.EventTypeNormal, v1alpha1.EventVolumeEnlarged, "Enlarge", "enlarged claim %s", out.enlarged)
	}
	if out.activated != "" {
		r.Recorder.Eventf(&producer, nil, corev1.EventTypeNormal, v1alpha1.EventActivated, "Label", "pod %s is the active one", out.activated)
	}
	if len(out.conflicts) > 0 || out.childErr != nil {
		return ctrl.Result{RequeueAfter: conflictInterval}, nil
	}
	return ctrl.Result{}, nil
}

// writeStatus writes the status when it changed, at most once.
func (r *Reconciler) writeStatus(ctx context.Context, s state, status v1alpha1.ProducerStatus) error {
	if apiequality.Semantic.DeepEqual(s.producer.Status, status) {
		return nil
	}
	return apply.Status(ctx, r.Client, s.producer, v1alpha1.ProducerKind, &status)
}
