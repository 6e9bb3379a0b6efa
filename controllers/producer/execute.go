package producer

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/workpull/operator/controllers/apply"
)

// outcome is what came of a plan.
type outcome struct {
	applied   []string
	conflicts []string
	childErr  error // of children that the API server refuses
}

// execute writes the plan to the API server. A child that is refused does not
// keep the others from being made.
func (r *Reconciler) execute(ctx context.Context, p plan) (outcome, error) {
	out := outcome{conflicts: p.conflicts}
	var refused, failed []error
	for _, child := range p.apply {
		err := apply.Apply(ctx, r.Client, child)
		switch {
		case err == nil:
			out.applied = append(out.applied, child.Kind+" "+child.Name)
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return out, nil // S22: dropped, not retried
		case child.Live == nil && apierrors.IsConflict(err):
			out.conflicts = append(out.conflicts, child.Kind+" "+child.Name) // a stranger's, made meanwhile
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
			refused = append(refused, err)
		default:
			failed = append(failed, err)
		}
	}
	out.childErr = errors.Join(refused...)
	return out, errors.Join(failed...)
}
