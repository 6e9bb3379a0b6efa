package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
)

// frozen measures what a worker process that stops without a word costs the
// others: eight processes, jobs that sleep 10 ms, one stopped by SIGSTOP. The
// value is the rate at which the other seven do jobs from then on, divided by
// their rate before. The time after the stop includes the deadline of the send
// that hangs, and ends before the lease does.
func frozen(e extent) series.Experiment {
	const (
		workers = 8
		work    = 10 * time.Millisecond
		name    = "8 worker processes, 10 ms jobs, one frozen: rate of the others, during ÷ before"
	)
	return series.Experiment{
		Name:     name,
		Measures: []series.Measure{{Name: name, Unit: "×", Better: series.Higher, Bar: 0.95}},
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			n, err := testbed.StartRemote(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.Stop(ctx)) }()
			if err := n.Produce(ctx, testbed.NewSource()); err != nil {
				return nil, err
			}
			c, err := startCrew(ctx, r, workers, workerConfig{producer: n.Port, window: testbed.DefaultWindow, work: work})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, c.stop()) }()
			if err := n.Ready(ctx, workers); err != nil {
				return nil, fmt.Errorf("wait for %d workers: %w", workers, err)
			}
			if err := n.Open(ctx); err != nil {
				return nil, err
			}
			if err := testbed.Pause(ctx, time.After(e.Warm)); err != nil {
				return nil, err
			}
			victim, others := c[0], c[1:]
			var before, during float64
			err = r.Measured(func() error {
				if before, err = others.rate(ctx, e.before); err != nil {
					return err
				}
				if err := victim.freeze(); err != nil {
					return fmt.Errorf("freeze a worker: %w", err)
				}
				during, err = others.rate(ctx, e.during)
				return err
			})
			return []float64{during / before}, err
		},
	}
}

// rate is how many jobs a second the processes do over a time, or a longer one
// if there is none in it.
func (c crew) rate(ctx context.Context, over time.Duration) (float64, error) {
	first, err := c.sum()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := testbed.Pause(ctx, time.After(over)); err != nil {
		return 0, err
	}
	var last tally
	err = testbed.Until(ctx, func() (more bool, err error) {
		last, err = c.sum()
		return last.Done > first.Done, err
	})
	if err != nil {
		return 0, fmt.Errorf("wait for a job that is done: %w", err)
	}
	return float64(last.Done-first.Done) / time.Since(begun).Seconds(), nil
}
