package sim

import "time"

// Abilities are what the queue can do beside storing jobs, and what of it the
// controller is set to.
type Abilities struct {
	Pages, Keeps, Remembers, Reloads bool
	// Page is about how many bytes of payloads are asked for at once.
	Page int
	// Known is how long a MessageID that is done stays known, Settle how long
	// what was loaded is held back.
	Known, Settle time.Duration
}

// abilitiesFor are those that belong to a seed. Each is there or not whatever
// the others are, so that plain queues and those that take batches are seen with
// each and without.
func abilitiesFor(seed uint64, mode queueMode) Abilities {
	d := draw(seed, Key{Place: placeConfig, Number: 1})
	a := Abilities{Page: []int{40, 300, 2000}[d.below(3)], Known: []time.Duration{0, 0, 4, 30}[d.below(4)] * time.Second}
	if mode == inMemory {
		return a
	}
	a.Pages, a.Keeps, a.Remembers, a.Reloads = d.below(2) == 0, d.below(2) == 0, d.below(2) == 0, d.below(2) == 0
	a.Settle = []time.Duration{0, 2, 5}[d.below(3)] * time.Second
	return a
}
