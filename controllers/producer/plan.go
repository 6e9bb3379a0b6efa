package producer

import "github.com/workpull/operator/controllers/apply"

// plan is what to write.
type plan struct {
	apply     []apply.Observed
	conflicts []string // objects of somebody else that have our names
}

// makePlan is pure: state → plan. Each child is applied when it differs. One
// whose name somebody else has is left alone, and the others are still made.
func makePlan(s state) plan {
	var p plan
	if len(s.invalid) > 0 {
		return p
	}
	for _, child := range s.children {
		switch {
		case child.Foreign:
			p.conflicts = append(p.conflicts, child.Kind+" "+child.Name)
		case child.Wanted():
			p.apply = append(p.apply, child)
		}
	}
	return p
}
