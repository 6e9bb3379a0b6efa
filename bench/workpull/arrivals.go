package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/stats"
	"github.com/workpull/operator/bench/internal/testbed"
	"github.com/workpull/operator/workpull"
)

// intake is a producer actor that takes jobs from outside, by their place in a
// trace, and offers them in order.
type intake struct {
	testbed.Quiet
	testbed.Credits
	backlog []int
}

// Receive implements actor.Actor.
func (s *intake) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		s.Grant(ctx, m)
		s.offerBacklog(ctx)
	case *wrapperspb.UInt64Value:
		s.backlog = append(s.backlog, int(m.GetValue()))
		s.offerBacklog(ctx)
	case *workpull.Stored:
		testbed.Acknowledge(ctx, m)
	}
}

func (s *intake) offerBacklog(ctx *actor.ReceiveContext) {
	for len(s.backlog) > 0 && s.Open() > 0 {
		place := s.backlog[0]
		s.backlog = s.backlog[1:]
		s.Offer(ctx, strconv.Itoa(place+1), testbed.Stamped(uint64(place)))
	}
}

// arrivals measures how long jobs wait that arrive whether or not anybody is
// free: 8 workers of one node at 60% load, of 1% of the jobs each for a second.
// A wait is from the moment at which the trace has the job arrive to the start
// of its handler. The bar is 1.2 times the 99th percentile of an ideal central
// queue over the same trace, plus 5 ms.
//
// The runs play one trace of 12,000 jobs, which arrive in 27 s. How the long ones
// meet is up to the seed: for seeds 1 to 12 the ideal is from 205 to 850 ms, and
// from 239 to 826 ms with 40,000 jobs. What is steady is the wait beside the
// ideal of the very same trace.
func arrivals(e extent, seed uint64) series.Experiment {
	const (
		workers = 8
		load    = 0.6
		name    = "Poisson arrivals, 60% load, 1% of jobs 1 s, 8 workers, window 50: wait, p99"
	)
	trace := poisson(seed, e.arrivals, workers, load)
	ideal := stats.Quantile(idealWaits(trace, workers), 0.99)
	return series.Experiment{
		Name:     name,
		Measures: []series.Measure{{Name: name, Unit: "ms", Better: series.Lower, Bar: 1.2*stats.Milliseconds(ideal) + 5}},
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			n, err := testbed.Start(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.Stop(ctx)) }()
			if err := n.Produce(ctx, new(intake)); err != nil {
				return nil, err
			}
			var (
				begun  time.Time
				done   atomic.Int64
				waits  = make([]time.Duration, len(trace))
				actual = slices.Clone(trace) // with the time that each job took
			)
			w := &testbed.Sink{Done: &done, Handle: func(d *workpull.Delivery) {
				place := testbed.StampOf(d)
				started := time.Since(begun)
				waits[place] = started - trace[place].arrival
				time.Sleep(trace[place].service)
				actual[place].service = time.Since(begun) - started
			}}
			if err := n.Work(ctx, workers, func(int) actor.Actor { return w }); err != nil {
				return nil, err
			}
			if err := n.Ready(ctx, workers); err != nil {
				return nil, fmt.Errorf("wait for %d workers: %w", workers, err)
			}
			err = r.Measured(func() error {
				begun = time.Now()
				for place, j := range trace {
					if early := j.arrival - time.Since(begun); early > 0 {
						if err := testbed.Pause(ctx, time.After(early)); err != nil {
							return err
						}
					}
					if err := actor.Tell(ctx, n.Producer, wrapperspb.UInt64(uint64(place))); err != nil {
						return err
					}
				}
				return testbed.Until(ctx, func() (bool, error) { return done.Load() >= int64(len(trace)), nil })
			})
			if err != nil {
				return nil, err
			}
			if extra := done.Load() - int64(len(trace)); extra != 0 {
				return nil, fmt.Errorf("%d jobs ran twice", extra)
			}
			r.Note("%d jobs, seed %d; an ideal central queue's is %.1f ms, or %.1f ms where each job takes as long as it did here; "+
				"the mean wait is %.1f ms, the ideal queue's %.1f or %.1f ms",
				len(trace), seed, stats.Milliseconds(ideal), stats.Milliseconds(stats.Quantile(idealWaits(actual, workers), 0.99)),
				stats.Milliseconds(stats.Mean(waits)), stats.Milliseconds(stats.Mean(idealWaits(trace, workers))), stats.Milliseconds(stats.Mean(idealWaits(actual, workers))))
			return []float64{stats.Milliseconds(stats.Quantile(waits, 0.99))}, nil
		},
	}
}
