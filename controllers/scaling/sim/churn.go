package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// churn is what became of many victims that were chosen by snapshots that were
// already old.
type churn struct {
	victims, refused, interrupted, jobs int
	age                                 time.Duration
}

// churnOf lets many workers come and go, until so many have been deleted. Jobs
// come in bursts from zero, at times that have nothing to do with the idle time
// of two seconds, and snapshots are three seconds old: many a victim holds a job
// by the time it is told to go.
func churnOf(victims int) churn {
	c := churn{age: 3 * time.Second}
	for n := uint64(0); c.victims < victims; n++ {
		t := newTrace("churn", "", 100+n, func(r *rand.Rand) []job {
			var jobs []job
			for at := lead; at < time.Hour; at += 6*time.Second + time.Duration(r.ExpFloat64()*4*float64(time.Second)) {
				for range 20 + r.IntN(80) {
					jobs = append(jobs, job{at + time.Duration(r.Float64()*3*float64(time.Second)), exponential(time.Second)(r)})
				}
			}
			slices.SortFunc(jobs, func(a, b job) int { return int(a.arrival - b.arrival) })
			return jobs
		})
		o := &ours{drain: time.Second, idle: 2 * time.Second, most: 200, delay: c.age, hop: 50 * time.Millisecond}
		outcome := play(&t, time.Second, "", o)
		c.victims += o.victims
		c.refused += o.refused
		c.interrupted += outcome.interrupted
		c.jobs += len(t.jobs)
	}
	return c
}
