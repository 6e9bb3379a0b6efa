package children

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/workpull/operator/api/v1alpha1"
)

// StandbyObjects are what a Producer needs beside its workload when it has
// standbys. They stay, and do no harm, when it has none any more: the budget of
// one pod allows its eviction, and nobody looks at the Lease.
func StandbyObjects(p *v1alpha1.Producer) []Child {
	if !Standbys(p) {
		return nil
	}
	return []Child{lease(p), disruptionBudget(p)}
}

// lease is made empty: its fields are the pods', which may not create one.
func lease(p *v1alpha1.Producer) Child {
	name := LeaseName(p.Name)
	config := coordinationv1ac.Lease(name, p.Namespace).
		WithLabels(ProducerLabels(p.Name)).
		WithOwnerReferences(ownerReference(p, v1alpha1.ProducerKind))
	return newChild("Lease", name, config,
		func() *coordinationv1.Lease { return &coordinationv1.Lease{} }, coordinationv1ac.ExtractLease)
}

// disruptionBudget lets one pod at a time be evicted, so that a drain never
// takes the active pod and its standby together. Pods that are not ready serve
// nobody and may always go.
func disruptionBudget(p *v1alpha1.Producer) Child {
	name := ProducerName(p.Name)
	config := policyv1ac.PodDisruptionBudget(name, p.Namespace).
		WithLabels(ProducerLabels(p.Name)).
		WithOwnerReferences(ownerReference(p, v1alpha1.ProducerKind)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(ProducerSelector(p.Name))))
	return newChild("PodDisruptionBudget", name, config,
		func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} }, policyv1ac.ExtractPodDisruptionBudget)
}
