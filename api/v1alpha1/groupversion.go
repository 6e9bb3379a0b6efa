package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is workpull.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: "workpull.dev", Version: "v1alpha1"}

// Kinds of this group.
const (
	ProducerKind   = "Producer"
	WorkerPoolKind = "WorkerPool"
)

// AddToScheme registers the kinds of this group with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Producer{}, &ProducerList{},
		&WorkerPool{}, &WorkerPoolList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
