package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
	"github.com/workpull/operator/workpull"
)

// oneNode measures a system with the producer and all workers in it, at the
// default window. Its values are jobs a second and, with four workers,
// processor time, allocations and bytes per job, those of the user's two actors
// included.
func oneNode(e extent, workers, credits int) series.Experiment {
	const accounted = 4 // workers of the experiment that counts allocations too
	name := fmt.Sprintf("one node, %d workers, window %d, %s", workers, testbed.DefaultWindow, credited(credits))
	return series.Experiment{
		Name:     name,
		Measures: []series.Measure{{Name: name, Unit: "jobs/s", Better: series.Higher}},
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			n, err := testbed.Start(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.Stop(ctx)) }()
			s := testbed.NewSource()
			if err := n.Produce(ctx, s, workpull.WithReliableCredits(credits)); err != nil {
				return nil, err
			}
			if err := n.Work(ctx, workers, func(int) actor.Actor { return new(testbed.Sink) }); err != nil {
				return nil, err
			}
			f, err := n.Flow(ctx, r, e.Span, s, workers, nil)
			if err != nil || workers != accounted {
				return []float64{f.Rate}, err
			}
			if credits == 1 {
				r.Note("%s", series.Allocations(s.Confirmed()))
			}
			return []float64{f.Rate, f.CPU, f.Allocations, f.Bytes}, nil
		},
	}
}

// processWindow is the workers' window between processes. The default of 50
// would bound the row by its round trips, each of which tops up half a window.
const processWindow = 1000

// twoProcesses measures a producer in this process and two worker processes
// attached to it over loopback. With one credit the base contract holds: one
// RequestNext is open at a time, nothing is stored ahead of demand; only the
// workers' window is larger than the default, and remoting does not compress.
func twoProcesses(e extent, credits int, bar float64) series.Experiment {
	const workers = 2
	name := fmt.Sprintf("producer and %d worker processes, window %d, %s", workers, processWindow, credited(credits))
	return series.Experiment{
		Name: name,
		Measures: []series.Measure{
			{Name: name, Unit: "jobs/s", Better: series.Higher, Bar: bar},
			{Name: name + ": processor time of the producer", Unit: "µs/job", Better: series.Lower},
			{Name: name + ": processor time of the workers", Unit: "µs/job", Better: series.Lower},
		},
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			n, err := testbed.StartRemote(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.Stop(ctx)) }()
			s := testbed.NewSource()
			if err := n.Produce(ctx, s, workpull.WithReliableCredits(credits)); err != nil {
				return nil, err
			}
			c, err := startCrew(ctx, r, workers, workerConfig{producer: n.Port, window: processWindow})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, c.stop()) }()
			f, err := n.Flow(ctx, r, e.Span, s, workers, c.processor)
			return []float64{f.Rate, f.CPU, f.OthersCPU}, err
		},
	}
}
