// Package apply keeps child objects as they should be with server-side apply:
// it writes only when something differs (S23) and never takes over an object
// that belongs to somebody else.
package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/children"
)

// Observed is a child together with what lies in the cluster under its name.
type Observed struct {
	children.Child
	// Live is the object in the cluster, nil when there is none.
	Live client.Object
	// Foreign: the live object is not controlled by the child's owner.
	Foreign bool
	// Current: the live object is as it should be.
	Current bool
}

// Observe looks a child up. The cache holds only objects with the operator's
// label, so a miss is checked against the API server: an object without the
// label may be there.
func Observe(ctx context.Context, cached, live client.Reader, owner metav1.Object, child children.Child) (Observed, error) {
	o := Observed{Child: child}
	object := child.Empty()
	key := client.ObjectKey{Namespace: owner.GetNamespace(), Name: child.Name}
	err := cached.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		err = live.Get(ctx, key, object)
	}
	if apierrors.IsNotFound(err) {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("get %s %s: %w", child.Kind, child.Name, err)
	}
	o.Live = object
	o.Foreign = !metav1.IsControlledBy(object, owner)
	if o.Foreign {
		return o, nil
	}
	o.Current, err = child.UpToDate(object)
	return o, err
}

// Wanted tells whether there is something to apply now. An object that is
// being deleted is waited for.
func (o Observed) Wanted() bool {
	if o.Live == nil {
		return true
	}
	return !o.Foreign && !o.Current && o.Live.GetDeletionTimestamp() == nil
}

// Apply writes the child. Only an object that is known to be the owner's is
// forced; should a stranger's appear meanwhile, its fields conflict.
func Apply(ctx context.Context, c client.Client, o Observed) error {
	options := []client.ApplyOption{client.FieldOwner(children.FieldOwner)}
	if o.Live != nil {
		options = append(options, client.ForceOwnership)
	}
	if err := c.Apply(ctx, o.Config, options...); err != nil {
		return fmt.Errorf("apply %s %s: %w", o.Kind, o.Name, err)
	}
	return nil
}

// Status writes the whole status of an object by server-side apply, which
// cannot conflict with edits of its labels or spec (S24). An object that is
// gone has no status to write.
func Status(ctx context.Context, c client.Client, owner client.Object, kind string, status any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("convert status of %s %s: %w", kind, owner.GetName(), err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       kind,
		"metadata": map[string]any{
			"name": owner.GetName(), "namespace": owner.GetNamespace(),
			"uid": string(owner.GetUID()), // of this object, not of a later one of the name
		},
		"status": fields,
	}}
	err = c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(children.FieldOwner), client.ForceOwnership)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", kind, owner.GetName(), err)
	}
	return nil
}
