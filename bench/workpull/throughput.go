package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/workpull"
)

// oneNode measures a system with the producer and all workers in it, at the
// default window. Its values are jobs a second and, with four workers,
// processor time, allocations and bytes per job, those of the user's two actors
// included.
func oneNode(e extent, workers, credits int) experiment {
	const accounted = 4 // workers of the experiment that counts allocations too
	name := fmt.Sprintf("one node, %d workers, window %d, %s", workers, defaultWindow, credited(credits))
	return experiment{
		name:     name,
		measures: []measure{{name: name, unit: "jobs/s", better: higher}},
		once: func(ctx context.Context, b *bench) (values []float64, err error) {
			n, err := startNode(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.stop(ctx)) }()
			s := newSource()
			if err := n.produce(ctx, s, workpull.WithReliableCredits(credits)); err != nil {
				return nil, err
			}
			if err := n.work(ctx, workers, func(int) actor.Actor { return new(sink) }); err != nil {
				return nil, err
			}
			f, err := n.flow(ctx, b, e, s, workers, nil)
			if err != nil || workers != accounted {
				return []float64{f.rate}, err
			}
			if credits == 1 {
				b.note("%s", remains(s.confirmed.Load()))
			}
			return []float64{f.rate, f.cpu, f.allocations, f.bytes}, nil
		},
	}
}

// flow is what a steady stream of jobs came to: jobs a second, and per job what
// this process and the worker processes used, processor time in µs.
type flow struct{ rate, cpu, allocations, bytes, workersCPU float64 }

// flow opens the source when all workers are there and counts confirmations
// over the steady time.
func (n *node) flow(ctx context.Context, b *bench, e extent, s *source, workers int, c crew) (f flow, err error) {
	if err := n.ready(ctx, workers); err != nil {
		return f, fmt.Errorf("wait for %d workers: %w", workers, err)
	}
	if err := n.open(ctx); err != nil {
		return f, err
	}
	if err := pause(ctx, time.After(e.warm)); err != nil {
		return f, err
	}
	return f, b.measured(func() error {
		first, err := s.usage(c)
		if err != nil {
			return err
		}
		if err := pause(ctx, time.After(e.steady)); err != nil {
			return err
		}
		err = until(ctx, func() (bool, error) { return s.confirmed.Load() > first.jobs, nil })
		if err != nil {
			return fmt.Errorf("wait for a confirmation: %w", err)
		}
		last, err := s.usage(c)
		if err != nil {
			return err
		}
		jobs := float64(last.jobs - first.jobs)
		f = flow{
			rate:        jobs / last.at.Sub(first.at).Seconds(),
			cpu:         microseconds(last.cpu-first.cpu) / jobs,
			allocations: float64(last.memory.Mallocs-first.memory.Mallocs) / jobs,
			bytes:       float64(last.memory.TotalAlloc-first.memory.TotalAlloc) / jobs,
			workersCPU:  microseconds(last.workers.CPU-first.workers.CPU) / jobs,
		}
		return nil
	})
}

// usage is what was done and used until a moment.
type usage struct {
	at      time.Time
	jobs    int64 // confirmed
	cpu     time.Duration
	memory  runtime.MemStats
	workers tally
}

func (s *source) usage(c crew) (u usage, err error) {
	if u.workers, err = c.sum(); err != nil {
		return u, err
	}
	runtime.ReadMemStats(&u.memory)
	u.at, u.jobs, u.cpu = time.Now(), s.confirmed.Load(), cpuTime()
	return u, nil
}

// remains says who allocates, for jobs since the start of the process.
func remains(jobs int64) string {
	const shown = 10
	var said []string
	all := allocators()
	for _, a := range all[:min(shown, len(all))] {
		said = append(said, fmt.Sprintf("%s %.2f (%.0f B)", a.name, a.objects/float64(jobs), a.bytes/float64(jobs)))
	}
	return "allocations per job (bytes), the first by number: " + strings.Join(said, ", ")
}

// processWindow is the workers' window between processes. The default of 50
// would bound the row by its round trips, each of which tops up half a window.
const processWindow = 1000

// twoProcesses measures a producer in this process and two worker processes
// attached to it over loopback. With one credit the base contract holds: one
// RequestNext is open at a time, nothing is stored ahead of demand; only the
// workers' window is larger than the default, and remoting does not compress.
func twoProcesses(e extent, credits int, bar float64) experiment {
	const workers = 2
	name := fmt.Sprintf("producer and %d worker processes, window %d, %s", workers, processWindow, credited(credits))
	return experiment{
		name: name,
		measures: []measure{
			{name: name, unit: "jobs/s", better: higher, bar: bar},
			{name: name + ": processor time of the producer", unit: "µs/job", better: lower},
			{name: name + ": processor time of the workers", unit: "µs/job", better: lower},
		},
		once: func(ctx context.Context, b *bench) (values []float64, err error) {
			n, err := startRemote(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.stop(ctx)) }()
			s := newSource()
			if err := n.produce(ctx, s, workpull.WithReliableCredits(credits)); err != nil {
				return nil, err
			}
			c, err := startCrew(ctx, b, workers, workerConfig{producer: n.port, window: processWindow})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, c.stop()) }()
			f, err := n.flow(ctx, b, e, s, workers, c)
			return []float64{f.rate, f.cpu, f.workersCPU}, err
		},
	}
}
