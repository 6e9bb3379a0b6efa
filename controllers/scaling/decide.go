package scaling

import (
	"math"
	"slices"
	"time"
)

// Decide says how many workers each pool of a producer should have and which
// of them go, in the order of the pools. It also returns the history to give to
// the next decision.
//
// It changes nothing that it is given, and the same arguments always lead to
// the same decisions.
func Decide(producer ProducerState, pools []Pool, now time.Time) ([]Decision, History) {
	d := deciding{
		now: now, producer: &producer, unknown: producer.unknown(now) && !producer.silent(now),
		demand: demandOf(producer.Snapshot, producer.History),
	}
	if producer.silent(now) {
		d.demand.jobs, d.demand.queued, d.demand.running = 0, 0, 0
	}
	for i := range pools {
		d.views = append(d.views, survey(&pools[i], producer.History, &producer, now))
	}
	history := History{Pools: make(map[string]PoolHistory, len(pools)), Progress: d.progress(),
		JobTime: secondsOf(d.demand.jobTime), Residual: secondsOf(d.demand.residual)}
	d.hand(history.Progress.most())
	spare := d.spare()

	decisions := make([]Decision, len(pools))
	for i, v := range d.views {
		var target int
		if v.Autoscaling == nil {
			target = v.bounds.max
			v.limit = v.bounds.maxBy
		} else {
			target, history.Pools[v.Name] = d.target(v, v == spare)
		}
		decisions[i] = d.carryOut(v, target)
		if h, ok := history.Pools[v.Name]; ok {
			h.Events = changed(h.Events, decisions[i].Desired-v.base, now, longestPeriod(v.Autoscaling.ScaleUp, v.Autoscaling.ScaleDown))
			h.Desired = decisions[i].Desired
			history.Pools[v.Name] = h
		}
	}
	return decisions, history
}

// deciding is one decision in the making.
type deciding struct {
	now      time.Time
	producer *ProducerState
	unknown  bool
	demand   demand
	views    []*view
}

func (d *deciding) progress() Progress {
	last := d.producer.History.Progress
	if d.unknown || d.producer.Gone {
		return last
	}
	ready := 0
	for _, v := range d.views {
		ready += v.ready * v.Slots
	}
	return last.advance(d.producer.Snapshot, ready, d.now)
}

// hand hands the demand out to the pools: once as if no pod were stuck, and
// once as it is. The first says which stuck pods would be of use.
func (d *deciding) hand(most float64) {
	stuck := false
	for _, v := range d.views {
		if v.Autoscaling != nil {
			v.whole, v.capped = d.demand.slots(v.Autoscaling)
		}
		stuck = stuck || v.counts.Stuck > 0
		v.setCaps(d.now, true)
	}
	share(d.views, min(most, d.demand.jobs))
	for _, v := range d.views {
		v.full = v.share
	}
	if stuck {
		for _, v := range d.views {
			v.limit = Unlimited
			v.setCaps(d.now, false)
		}
		share(d.views, min(most, d.demand.jobs))
	}
	for _, v := range d.views {
		v.explainShare(most < d.demand.jobs)
	}
}

// explainShare finds out what bound the pool's share.
func (v *view) explainShare(bound bool) {
	switch {
	case v.Autoscaling == nil:
	case v.limit == NoProgress:
		if !bound {
			v.limit = Unlimited
		}
	case v.share == v.cap && v.full > v.share:
		v.limit = StuckPods
	case v.share >= v.bounds.max && v.share*v.Slots < int(math.Ceil(v.whole)):
		v.limit = v.bounds.maxBy
	case v.share == v.counts.Busy && v.share*v.Slots > int(math.Ceil(v.whole)):
		v.limit = Busy
	case v.share == v.bounds.min && v.share > 0 && float64(v.share*v.Slots) > v.whole:
		v.limit = v.bounds.minBy
	case v.capped:
		v.limit = Jobs
	}
}

// wanted is the number of pods that the rule asks for: the share, and those of
// the stuck pods that would be of use if they were not stuck. While the pool
// grows, failing ones are on top of what works, and keep their places until
// they are replaced.
func (v *view) wanted() int {
	working := v.counts.Present - v.counts.Stuck
	kept := min(v.counts.Stuck, max(v.full-v.share, 0))
	if v.share > working {
		kept = v.counts.Stuck
	}
	return max(v.share+kept, min(v.bounds.min, v.bounds.max))
}

// spare is the pool that keeps a worker although there is nothing to do,
// because a job came within its idle time (S10). Where a producer does not say
// when the last one came, a rate at which the next is due within that time
// stands for it.
func (d *deciding) spare() *view {
	s := d.producer.Snapshot
	if s == nil || d.producer.Gone {
		return nil
	}
	var best *view
	for _, v := range d.views {
		if v.Autoscaling == nil && v.share > 0 || v.Autoscaling != nil && v.wanted() > 0 {
			return nil
		}
		if v.Autoscaling == nil || v.bounds.max == 0 || v.counts.Present == 0 {
			continue
		}
		idle := v.Autoscaling.IdleTimeout
		recent := s.LastArrival != nil && d.now.Sub(*s.LastArrival) < idle ||
			s.LastArrival == nil && orZero(s.ArrivalRate)*idle.Seconds() >= 1
		if recent && (best == nil || v.Weight > best.Weight) {
			best = v
		}
	}
	return best
}

// target goes from what the rule wants to what may be: unknown is not zero,
// idle time and stabilization, policies, and last the bounds.
func (d *deciding) target(v *view, spare bool) (int, PoolHistory) {
	a, base, present := v.Autoscaling, v.base, v.counts.Present
	wanted := v.wanted()
	v.counts.Wanted = wanted
	limited := func(n int, by Limit) {
		if n != wanted {
			v.limit = by
		}
		wanted = n
	}
	if spare {
		limited(max(wanted, 1), RecentArrival)
	}
	if d.unknown {
		limited(max(wanted, base, present), ProducerUnknown)
	}
	h := v.last
	if !v.known {
		// Who was there may have been wanted until a moment ago.
		h.Peaks = []Wanted{{max(present, wanted), d.now}}
		h.Lows = []Wanted{{min(present, wanted), d.now}}
	}
	up, down := window(a.ScaleUp), max(a.IdleTimeout, window(a.ScaleDown))
	h.Peaks = remember(h.Peaks, wanted, d.now, d.now.Add(-down), more)
	h.Lows = remember(h.Lows, wanted, d.now, d.now.Add(-up), less)
	rule, ruled := wanted, v.limit

	switch {
	case wanted > base:
		limited(max(base, min(wanted, h.Lows[0].Count)), Stabilized)
		limited(min(wanted, upLimit(a.ScaleUp, base, h.Events, d.now)), ScaleUpPolicy)
	case wanted < base:
		by := IdleTime
		if window(a.ScaleDown) > a.IdleTimeout {
			by = Stabilized
		}
		limited(min(base, max(wanted, h.Peaks[0].Count)), by)
		limited(max(wanted, downLimit(a.ScaleDown, base, h.Events, d.now)), ScaleDownPolicy)
		// Holding back keeps who is there. It creates nobody.
		if wanted = max(rule, min(wanted, present)); wanted == rule {
			v.limit = ruled
		}
	}
	if d.unknown {
		return wanted, h // nobody leaves, whatever the bounds say
	}
	if wanted < v.bounds.min {
		limited(v.bounds.min, v.bounds.minBy)
	}
	if wanted > v.bounds.max {
		limited(v.bounds.max, v.bounds.maxBy)
	}
	if v.bounds.max == 0 && (v.bounds.maxBy == Suspended || v.bounds.maxBy == ProducerNotFound) {
		v.limit = v.bounds.maxBy
	}
	return wanted, h
}

// carryOut turns a target into pods to create or workers that go.
func (d *deciding) carryOut(v *view, target int) Decision {
	out := Decision{Pool: v.Name, Owned: v.Autoscaling != nil, Desired: target}
	present := v.counts.Present
	switch {
	case d.unknown:
		// Bounds have the last word about growth, and nobody leaves.
		out.Desired = max(min(target, v.bounds.max), present)
		if v.Autoscaling == nil {
			out.Desired = target
		}
		if out.Desired > target || v.Autoscaling == nil && present > target {
			v.limit = ProducerUnknown
		}
		out.Create = max(out.Desired-present, 0)
	case d.producer.silent(d.now):
		// None of them can hold what could still be confirmed.
		out.Victims = names(v.remaining(true))
	case target >= present:
		out.Create = target - present
	default:
		d.shrink(v, &out)
	}
	out.LimitedBy = v.limit
	out.Numbers = d.numbers(v)
	out.Reason = reason(v, &out)
	return out
}

// shrink names who goes. What exceeds the pool's bound goes whether or not it
// has been idle for long, and if too few are idle, busy ones are drained. What
// the rule does not need goes after its idle time only.
func (d *deciding) shrink(v *view, out *Decision) {
	excess := max(v.counts.Present-v.bounds.max, 0)
	var leaving []*Worker
	if excess > 0 {
		leaving = v.candidates(0, d.now)
		leaving = leaving[:min(excess, len(leaving))]
		out.Drain = v.drains(excess - len(leaving))
	}
	if v.Autoscaling != nil && out.Desired < v.bounds.max {
		more := v.counts.Present - len(leaving) - len(out.Drain) - out.Desired
		for _, w := range v.candidates(v.Autoscaling.IdleTimeout, d.now) {
			if more > 0 && !slices.Contains(leaving, w) {
				leaving = append(leaving, w)
				more--
			}
		}
		if more > 0 {
			out.Desired += more
			v.limit = IdleTime
			if len(v.remaining(false)) == len(leaving) {
				v.limit = Busy // the others hold something, or might
			}
		}
	}
	out.Victims = names(leaving)
}

func (d *deciding) numbers(v *view) Numbers {
	n := v.counts
	if s := d.producer.Snapshot; s != nil {
		n.Waiting, n.Buffered, n.Running, n.Delayed = s.Waiting, s.Buffered, s.Running, s.Delayed
		n.ArrivalRate, n.ServiceRate = s.ArrivalRate, s.ServiceRate
	}
	if v.Autoscaling != nil {
		n.JobTime, n.Residual, n.Measured = d.demand.times(v.Autoscaling)
	}
	n.Slots = v.whole
	return n
}
