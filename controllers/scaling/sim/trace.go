package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// job is one arrival of a trace: when it comes and how long it takes.
type job struct{ arrival, length time.Duration }

// trace is what comes, whoever scales. The same seed makes the same trace.
type trace struct {
	name string
	what string // in words, for the table's legend
	jobs []job
	end  time.Duration // until when pods are counted
}

// seed is pinned, so that every figure can be had again.
const seed = 20260302

// traces are those that are compared.
func traces() []trace {
	return []trace{
		newTrace("steady", "2 jobs/s of 10 s, Poisson and exponential, for two hours", 1, func(r *rand.Rand) []job {
			return arrivals(r, 2*time.Hour, 2, func(time.Duration) float64 { return 2 }, exponential(10*time.Second))
		}),
		newTrace("daily", "0 to 2 jobs/s of 15 s, a sine over a day that lasts four hours", 2, func(r *rand.Rand) []job {
			return arrivals(r, 4*time.Hour, 2, func(t time.Duration) float64 {
				return 1 - math.Cos(2*math.Pi*t.Hours()/4)
			}, exponential(15*time.Second))
		}),
		newTrace("bursts", "200 jobs of 10 s within 5 s, from zero, some ten minutes apart, twelve times", 3, bursts),
		newTrace("ramp", "0.1 to 4 jobs/s of 8 s within an hour, then 0.1 again", 4, func(r *rand.Rand) []job {
			return arrivals(r, 90*time.Minute, 4, func(t time.Duration) float64 {
				if t > time.Hour {
					return 0.1
				}
				return 0.1 + 3.9*t.Hours()
			}, exponential(8*time.Second))
		}),
		newTrace("heavy", "0.5 jobs/s, Pareto lengths from 5 s (shape 1.3, up to 30 min), for three hours", 5, func(r *rand.Rand) []job {
			return arrivals(r, 3*time.Hour, 0.5, func(time.Duration) float64 { return 0.5 }, func(r *rand.Rand) time.Duration {
				return min(time.Duration(5*float64(time.Second)*math.Pow(1-r.Float64(), -1/1.3)), 30*time.Minute)
			})
		}),
	}
}

func newTrace(name, what string, stream uint64, draw func(*rand.Rand) []job) trace {
	t := trace{name: name, what: what, jobs: draw(rand.New(rand.NewPCG(seed, stream)))}
	t.end = t.jobs[len(t.jobs)-1].arrival + 20*time.Minute
	return t
}

// lead is when the first job may come: an oracle needs to know it as long before
// as the slowest pod takes.
const lead = time.Minute

// arrivals draws a Poisson process of a varying rate, in jobs a second, by
// thinning one of the highest rate.
func arrivals(r *rand.Rand, span time.Duration, highest float64, rate func(time.Duration) float64, length func(*rand.Rand) time.Duration) []job {
	var jobs []job
	for t := time.Duration(0); ; {
		t += time.Duration(r.ExpFloat64() / highest * float64(time.Second))
		if t >= span {
			return jobs
		}
		if r.Float64()*highest < rate(t) {
			jobs = append(jobs, job{lead + t, length(r)})
		}
	}
}

func exponential(mean time.Duration) func(*rand.Rand) time.Duration {
	return func(r *rand.Rand) time.Duration { return time.Duration(r.ExpFloat64() * float64(mean)) }
}

func bursts(r *rand.Rand) []job {
	var jobs []job
	at := lead
	for range 12 {
		for range 200 {
			jobs = append(jobs, job{at + time.Duration(r.Float64()*5*float64(time.Second)), exponential(10 * time.Second)(r)})
		}
		at += 5*time.Minute + time.Duration(r.ExpFloat64()*5*float64(time.Minute))
	}
	slices.SortFunc(jobs, func(a, b job) int { return int(a.arrival - b.arrival) })
	return jobs
}
