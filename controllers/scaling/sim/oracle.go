package main

import (
	"slices"
	"time"
)

// oracle serves a trace with the future known: each job begins as soon as one
// of so many slots is free, and each pod is made just so early that it is ready
// then. Nobody with as many slots and one queue, first come first served, waits
// less.
//
// Who is free last goes on first, so that long gaps gather on few slots; a slot
// is given up over a gap that is longer than a pod's start. Its pod time is
// therefore small, if not proven to be the least.
func oracle(t *trace, slots int, start time.Duration) (waits []time.Duration, podTime time.Duration) {
	free := make([]time.Duration, 0, slots) // when slots that were used come free
	waits = make([]time.Duration, len(t.jobs))
	for i, j := range t.jobs {
		at, gap := -1, time.Duration(-1)
		for s, f := range free {
			if f <= j.arrival && (at < 0 || f > free[at]) {
				at, gap = s, j.arrival-f
			}
		}
		begin := j.arrival
		switch {
		case at >= 0:
		case len(free) < slots:
			free = append(free, 0)
			at = len(free) - 1
		default:
			at = slices.Index(free, slices.Min(free))
			begin, gap = free[at], 0
		}
		if gap < 0 || gap > start {
			gap = start // another pod
		}
		podTime += gap + j.length
		free[at] = begin + j.length
		waits[i] = begin - j.arrival
	}
	return waits, podTime
}
