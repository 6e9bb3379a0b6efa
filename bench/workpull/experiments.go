package main

import (
	"fmt"
	"time"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
)

// extent is how long the runs are.
type extent struct {
	testbed.Span // of a throughput
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
	Span:    testbed.Span{Warm: 500 * time.Millisecond, Steady: 1500 * time.Millisecond},
	samples: 2000,
	before:  3 * time.Second, during: 4 * time.Second,
	arrivals: 12_000,
	crowds:   []int{100, 1000, 5000},
}

// experiments lists everything that is measured, with the bars.
func experiments(e extent, seed uint64) []series.Experiment {
	var list []series.Experiment
	bars := map[int]float64{1: 275_000, 64: 350_000} // by credits, with four workers
	for _, credits := range []int{1, 64} {
		four := oneNode(e, 4, credits)
		four.Measures[0].Bar = bars[credits]
		four.Measures = append(four.Measures,
			series.Measure{Name: four.Name + ": processor time", Unit: "µs/job", Better: series.Lower},
			series.Measure{Name: four.Name + ": allocations", Unit: "1/job", Better: series.Lower},
			series.Measure{Name: four.Name + ": bytes", Unit: "B/job", Better: series.Lower})
		list = append(list, four)
		for _, workers := range e.crowds {
			crowd := oneNode(e, workers, credits)
			crowd.Measures = append(crowd.Measures, series.Measure{
				Name: crowd.Name + ": of the 4-worker figure", Unit: "%", Better: series.Higher, Bar: 60, Of: four.Name,
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

func credited(n int) string {
	if n == 1 {
		return "1 credit"
	}
	return fmt.Sprintf("%d credits", n)
}
