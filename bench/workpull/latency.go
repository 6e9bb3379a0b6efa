package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/workpull/operator/bench/internal/clock"
	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/stats"
	"github.com/workpull/operator/bench/internal/testbed"
	"github.com/workpull/operator/workpull"
)

// A latency is that of one job in an idle system, from the moment at which the
// producer actor makes its answer to an open RequestNext to the moment at
// which the worker actor receives the delivery, both read from the machine's
// monotonic clock. Of the samples that count, 2,000, the 20 slowest are above the
// 99th percentile.
const (
	// pacerGap lies between a confirmation and the next job, so that
	// everything has gone to sleep by then.
	pacerGap = time.Millisecond
	// unsampled jobs go before those that count.
	unsampled = 200
)

// pacer is a producer actor that offers one job at a time, each some time
// after the one before was confirmed.
type pacer struct {
	testbed.Quiet
	testbed.Credits
	jobs    int // yet to be confirmed
	due     bool
	offered int
	done    chan struct{}
}

// Receive implements actor.Actor.
func (p *pacer) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		p.Grant(ctx, m)
		p.offerDue(ctx)
	case *emptypb.Empty:
		p.due = true
		p.offerDue(ctx)
	case *workpull.Stored:
		testbed.Acknowledge(ctx, m)
	case *workpull.DeliveryConfirmed:
		if p.jobs--; p.jobs == 0 {
			close(p.done)
			return
		}
		self := ctx.Self()
		time.AfterFunc(pacerGap, func() { _ = actor.Tell(context.Background(), self, new(emptypb.Empty)) })
	}
}

func (p *pacer) offerDue(ctx *actor.ReceiveContext) {
	if p.due && p.Open() > 0 {
		p.due = false
		p.offered++
		p.Offer(ctx, strconv.Itoa(p.offered), testbed.Stamped(uint64(clock.Monotonic())))
	}
}

func latencyMeasures(where string, p50, p99 float64) []series.Measure {
	return []series.Measure{
		{Name: "latency, " + where + ", p50", Unit: "µs", Better: series.Lower, Bar: p50},
		{Name: "latency, " + where + ", p99", Unit: "µs", Better: series.Lower, Bar: p99},
	}
}

// pace runs the jobs of a latency.
func (p *pacer) pace(ctx context.Context, n *testbed.Node, r *series.Run) error {
	if err := n.Ready(ctx, 1); err != nil {
		return fmt.Errorf("wait for the worker: %w", err)
	}
	return r.Measured(func() error {
		if err := n.Open(ctx); err != nil {
			return err
		}
		return testbed.Pause(ctx, p.done)
	})
}

func percentiles(ages []time.Duration, jobs int) ([]float64, error) {
	if len(ages) != jobs {
		return nil, fmt.Errorf("%d deliveries of %d jobs", len(ages), jobs)
	}
	ages = ages[unsampled:]
	return []float64{stats.Microseconds(stats.Quantile(ages, 0.50)), stats.Microseconds(stats.Quantile(ages, 0.99))}, nil
}

// latencyHere has the worker in the producer's system.
func latencyHere(e extent) series.Experiment {
	return series.Experiment{
		Name:     "latency, same node",
		Measures: latencyMeasures("same node", 50, 200),
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			n, err := testbed.Start(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.Stop(ctx)) }()
			p := &pacer{jobs: unsampled + e.samples, done: make(chan struct{})}
			if err := n.Produce(ctx, p); err != nil {
				return nil, err
			}
			ages := make([]time.Duration, 0, unsampled+e.samples)
			w := &testbed.Sink{Handle: func(d *workpull.Delivery) {
				ages = append(ages, clock.Monotonic()-time.Duration(testbed.StampOf(d)))
			}}
			if err := n.Work(ctx, 1, func(int) actor.Actor { return w }); err != nil {
				return nil, err
			}
			if err := p.pace(ctx, n, r); err != nil {
				return nil, err
			}
			return percentiles(ages, unsampled+e.samples)
		},
	}
}

// latencyThere has the worker in a process of its own on the same host.
func latencyThere(e extent) series.Experiment {
	return series.Experiment{
		Name:     "latency, other process",
		Measures: latencyMeasures("other process", 500, 2000),
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			n, err := testbed.StartRemote(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.Stop(ctx)) }()
			p := &pacer{jobs: unsampled + e.samples, done: make(chan struct{})}
			if err := n.Produce(ctx, p); err != nil {
				return nil, err
			}
			c, err := startCrew(ctx, r, 1, workerConfig{producer: n.Port, window: testbed.DefaultWindow, stamps: true})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, c.stop()) }()
			if err := p.pace(ctx, n, r); err != nil {
				return nil, err
			}
			t, err := c[0].end()
			if err != nil {
				return nil, fmt.Errorf("take the ages: %w", err)
			}
			return percentiles(t.Ages, unsampled+e.samples)
		},
	}
}
