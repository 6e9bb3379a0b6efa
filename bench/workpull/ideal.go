package main

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// job is one arrival of a trace: when it comes and how long it takes.
type job struct{ arrival, service time.Duration }

// Jobs of an open-loop trace: one in a hundred takes a second.
const (
	shortService = time.Millisecond
	longService  = time.Second
	longShare    = 0.01
)

// poisson makes a trace of Poisson arrivals that would keep the servers busy
// for the share load of their time. The same seed makes the same trace.
func poisson(seed uint64, jobs, servers int, load float64) []job {
	random := rand.New(rand.NewPCG(seed, 0))
	service := (1-longShare)*float64(shortService) + longShare*float64(longService)
	between := service / (load * float64(servers))
	trace := make([]job, jobs)
	var now float64
	for i := range trace {
		now += random.ExpFloat64() * between
		trace[i] = job{arrival: time.Duration(now), service: shortService}
		if random.Float64() < longShare {
			trace[i].service = longService
		}
	}
	return trace
}

// idealWaits is how long each job of a trace waits in one queue for all
// servers, first come first served, where handing over takes no time (M/G/n
// for a Poisson trace). Exact: a job starts when it arrives or when the first
// server is free, whichever is later.
func idealWaits(trace []job, servers int) []time.Duration {
	free := make(instants, servers) // when each server will be, all now
	waits := make([]time.Duration, len(trace))
	for i, j := range trace {
		start := max(j.arrival, free[0])
		waits[i] = start - j.arrival
		free[0] = start + j.service
		heap.Fix(&free, 0)
	}
	return waits
}

// instants is a heap, the earliest first.
type instants []time.Duration

// Len implements heap.Interface.
func (h instants) Len() int { return len(h) }

// Less implements heap.Interface.
func (h instants) Less(i, j int) bool { return h[i] < h[j] }

// Swap implements heap.Interface.
func (h instants) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *instants) Push(x any) { *h = append(*h, x.(time.Duration)) }

// Pop implements heap.Interface.
func (h *instants) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
