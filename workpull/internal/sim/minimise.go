package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// traceTail is how many lines of a trace a report shows besides the faults.
const traceTail = 60

// Minimise leaves out faults of a run that broke an invariant for as long as
// what remains breaks the same one, within a budget of real time, and returns
// those that remain in the order in which they strike.
func Minimise(opt Options, budget time.Duration) []Fault {
	w, err := run(opt, false)
	var broken *Broken
	if !errors.As(err, &broken) {
		return nil
	}
	m := &minimiser{opt: opt, invariant: broken.Invariant, until: time.Now().Add(budget)}
	if broken.Invariant != progress { // one that holds for so much longer is another history
		m.opt.stopAt = broken.At + 30*time.Second
	}
	return m.reduce(w.Faults)
}

type minimiser struct {
	opt       Options
	invariant string
	until     time.Time
}

// reduce leaves out chunks, halves at first, then ever smaller ones, until
// nothing can go any more.
func (m *minimiser) reduce(faults []Fault) []Fault {
	for size := max(1, len(faults)/2); ; {
		again := false
		for from := 0; from < len(faults) && time.Now().Before(m.until); {
			rest := slices.Delete(slices.Clone(faults), from, min(from+size, len(faults)))
			if struck, ok := m.breaks(rest); ok {
				faults, again = struck, true
				continue
			}
			from += size
		}
		if size == 1 && !again || !time.Now().Before(m.until) {
			return faults
		}
		size = max(1, size/2)
	}
}

// breaks plays the run with some faults only. Those that struck may be fewer
// still.
func (m *minimiser) breaks(faults []Fault) ([]Fault, bool) {
	opt := m.opt
	opt.Only = keys(faults)
	w, err := run(opt, false)
	var broken *Broken
	return w.Faults, errors.As(err, &broken) && broken.Invariant == m.invariant
}

func keys(faults []Fault) map[Key]bool {
	set := make(map[Key]bool, len(faults))
	for _, f := range faults {
		set[f.Key] = true
	}
	return set
}

// Report tells how to play a run that broke an invariant once more, and the
// events of the shortest history that breaks it which was found within the
// budget.
func Report(opt Options, broken *Broken, budget time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v\nbroken invariant: %s\n", opt.Seed, broken, broken.Invariant)
	fmt.Fprintf(&b, "replay: go test ./workpull/internal/sim -run TestSeeds -v -args -seed %d\n", opt.Seed)
	if budget <= 0 {
		return b.String()
	}
	faults := Minimise(opt, budget)
	names := make([]string, len(faults))
	for i, f := range faults {
		names[i] = f.String()
	}
	fmt.Fprintf(&b, "\n%d faults are enough; play these alone with -only %s\n\n", len(faults), strings.Join(names, ","))
	opt.Only = keys(faults)
	w, _ := run(opt, true)
	cut := len(w.Trace) - traceTail
	for i, line := range w.Trace {
		switch {
		case i >= cut || strings.Contains(line, "FAULT"):
			b.WriteString(line + "\n")
		case i == cut-1:
			b.WriteString("        ...\n")
		}
	}
	return b.String()
}
