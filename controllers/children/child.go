// Package children renders the objects that the operator makes, one builder
// for each. Objects that the operator keeps as they should be are apply
// configurations; worker pods, which it only creates and deletes, are plain
// pods.
package children

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
)

// FieldOwner is the name under which the operator owns fields.
const FieldOwner = "workpull-operator"

// Child is one object that the operator keeps as it should be.
type Child struct {
	// Kind and Name identify the object within its owner's namespace.
	Kind, Name string
	// Config is the object as it should be: the fields that the operator owns.
	Config runtime.ApplyConfiguration

	empty   func() client.Object
	extract func(live client.Object) (any, error)
}

// Empty returns an object of the child's type to read it into.
func (c Child) Empty() client.Object { return c.empty() }

// UpToDate tells whether every field that the operator owns in the live object
// has the value that it should have, and no other is owned: then there is
// nothing to apply (S23). Fields of other owners do not count.
func (c Child) UpToDate(live client.Object) (bool, error) {
	owned, err := c.extract(live)
	if err != nil {
		return false, fmt.Errorf("extract own fields of %s %s: %w", c.Kind, c.Name, err)
	}
	have, err := asValue(owned)
	if err != nil {
		return false, err
	}
	want, err := asValue(c.Config)
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(have, want), nil
}

func newChild[T client.Object, C runtime.ApplyConfiguration](
	kind, name string, config C, empty func() T, extract func(T, string) (C, error),
) Child {
	return Child{
		Kind: kind, Name: name, Config: config,
		empty: func() client.Object { return empty() },
		extract: func(live client.Object) (any, error) {
			typed, ok := live.(T)
			if !ok {
				return nil, fmt.Errorf("live object is a %T", live)
			}
			return extract(typed, FieldOwner)
		},
	}
}

// asValue gives an apply configuration as plain JSON values.
func asValue(config any) (map[string]any, error) {
	data, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("marshal apply configuration: %w", err)
	}
	var value map[string]any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, fmt.Errorf("unmarshal apply configuration: %w", err)
	}
	return value, nil
}

// ownerReference makes owner the controller of a child. Deletion of the owner
// in the foreground waits for the child.
func ownerReference(owner metav1.Object, kind string) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).
		WithKind(kind).
		WithName(owner.GetName()).
		WithUID(owner.GetUID()).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
