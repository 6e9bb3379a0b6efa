package producer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
	"github.com/workpull/operator/controllers/children"
)

// outcome is what came of a plan.
type outcome struct {
	applied   []string
	activated string // the pod that was labelled as the active one, or ""
	enlarged  string // the claim that was enlarged, or ""
	conflicts []string
	childErr  error // of children that the API server refuses
}

// execute writes the plan to the API server. A child that is refused does not
// keep the others from being made.
func (r *Reconciler) execute(ctx context.Context, namespace string, p plan) (outcome, error) {
	out := outcome{conflicts: p.conflicts}
	var refused, failed []error
	note := func(err error) {
		switch {
		case err == nil:
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
			refused = append(refused, err)
		default:
			failed = append(failed, err)
		}
	}
	for _, child := range p.apply {
		err := apply.Apply(ctx, r.Client, child)
		switch {
		case err == nil:
			out.applied = append(out.applied, child.Kind+" "+child.Name)
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return out, nil // S22: dropped, not retried
		case child.Live == nil && apierrors.IsConflict(err):
			out.conflicts = append(out.conflicts, child.Kind+" "+child.Name) // a stranger's, made meanwhile
		default:
			note(err)
		}
	}
	if p.recreate != nil {
		enlarged, err := r.enlarge(ctx, namespace, p)
		out.enlarged = enlarged
		note(err)
	}
	for _, role := range p.roles {
		err := r.label(ctx, role)
		if err == nil && role.role == v1alpha1.RoleActive {
			out.activated = role.pod.Name
		}
		note(err)
	}
	out.childErr = errors.Join(refused...)
	return out, errors.Join(failed...)
}

// label writes the role of the pod that was observed, and of no later one of
// its name. A pod that is gone has none.
func (r *Reconciler) label(ctx context.Context, role roleOf) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": role.pod.UID, "labels": map[string]string{v1alpha1.LabelRole: role.role},
	}})
	if err != nil {
		return fmt.Errorf("label pod %s: %w", role.pod.Name, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: role.pod.Namespace, Name: role.pod.Name}}
	err = r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(children.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("label pod %s as %s: %w", role.pod.Name, role.role, err)
	}
	return nil
}

// enlarge lets the claim ask for the size, and deletes the StatefulSet, whose
// template of the claim cannot be changed, without its pod. It is made again,
// with that pod, when it is gone.
func (r *Reconciler) enlarge(ctx context.Context, namespace string, p plan) (enlarged string, err error) {
	var claim corev1.PersistentVolumeClaim
	name, size := p.recreate.claim, p.recreate.size
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &claim)
	switch {
	case apierrors.IsNotFound(err): // it will be made with the new size
	case err != nil:
		return "", fmt.Errorf("read claim %s: %w", name, err)
	default:
		has := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if has.Cmp(size) >= 0 {
			break
		}
		before := claim.DeepCopy()
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
		if err := r.Client.Patch(ctx, &claim, client.MergeFrom(before)); err != nil {
			return "", fmt.Errorf("enlarge claim %s to %s: %w", name, size.String(), err)
		}
		enlarged = name
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.recreate.name}}
	err = r.Client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationOrphan),
		client.Preconditions{UID: &p.recreate.uid})
	if err != nil && !apierrors.IsNotFound(err) {
		return enlarged, fmt.Errorf("delete StatefulSet %s to make it again: %w", p.recreate.name, err)
	}
	return enlarged, nil
}
