package children

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/workpull/operator/api/v1alpha1"
)

// account is what a pod that discovers cluster members runs as.
type account struct {
	namespace string
	name      string // of ServiceAccount, Role and RoleBinding
	given     string // ServiceAccount that the user's template names, or ""
	lease     string // that the pods are elected by, or ""
	labels    map[string]string
	owner     *metav1ac.OwnerReferenceApplyConfiguration
}

// ProducerAccount returns ServiceAccount, Role and RoleBinding of a Producer.
// A ServiceAccount that the template names is bound instead of an own one.
func ProducerAccount(p *v1alpha1.Producer) []Child {
	given := ""
	if p.Spec.Template != nil {
		given = p.Spec.Template.Spec.ServiceAccountName
	}
	lease := ""
	if Standbys(p) {
		lease = LeaseName(p.Name)
	}
	return account{
		namespace: p.Namespace, name: ProducerName(p.Name), given: given, lease: lease,
		labels: ProducerLabels(p.Name), owner: ownerReference(p, v1alpha1.ProducerKind),
	}.children()
}

// WorkerAccount returns ServiceAccount, Role and RoleBinding of a pool whose
// pods are members. Attached workers get none. A ServiceAccount that the
// template names is bound instead of an own one.
func WorkerAccount(w *v1alpha1.WorkerPool) []Child {
	if w.Spec.Worker.Membership != v1alpha1.MembershipMember {
		return nil
	}
	return account{
		namespace: w.Namespace, name: WorkerAccountName(w.Name), given: w.Spec.Template.Spec.ServiceAccountName,
		labels: PoolLabels(w.Name, w.Spec.ProducerRef.Name), owner: ownerReference(w, v1alpha1.WorkerPoolKind),
	}.children()
}

func (a account) children() []Child {
	if a.given != "" {
		return []Child{a.role(), a.binding(a.given)}
	}
	return []Child{a.serviceAccount(), a.role(), a.binding(a.name)}
}

func (a account) serviceAccount() Child {
	config := corev1ac.ServiceAccount(a.name, a.namespace).WithLabels(a.labels).WithOwnerReferences(a.owner)
	return newChild("ServiceAccount", a.name, config,
		func() *corev1.ServiceAccount { return &corev1.ServiceAccount{} }, corev1ac.ExtractServiceAccount)
}

// role allows what discovery needs, to see the pods of the namespace, and what
// an election needs, to read and renew its one Lease. The operator makes that,
// since the right to create cannot be bound to a name.
func (a account) role() Child {
	config := rbacv1ac.Role(a.name, a.namespace).WithLabels(a.labels).WithOwnerReferences(a.owner).
		WithRules(rbacv1ac.PolicyRule().WithAPIGroups("").WithResources("pods").WithVerbs("get", "list", "watch"))
	if a.lease != "" {
		config.WithRules(rbacv1ac.PolicyRule().WithAPIGroups(coordinationv1.GroupName).WithResources("leases").
			WithResourceNames(a.lease).WithVerbs("get", "update"))
	}
	return newChild("Role", a.name, config,
		func() *rbacv1.Role { return &rbacv1.Role{} }, rbacv1ac.ExtractRole)
}

func (a account) binding(serviceAccount string) Child {
	config := rbacv1ac.RoleBinding(a.name, a.namespace).WithLabels(a.labels).WithOwnerReferences(a.owner).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(a.name)).
		WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).
			WithName(serviceAccount).WithNamespace(a.namespace))
	return newChild("RoleBinding", a.name, config,
		func() *rbacv1.RoleBinding { return &rbacv1.RoleBinding{} }, rbacv1ac.ExtractRoleBinding)
}
