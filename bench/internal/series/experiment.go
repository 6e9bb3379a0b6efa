// Package series runs experiments and makes a table of what they measure.
//
// The experiments take turns, so that a machine whose speed drifts treats them
// alike, and each run has a process of its own, so that none inherits another's
// heap.
package series

import (
	"context"
	"regexp"
)

// Directions of Better.
const (
	Higher = "higher"
	Lower  = "lower"
)

// Measure is one line of the table, before it has a value.
type Measure struct {
	Name, Unit, Better string
	// Bar is what is to be reached; 0 is none.
	Bar float64
	// Of is set where the value is not measured but the percentage that the
	// experiment's first value is of another measure's, in the same round.
	Of string
}

// Experiment is a run that gives the values of one or more measures.
type Experiment struct {
	// Name is also that of its profiles.
	Name     string
	Measures []Measure
	// Once gives a value for each measure that is measured, in their order.
	Once func(ctx context.Context, r *Run) ([]float64, error)
}

// measured is how many values a run gives.
func (e *Experiment) measured() int {
	n := 0
	for _, m := range e.Measures {
		if m.Of == "" {
			n++
		}
	}
	return n
}

// enter puts a run's values, and the percentages that follow from them, into
// those of its round.
func (e *Experiment) enter(round map[string]float64, values []float64) {
	next := 0
	for _, m := range e.Measures {
		if m.Of == "" {
			round[m.Name] = values[next]
			next++
		} else if whole, ok := round[m.Of]; ok {
			round[m.Name] = 100 * values[0] / whole
		}
	}
}

// Choose keeps the experiments that have a measure which is wanted, and those
// to which a wanted percentage refers.
func Choose(all []Experiment, wanted *regexp.Regexp) []Experiment {
	of := map[string]bool{} // measures
	keep := map[string]bool{}
	for _, e := range all {
		for _, m := range e.Measures {
			if wanted.MatchString(m.Name) {
				keep[e.Name] = true
				of[m.Of] = true
			}
		}
	}
	var chosen []Experiment
	for _, e := range all {
		for _, m := range e.Measures {
			if keep[e.Name] || of[m.Name] {
				chosen = append(chosen, e)
				break
			}
		}
	}
	return chosen
}
