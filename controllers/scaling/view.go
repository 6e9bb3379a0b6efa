package scaling

import (
	"time"
)

// view is one pool while a decision is made.
type view struct {
	*Pool
	last   PoolHistory
	known  bool // the pool has a history
	base   int  // what was desired so far
	bounds bounds
	counts Numbers
	ready  int // pods that are ready, not stuck

	floor, cap int     // of capacity, in pods
	whole      float64 // slots for all of the producer's jobs
	capped     bool    // whole would be more than there are jobs
	share      int     // capacity that the pool is to have, in pods
	full       int     // the same if nothing were stuck
	limit      Limit
}

// survey counts the pods and derives what the pool may have.
func survey(p *Pool, h History, producer *ProducerState, now time.Time) *view {
	v := &view{Pool: p}
	v.last, v.known = h.Pools[p.Name]
	for i := range p.Workers {
		v.count(&p.Workers[i], now)
	}
	switch {
	case v.known:
		v.base = v.last.Desired
	case p.Replicas != nil:
		v.base = int(*p.Replicas)
	default:
		v.base = v.counts.Present
	}
	v.setBounds(producer.Gone, now)
	v.counts.Min, v.counts.Max = v.bounds.min, v.bounds.max
	return v
}

func (v *view) setBounds(gone bool, now time.Time) {
	switch {
	case v.Suspend:
		v.bounds = bounds{0, 0, Suspended, Suspended}
	case gone:
		v.bounds = bounds{0, 0, ProducerNotFound, ProducerNotFound}
	case v.Autoscaling == nil:
		n := v.counts.Present
		if v.Replicas != nil {
			n = int(*v.Replicas)
		}
		v.bounds = bounds{n, n, ExternalOwner, ExternalOwner}
	default:
		v.bounds = v.Autoscaling.boundsAt(now)
	}
}

func (v *view) count(w *Worker, now time.Time) {
	n := &v.counts
	switch {
	case w.Phase == Terminating:
		n.Terminating++
		return
	case w.Phase == Lost:
		n.Lost++
		return
	case w.Leaving:
		n.Leaving++
		return
	}
	n.Present++
	stuck := v.stuck(w, now)
	switch {
	case w.busy() && !stuck: // a stuck one may hold something too: it is spared, and no capacity
		n.Busy++
	case w.Phase == Unscheduled:
		n.Unscheduled++
	case w.Phase == Starting && !v.overdue(w, now):
		n.Starting++
	case w.Phase == Ready:
		n.Idle++
	case w.Phase == NotReady:
		n.NotReady++
	default:
		n.Failing++
	}
	if w.Phase == Ready {
		v.ready++
	}
	if stuck {
		n.Stuck++
	}
}

// busy workers run a job or have one buffered, or might: what a ready worker
// holds is unknown when the producer does not mention it.
func (w *Worker) busy() bool {
	if w.Held != nil {
		return *w.Held > 0
	}
	return w.Phase == Ready || w.Phase == NotReady
}

// overdue pods have missed their start-up deadline. Until then a starting pod
// is capacity to come, however slow (S7).
func (v *view) overdue(w *Worker, now time.Time) bool {
	return w.Phase == Starting && v.StartupDeadline > 0 && now.Sub(w.Since) >= v.StartupDeadline
}

// stuck pods have been no capacity for so long that others get their share.
func (v *view) stuck(w *Worker, now time.Time) bool {
	if orZero(w.Held) > 0 {
		return false // it works, whatever its probe says
	}
	switch w.Phase {
	case Unscheduled, Failing, NotReady:
		return now.Sub(w.Since) > StuckAfter
	default:
		return v.overdue(w, now)
	}
}

// setCaps says how much capacity the pool may have. With stuck pods that is its
// maximum less these. While pods find no node, or as many fail as work, more of
// them would be stuck too: then the pool has what works and no more.
func (v *view) setCaps(now time.Time, despite bool) {
	stuck, working := v.counts.Stuck, v.counts.Present-v.counts.Stuck
	if despite {
		stuck = 0
	}
	v.cap = max(v.bounds.max-stuck, 0)
	if stuck > 0 && (v.counts.Unscheduled > 0 && v.unschedulable(now) || stuck >= v.ready) {
		v.cap = min(v.cap, working)
	}
	if v.Autoscaling == nil {
		v.cap = min(v.cap, working) // what its owner does not make is no capacity
		v.floor = v.cap
		return
	}
	v.floor = max(min(v.bounds.min, v.cap), v.counts.Busy)
	v.cap = max(v.cap, v.floor)
}

func (v *view) unschedulable(now time.Time) bool {
	for i := range v.Workers {
		w := &v.Workers[i]
		if w.Phase == Unscheduled && !w.Leaving && v.stuck(w, now) {
			return true
		}
	}
	return false
}
