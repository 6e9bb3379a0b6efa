package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/workpull"
)

// flow is a steady stream of jobs through a queue.
type flow struct {
	name    string
	bar     float64 // jobs a second, 0 is none
	credits int
	backlog int // jobs that wait all the time
}

// measures are the rate and, where there is a bare loop, its rate and the
// queue's share of it.
func (f *flow) measures(bare bool) []series.Measure {
	m := []series.Measure{{Name: f.name, Unit: "jobs/s", Better: series.Higher, Bar: f.bar}}
	if !bare {
		return m
	}
	loop := f.name + ": bare Pebble loop"
	return append(m,
		series.Measure{Name: loop, Unit: "jobs/s", Better: series.Higher},
		series.Measure{Name: f.name + ": of the bare Pebble loop", Unit: "%", Better: series.Higher, Bar: share, Of: loop})
}

// options of the producer.
func (f *flow) options(queue workpull.DurableWorkQueue) []workpull.ProducerOption {
	options := []workpull.ProducerOption{workpull.WithReliableDurableWorkQueue(queue), workpull.WithReliableCredits(f.credits)}
	if f.credits > 1 {
		options = append(options, workpull.WithReliableStoreAhead(f.backlog+ahead))
	}
	return options
}

// run has the jobs flow through a queue, which it fills first, and gives the
// rate and the commits that were measured.
func (f *flow) run(ctx context.Context, r *series.Run, over testbed.Span, queue wholeQueue) (rate float64, commits []commit, err error) {
	if f.backlog > 0 {
		if err := fill(ctx, queue, f.backlog); err != nil {
			return 0, nil, err
		}
	}
	n, err := testbed.Start(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, n.Stop(ctx)) }()
	w := &watched{wholeQueue: queue}
	s := testbed.NewSourceOf(newJobs().next)
	if err := n.Produce(ctx, s, f.options(w)...); err != nil {
		return 0, nil, err
	}
	if err := n.Work(ctx, workers, func(int) actor.Actor { return new(testbed.Sink) }); err != nil {
		return 0, nil, err
	}
	measured, err := n.Flow(ctx, r, over, s, workers, nil)
	if err != nil {
		return 0, nil, err
	}
	commits = w.between(measured.Begun, measured.Ended)
	r.Note("%s; %.1f µs of processor time, %.1f allocations and %.0f B a job",
		describe(commits, measured.Ended.Sub(measured.Begun)), measured.CPU, measured.Allocations, measured.Bytes)
	return measured.Rate, commits, nil
}

// folder makes a folder for a store, and returns what removes it.
func folder(dir string) (path string, remove func() error, err error) {
	path, err = os.MkdirTemp(dir, "workpull-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the store: %w", err)
	}
	return path, func() error { return os.RemoveAll(path) }, nil
}

// pebbleFlow measures queue/pebble, and after it the bare loop on its store.
func pebbleFlow(e extent, dir string, f flow) series.Experiment {
	return series.Experiment{
		Name:     f.name,
		Measures: f.measures(true),
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			path, remove, err := folder(dir)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, remove()) }()
			queue := pebble.New(path)
			rate, commits, err := f.run(ctx, r, e.Span, queue)
			if err := errors.Join(err, queue.Close()); err != nil {
				return nil, err
			}
			bare, err := f.bare(ctx, path, commits, e.Steady)
			return []float64{rate, bare}, err
		},
	}
}

// bare is the rate of the bare loop.
func (f *flow) bare(ctx context.Context, path string, commits []commit, steady time.Duration) (rate float64, err error) {
	b, err := openBare(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if f.credits > 1 {
		return b.repeat(ctx, commits)
	}
	return b.oneByOne(ctx, steady)
}

// memoryFlow measures queue/memory, whose commits cost next to nothing.
func memoryFlow(e extent) series.Experiment {
	f := flow{name: "in memory, 256 credits", credits: credits}
	return series.Experiment{
		Name:     f.name,
		Measures: f.measures(false),
		Once: func(ctx context.Context, r *series.Run) ([]float64, error) {
			defer memory.Drop(f.name)
			rate, _, err := f.run(ctx, r, e.Span, memory.New(f.name))
			return []float64{rate}, err
		},
	}
}
