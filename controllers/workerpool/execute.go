package workerpool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
	"github.com/workpull/operator/controllers/children"
)

// outcome is what came of a plan.
type outcome struct {
	created   []string // pods
	deleted   []departure
	refusal   *refusal // of a pod, in force after this reconcile
	conflicts []string // objects of somebody else that have our names
	childErr  error    // of an account or a revision that was refused
}

// execute writes the plan to the API server and notes every pod write in the
// ledger. It is the only place that writes, except for the status.
func (r *Reconciler) execute(ctx context.Context, s state, p plan, book *ledger) (outcome, error) {
	out := outcome{refusal: book.refusal}
	for _, account := range s.accounts {
		if account.Foreign {
			out.conflicts = append(out.conflicts, account.Kind+" "+account.Name)
		}
	}
	if err := r.writeRevisions(ctx, s, p, book, &out); err != nil {
		return out, err
	}
	if err := r.writeAccounts(ctx, p, book, &out); err != nil {
		return out, err
	}
	if err := r.deletePods(ctx, p, book, &out); err != nil {
		return out, err
	}
	if p.replaced {
		book.replace = book.replace.fail(s.now, replaceBackoffFirst, replaceBackoffCap)
	}
	if err := r.createPods(ctx, s, p, book, &out); err != nil {
		return out, err
	}
	book.refusal = out.refusal
	return out, nil
}

func (r *Reconciler) writeRevisions(ctx context.Context, s state, p plan, book *ledger, out *outcome) error {
	switch {
	case p.revision == nil:
	case p.renumber:
		latest := p.revision.DeepCopy()
		latest.Revision = newestRevision(s.stored) + 1
		if err := r.Client.Patch(ctx, latest, client.MergeFrom(p.revision)); err != nil {
			return fmt.Errorf("renumber revision %s: %w", p.revision.Name, err)
		}
	default:
		err := r.Client.Create(ctx, p.revision.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			err = r.checkRevision(ctx, s.pool, p.revision, out)
		}
		if namespaceTerminates(err) {
			book.closing = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("create revision %s: %w", p.revision.Name, err)
		}
	}
	for _, revision := range p.expired {
		if err := r.Client.Delete(ctx, revision, client.Preconditions{UID: &revision.UID}); ignoreGone(err) != nil {
			return fmt.Errorf("delete revision %s: %w", revision.Name, err)
		}
	}
	return nil
}

// checkRevision tells a cache that lags, which is fine, from an object of
// somebody else.
func (r *Reconciler) checkRevision(ctx context.Context, pool *v1alpha1.WorkerPool, revision *appsv1.ControllerRevision, out *outcome) error {
	var live appsv1.ControllerRevision
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(revision), &live); err != nil {
		return err
	}
	if !metav1.IsControlledBy(&live, pool) {
		out.conflicts = append(out.conflicts, "ControllerRevision "+revision.Name)
	}
	return nil
}

func (r *Reconciler) writeAccounts(ctx context.Context, p plan, book *ledger, out *outcome) error {
	var failed []error
	for _, account := range p.accounts {
		err := apply.Apply(ctx, r.Client, account)
		switch {
		case namespaceTerminates(err):
			book.closing = true
			return nil
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
			failed = append(failed, err)
		case err != nil:
			return err
		}
	}
	out.childErr = errors.Join(failed...)
	for _, object := range p.prune {
		uid := object.GetUID()
		if err := r.Client.Delete(ctx, object, client.Preconditions{UID: &uid}); ignoreGone(err) != nil {
			return fmt.Errorf("delete %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// deletePods deletes by UID: a namesake that was made meanwhile is not ours to
// delete.
func (r *Reconciler) deletePods(ctx context.Context, p plan, book *ledger, out *outcome) error {
	for _, d := range p.delete {
		uid := d.pod.UID
		err := r.Client.Delete(ctx, d.pod, client.Preconditions{UID: &uid})
		if ignoreGone(err) != nil {
			return fmt.Errorf("delete pod %s: %w", d.pod.Name, err)
		}
		book.deleted[uid] = pending{pod: d.pod.Name, since: r.Clock.Now()}
		if err == nil {
			out.deleted = append(out.deleted, d)
		}
	}
	return nil
}

// createPods creates with POST, never apply, which would patch an existing
// pod. It stops at the first refusal: the others would be refused as well.
func (r *Reconciler) createPods(ctx context.Context, s state, p plan, book *ledger, out *outcome) error {
	if p.missing == 0 {
		out.refusal = nil
	}
	for _, slot := range p.create {
		pod := children.WorkerPod(s.pool, slot, s.current.Labels[v1alpha1.LabelRevision])
		name := pod.Name
		err := r.Client.Create(ctx, pod)
		switch {
		case err == nil:
			book.created[pod.UID] = pending{pod: name, since: r.Clock.Now()}
			out.created = append(out.created, name)
			out.refusal = nil
		case namespaceTerminates(err):
			book.closing = true
			return nil
		case apierrors.IsAlreadyExists(err):
			if err := r.nameTaken(ctx, s.pool, slot, name, book, out); err != nil {
				return err
			}
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			out.refusal = refusedCreate(err, book.refusal, s.now)
			return nil
		default:
			book.verified = false // the pod may exist all the same: compare before the next decision
			return fmt.Errorf("create pod %s: %w", name, err)
		}
	}
	return nil
}

// nameTaken looks at who has the name: ourselves, unseen by a lagging cache, or
// somebody else, whose pod is never touched.
func (r *Reconciler) nameTaken(ctx context.Context, pool *v1alpha1.WorkerPool, slot int, name string, book *ledger, out *outcome) error {
	var live corev1.Pod
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: name}, &live)
	switch {
	case apierrors.IsNotFound(err):
		book.verified = false // it just went; look again
		return nil
	case err != nil:
		return fmt.Errorf("get pod %s: %w", name, err)
	case metav1.IsControlledBy(&live, pool):
		book.verified = false
		return nil
	}
	book.blocked[slot] = r.Clock.Now().Add(blockedSlotFor)
	out.conflicts = append(out.conflicts, "Pod "+name)
	return nil
}

// refusedCreate turns a refused create into a stable reason and a backoff that
// grows with each refusal in a row.
func refusedCreate(err error, before *refusal, now time.Time) *refusal {
	reason := v1alpha1.ReasonInvalidTemplate
	if apierrors.IsForbidden(err) {
		reason = v1alpha1.ReasonPodForbidden
		if strings.Contains(err.Error(), "exceeded quota") || strings.Contains(err.Error(), "failed quota") {
			reason = v1alpha1.ReasonQuotaExceeded
		}
	}
	var b backoff
	if before != nil {
		b = before.backoff
	}
	return &refusal{reason: reason, message: err.Error(), backoff: b.fail(now, refusalBackoffFirst, refusalBackoffCap)}
}

func namespaceTerminates(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// ignoreGone drops the errors of deleting what is gone or has a namesake.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
