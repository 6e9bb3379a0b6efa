// Package controllers puts the reconcilers of all kinds into a manager.
package controllers

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/children"
	"github.com/workpull/operator/controllers/producer"
	"github.com/workpull/operator/controllers/workerpool"
)

// eventSource is the name under which the operator records events.
const eventSource = "workpull-operator"

// NewScheme knows Kubernetes' kinds and the operator's own.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the kinds of Kubernetes: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the kinds of workpull.dev: %w", err)
	}
	return scheme, nil
}

// CacheOptions keep in memory only what the operator made, in the given
// namespaces or, when there are none, in all. Managed fields are kept for what
// is applied (they tell what is owned) and dropped for pods.
func CacheOptions(namespaces []string) cache.Options {
	ours := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator})
	options := cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                   {Label: ours, Transform: cache.TransformStripManagedFields()},
			&corev1.Service{}:               {Label: ours},
			&corev1.ServiceAccount{}:        {Label: ours},
			&appsv1.Deployment{}:            {Label: ours},
			&appsv1.StatefulSet{}:           {Label: ours},
			&appsv1.ControllerRevision{}:    {Label: ours},
			&policyv1.PodDisruptionBudget{}: {Label: ours},
			&coordinationv1.Lease{}:         {Label: ours},
			&rbacv1.Role{}:                  {Label: ours},
			&rbacv1.RoleBinding{}:           {Label: ours},
		},
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// Setup registers all reconcilers with a manager.
func Setup(mgr ctrl.Manager, image children.StockImage) error {
	producers := &producer.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder(eventSource), Clock: clock.RealClock{}, Image: image,
	}
	if err := producers.SetupWithManager(mgr); err != nil {
		return err
	}
	pools := &workerpool.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Recorder: mgr.GetEventRecorder(eventSource), Clock: clock.RealClock{},
	}
	return pools.SetupWithManager(mgr)
}
