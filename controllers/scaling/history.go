package scaling

import (
	"slices"
	"time"
)

// History is what has to be remembered from one decision to the next. A
// decision never changes the one that it was given.
type History struct {
	// Pools are by name. A pool that is not there is new, or this operator
	// just began: its workers then leave no earlier than after a whole idle
	// time.
	Pools map[string]PoolHistory
	// Progress is what growth has brought so far.
	Progress Progress
	// JobTime and Residual are the last that were measured, zero if none ever
	// was.
	JobTime, Residual time.Duration
}

// PoolHistory is that of one pool.
type PoolHistory struct {
	// Desired is what was decided last.
	Desired int
	// Peaks and Lows are the wanted counts that still matter to the idle time
	// and the stabilization windows: a falling and a rising sequence.
	Peaks, Lows []Wanted
	// Events are the changes of Desired within the longest period of a policy.
	Events []Event
}

// Wanted is a count that the rule asked for, and until when.
type Wanted struct {
	Count int
	Until time.Time
}

// Event is a change of the desired count.
type Event struct {
	At     time.Time
	Change int
}

// remember appends a wanted count to a sequence in which only those stay that
// are more (less) than every later one, and still matter after cutoff. Its first
// element is then the most (least) of the window.
//
// What was wanted last is in force until now, however long ago that was.
func remember(sequence []Wanted, count int, now, cutoff time.Time, beats func(earlier, later int) bool) []Wanted {
	kept := make([]Wanted, 0, len(sequence)+1)
	for i, w := range sequence {
		if i == len(sequence)-1 {
			w.Until = now
		}
		if w.Until.After(cutoff) && beats(w.Count, count) {
			kept = append(kept, w)
		}
	}
	return append(kept, Wanted{count, now})
}

func more(earlier, later int) bool { return earlier > later }
func less(earlier, later int) bool { return earlier < later }

// changed notes a change of the desired count and forgets the old ones.
func changed(events []Event, change int, now time.Time, period time.Duration) []Event {
	kept := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return !e.At.After(now.Add(-period)) })
	if change == 0 || period == 0 {
		return kept
	}
	return append(kept, Event{now, change})
}
