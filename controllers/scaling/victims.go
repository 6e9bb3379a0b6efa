package scaling

import (
	"cmp"
	"slices"
	"time"
)

// candidates are the workers that may go now, in the order in which they do:
// those that go already, then unscheduled, failing and starting ones, then the
// idle, those on a node that is about to go first and then idle longest. A busy
// worker is never among them (S1, S3). Idle ones have to have been so for the
// given time.
func (v *view) candidates(idle time.Duration, now time.Time) []*Worker {
	out := slices.DeleteFunc(v.remaining(false), func(w *Worker) bool {
		return (w.Phase == Ready || w.Phase == NotReady) &&
			(w.IdleSince == nil || now.Sub(*w.IdleSince) < idle && !w.Retiring)
	})
	slices.SortFunc(out, leavesBefore)
	return out
}

func leavesBefore(a, b *Worker) int {
	return cmp.Or(
		first(a.Retiring, b.Retiring),
		cmp.Compare(a.rank(), b.rank()),
		first(a.Disrupted, b.Disrupted),
		orZero(a.IdleSince).Compare(orZero(b.IdleSince)),
		b.Since.Compare(a.Since), // of those that are not ready, the newest
		-cmp.Compare(a.Name, b.Name),
	)
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func (w *Worker) rank() int {
	switch w.Phase {
	case Unscheduled:
		return 0
	case Failing:
		return 1
	case Starting:
		return 2
	default:
		return 3
	}
}

// drains are busy workers that are to be granted nothing more: those that are
// so already, then those with the fewest jobs.
func (v *view) drains(n int) []string {
	busy := slices.DeleteFunc(v.remaining(true), func(w *Worker) bool { return !w.busy() })
	slices.SortFunc(busy, func(a, b *Worker) int {
		return cmp.Or(
			first(a.Retiring, b.Retiring),
			first(a.Disrupted, b.Disrupted),
			cmp.Compare(orZero(a.Held), orZero(b.Held)),
			-cmp.Compare(a.Name, b.Name),
		)
	})
	return names(busy[:min(n, len(busy))])
}

// remaining are the workers that do not go yet, with or without the busy ones.
func (v *view) remaining(busy bool) []*Worker {
	var out []*Worker
	for i := range v.Workers {
		w := &v.Workers[i]
		if w.Phase != Terminating && w.Phase != Lost && !w.Leaving && (busy || !w.busy()) {
			out = append(out, w)
		}
	}
	return out
}

func names(workers []*Worker) []string {
	var out []string
	for _, w := range workers {
		out = append(out, w.Name)
	}
	return out
}
