// Package v1alpha1 holds the API group workpull.dev/v1alpha1: Producer, which
// takes jobs in, and WorkerPool, whose pods do them.
//
// Validation is CEL beside the field that it guards; Validate repeats it for
// objects that were stored before a rule existed.
//
// +kubebuilder:object:generate=true
// +groupName=workpull.dev
package v1alpha1
