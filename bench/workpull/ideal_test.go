package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/workpull/operator/bench/internal/stats"
)

// Two servers, worked out by hand.
func TestIdealWaitsByHand(t *testing.T) {
	trace := []job{
		{arrival: 0, service: 10}, // first server until 10
		{arrival: 1, service: 2},  // second until 3
		{arrival: 2, service: 4},  // waits for 3, second until 7
		{arrival: 2, service: 1},  // waits for 7, second until 8
		{arrival: 9, service: 5},  // second is free
		{arrival: 9, service: 1},  // waits for 10
	}
	want := []time.Duration{0, 0, 1, 5, 0, 1}
	if got := idealWaits(trace, 2); !slices.Equal(got, want) {
		t.Errorf("waits %v, want %v", got, want)
	}
	if got := idealWaits(trace, 100); slices.Max(got) != 0 {
		t.Errorf("waits %v with a server for each, want none", got)
	}
	if got, want := idealWaits(trace, 1), []time.Duration{0, 9, 10, 14, 8, 13}; !slices.Equal(got, want) {
		t.Errorf("waits %v at one server, want %v", got, want)
	}
}

// An independent account of the same queue: at any moment a server idles only
// if nobody waits, and jobs start in the order of their arrival.
func TestIdealQueueIsFirstComeFirstServedAndConservesWork(t *testing.T) {
	const servers = 8
	trace := poisson(7, 5000, servers, 0.9)
	waits := idealWaits(trace, servers)
	starts := make([]time.Duration, len(trace))
	for i, j := range trace {
		starts[i] = j.arrival + waits[i]
		if i > 0 && starts[i] < starts[i-1] {
			t.Fatalf("job %d started before the one that came before it", i)
		}
		busy := 0 // just before the start
		for k := range i {
			if starts[k] < starts[i] && starts[k]+trace[k].service >= starts[i] {
				busy++
			}
		}
		if waits[i] > 0 && busy < servers {
			t.Fatalf("job %d waited although only %d of %d servers were busy", i, busy, servers)
		}
	}
}

// The mean wait in M/M/1 at load r is r ÷ (1 − r) service times.
func TestIdealWaitsAgreeWithTheoryOfOneServer(t *testing.T) {
	const load, service, jobs = 0.6, float64(time.Millisecond), 400_000
	random := rand.New(rand.NewPCG(1, 2))
	trace := make([]job, jobs)
	var now float64
	for i := range trace {
		now += random.ExpFloat64() * service / load
		trace[i] = job{arrival: time.Duration(now), service: time.Duration(random.ExpFloat64() * service)}
	}
	got, want := float64(stats.Mean(idealWaits(trace, 1)))/service, load/(1-load)
	if math.Abs(got-want) > 0.05*want {
		t.Errorf("mean wait %.3f service times, want %.3f", got, want)
	}
}

func TestPoissonTrace(t *testing.T) {
	const jobs, servers, load = 200_000, 8, 0.6
	trace := poisson(1, jobs, servers, load)
	var work time.Duration
	long := 0
	for i, j := range trace {
		work += j.service
		if j.service == longService {
			long++
		} else if j.service != shortService {
			t.Fatalf("job %d takes %v", i, j.service)
		}
		if i > 0 && j.arrival < trace[i-1].arrival {
			t.Fatalf("job %d arrives before the one before it", i)
		}
	}
	if share := float64(long) / jobs; math.Abs(share-longShare) > 0.001 {
		t.Errorf("%.4f of the jobs are long, want %v", share, longShare)
	}
	if got := float64(work) / (servers * float64(trace[jobs-1].arrival)); math.Abs(got-load) > 0.03 {
		t.Errorf("load %.3f, want %v", got, load)
	}
	if !slices.Equal(trace, poisson(1, jobs, servers, load)) {
		t.Error("the same seed made another trace")
	}
	if slices.Equal(trace[:100], poisson(2, 100, servers, load)) {
		t.Error("another seed made the same trace")
	}
}
