package producer

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
	"github.com/workpull/operator/controllers/children"
	"github.com/workpull/operator/runtime/podenv"
)

// plan is what to write.
type plan struct {
	apply     []apply.Observed
	conflicts []string    // objects of somebody else that have our names
	roles     []roleOf    // in the order in which they are written
	recreate  *recreation // in place of applying the StatefulSet
}

// roleOf is the role that a pod should be labelled with.
type roleOf struct {
	pod  *corev1.Pod
	role string
}

// makePlan is pure: state → plan. Each child is applied when it differs. One
// whose name somebody else has is left alone, and the others are still made.
func makePlan(s state) plan {
	var p plan
	if len(s.invalid) > 0 {
		return p
	}
	for _, child := range s.children {
		switch again := outgrown(s, child); {
		case child.Foreign:
			p.conflicts = append(p.conflicts, child.Kind+" "+child.Name)
		case !child.Wanted():
		case again != nil:
			p.recreate = again
		default:
			p.apply = append(p.apply, child)
		}
	}
	p.roles = planRoles(s)
	return p
}

// outgrown returns the live StatefulSet when its template of the claim is not
// the spec's.
func outgrown(s state, child apply.Observed) *recreation {
	live, ok := child.Live.(*appsv1.StatefulSet)
	if !ok || children.ClaimIsOf(live, s.producer) {
		return nil
	}
	return &recreation{
		name: live.Name, uid: live.UID,
		claim: children.ClaimName(s.producer.Name), size: children.Claim(s.producer).Spec.Resources.Requests.Storage,
	}
}

// planRoles labels the pod that holds the Lease as the active one, and then
// every other as a standby: for a moment there may be two, of which one answers
// that it is a standby, and never none. Where no pod holds the Lease the last
// that did keeps its label (docs/decisions/006).
func planRoles(s state) []roleOf {
	if !children.Standbys(s.producer) || s.holder == "" {
		return nil
	}
	var active, others []roleOf
	found := false
	for i := range s.pods {
		pod := &s.pods[i]
		role := v1alpha1.RoleStandby
		if podenv.Identity(pod.Name, string(pod.UID)) == s.holder {
			role, found = v1alpha1.RoleActive, true
		}
		if pod.Labels[v1alpha1.LabelRole] == role || pod.DeletionTimestamp != nil {
			continue
		}
		if role == v1alpha1.RoleActive {
			active = append(active, roleOf{pod, role})
		} else {
			others = append(others, roleOf{pod, role})
		}
	}
	if !found {
		return nil
	}
	return append(active, others...)
}
