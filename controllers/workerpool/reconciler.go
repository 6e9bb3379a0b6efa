// Package workerpool reconciles a WorkerPool into pods that the operator
// manages itself: only so can it choose which worker leaves.
package workerpool

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
)

// countInterval is how often counts alone are written to the status.
const countInterval = 5 * time.Second

// conflictInterval is how often a name that somebody else has is looked at.
const conflictInterval = 30 * time.Second

// Reconciler keeps the pods of WorkerPools as they should be.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Recorder takes events.
	Recorder events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock

	books *ledgers
}

// Reconcile observes, plans, executes and writes one status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pool v1alpha1.WorkerPool
	if err := r.Client.Get(ctx, req.NamespacedName, &pool); err != nil {
		if apierrors.IsNotFound(err) {
			r.books.close(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get WorkerPool: %w", err)
	}
	if pool.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // the garbage collector deletes the pods
	}
	book := r.books.open(&pool)

	s, err := r.observe(ctx, &pool, book)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := makePlan(s)
	out, executeErr := r.execute(ctx, s, p, book)
	status := makeStatus(s, out)
	wait, err := r.writeStatus(ctx, s, status, book)
	if err != nil || executeErr != nil {
		return ctrl.Result{}, errors.Join(executeErr, err)
	}
	r.announce(s.pool, status, out)
	return ctrl.Result{RequeueAfter: next(s, p, out, book, wait)}, nil
}

// writeStatus writes the status when it changed, at most once. Server-side
// apply of the whole status cannot conflict with edits of labels or spec
// (S24). Counts alone wait until the last write is countInterval ago; it
// returns for how long.
func (r *Reconciler) writeStatus(ctx context.Context, s state, after v1alpha1.WorkerPoolStatus, book *ledger) (time.Duration, error) {
	before := s.pool.Status
	if apiequality.Semantic.DeepEqual(before, after) {
		return 0, nil
	}
	if due := book.statusWritten.Add(countInterval); onlyCountsChanged(before, after) && s.now.Before(due) {
		return due.Sub(s.now), nil
	}
	if err := apply.Status(ctx, r.Client, s.pool, v1alpha1.WorkerPoolKind, &after); err != nil {
		return 0, err
	}
	book.statusWritten = s.now
	return 0, nil
}

// next is when to look again without an event.
func next(s state, p plan, out outcome, book *ledger, wait time.Duration) time.Duration {
	after := wait
	sooner := func(d time.Duration) {
		if d > 0 && (after == 0 || d < after) {
			after = d
		}
	}
	if !p.wake.IsZero() {
		sooner(p.wake.Sub(s.now))
	}
	if out.refusal != nil {
		sooner(out.refusal.backoff.until.Sub(s.now))
	}
	if len(out.conflicts) > 0 {
		sooner(conflictInterval)
	}
	if !s.settled || !book.verified || len(book.created) > 0 {
		sooner(expectationTimeout)
	}
	return after
}
