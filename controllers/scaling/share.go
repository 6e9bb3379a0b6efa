package scaling

import (
	"cmp"
	"slices"
)

// allocation hands the producer's demand out to its pools.
type allocation struct {
	views []*view
	// most slots altogether, floors aside.
	most float64
	// taken slots so far.
	taken int
	// covered is the part of the demand that the taken slots see to, by each
	// pool's own objective.
	covered float64
}

// share sets each pool's share: its floor, and of the remaining demand as much
// as it can take, pools of higher weight first, equal ones in proportion to
// their headroom. What one cannot take spills over to the next. Since shares do
// not depend on what there was, pools shrink in the reverse order.
func share(views []*view, most float64) {
	a := allocation{views: slices.Clone(views), most: most}
	fixed, strictest := 0, 0.0
	for _, v := range views {
		v.share = v.floor
		strictest = max(strictest, v.whole)
		if v.Autoscaling == nil {
			fixed += v.share * v.Slots
			continue
		}
		a.take(v, v.share)
	}
	// Slots of an external owner have no objective: the strictest one counts.
	a.taken += fixed
	if strictest > 0 {
		a.covered += float64(fixed) / strictest
	}
	a.views = slices.DeleteFunc(a.views, func(v *view) bool { return v.Autoscaling == nil })
	slices.SortStableFunc(a.views, func(l, r *view) int {
		return cmp.Or(-cmp.Compare(l.Weight, r.Weight), cmp.Compare(l.Name, r.Name))
	})
	for rest := a.views; len(rest) > 0; {
		end := 1
		for end < len(rest) && rest[end].Weight == rest[0].Weight {
			end++
		}
		a.fill(rest[:end])
		rest = rest[end:]
	}
}

func (a *allocation) take(v *view, pods int) {
	slots := pods * v.Slots
	a.taken += slots
	if v.whole > 0 {
		a.covered += float64(slots) / v.whole
	}
}

// fill gives pods one at a time, each to the pool that has the least of its
// headroom so far (Webster's rule). So no pool ever gets less when there is
// more to do, which rounding each pool's part by itself would not guarantee.
func (a *allocation) fill(group []*view) {
	for float64(a.taken) < a.most {
		var next *view
		for _, v := range group {
			if v.share < v.cap && !a.enough(v) && (next == nil || v.part() < next.part()) {
				next = v
			}
		}
		if next == nil {
			return
		}
		next.share++
		a.take(next, 1)
	}
	for _, v := range group {
		if v.share < v.cap && !a.enough(v) && v.limit == Unlimited {
			v.limit = NoProgress // the number of jobs is never below whole
		}
	}
}

// part is how much of its headroom the pool would have with half a pod more.
func (v *view) part() float64 {
	return (float64(v.share-v.floor) + 0.5) / float64(v.cap-v.floor)
}

// enough tells whether the pool finds nothing left to do. Covered is the same for
// all, or the order in which they get pods would depend on how much there is to
// do. The tolerance is that of adding up fractions.
func (a *allocation) enough(v *view) bool {
	const tolerance = 1e-9
	return v.whole == 0 || a.covered >= 1-tolerance
}
