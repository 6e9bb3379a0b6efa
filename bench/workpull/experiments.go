package main

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

// Directions of Better.
const (
	higher = "higher"
	lower  = "lower"
)

// measure is one line of the table, before it has a value.
type measure struct {
	name, unit, better string
	// bar is what is to be reached; 0 is none.
	bar float64
	// of is set where the value is not measured but the percentage that the
	// experiment's first value is of another measure's, in the same round.
	of string
}

// experiment is a run that gives the values of one or more measures.
type experiment struct {
	// name is also that of its profiles.
	name     string
	measures []measure
	// once gives a value for each measure that is measured, in their order.
	once func(ctx context.Context, b *bench) ([]float64, error)
}

// extent is how long the runs are.
type extent struct {
	// warm goes before what is measured, steady is what is measured of a
	// throughput.
	warm, steady time.Duration
	// samples of a latency, in jobs.
	samples int
	// before and during the time in which a worker is frozen.
	before, during time.Duration
	// arrivals in an open-loop run.
	arrivals int
	// crowds are the numbers of workers beside four.
	crowds []int
}

// full is what the bars are for. How stable its 99th percentiles are is said
// where they are taken.
var full = extent{
	warm: 500 * time.Millisecond, steady: 1500 * time.Millisecond,
	samples: 2000,
	before:  3 * time.Second, during: 4 * time.Second,
	arrivals: 12_000,
	crowds:   []int{100, 1000, 5000},
}

// experiments lists everything that is measured, with the bars.
func experiments(e extent, seed uint64) []experiment {
	var list []experiment
	bars := map[int]float64{1: 275_000, 64: 350_000} // by credits, with four workers
	for _, credits := range []int{1, 64} {
		four := oneNode(e, 4, credits)
		four.measures[0].bar = bars[credits]
		four.measures = append(four.measures,
			measure{name: four.name + ": processor time", unit: "µs/job", better: lower},
			measure{name: four.name + ": allocations", unit: "1/job", better: lower},
			measure{name: four.name + ": bytes", unit: "B/job", better: lower})
		list = append(list, four)
		for _, workers := range e.crowds {
			crowd := oneNode(e, workers, credits)
			crowd.measures = append(crowd.measures, measure{
				name: crowd.name + ": of the 4-worker figure", unit: "%", better: higher, bar: 60, of: four.name,
			})
			list = append(list, crowd)
		}
	}
	return append(list,
		twoProcesses(e, 1, 150_000),
		twoProcesses(e, 64, 300_000),
		latencyHere(e),
		latencyThere(e),
		frozen(e),
		arrivals(e, seed))
}

// choose keeps the experiments that have a measure which is wanted, and those
// to which a wanted percentage refers.
func choose(all []experiment, wanted *regexp.Regexp) []experiment {
	keep := map[string]bool{}
	for _, e := range all {
		for _, m := range e.measures {
			if wanted.MatchString(m.name) {
				keep[e.name] = true
				keep[m.of] = true
			}
		}
	}
	var chosen []experiment
	for _, e := range all {
		if keep[e.name] {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

func credited(n int) string {
	if n == 1 {
		return "1 credit"
	}
	return fmt.Sprintf("%d credits", n)
}
