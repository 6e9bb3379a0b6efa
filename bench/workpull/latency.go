package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/emptypb"

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
	quiet
	credits
	jobs    int // yet to be confirmed
	due     bool
	offered int
	done    chan struct{}
}

// Receive implements actor.Actor.
func (p *pacer) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		p.grant(ctx, m)
		p.offerDue(ctx)
	case *emptypb.Empty:
		p.due = true
		p.offerDue(ctx)
	case *workpull.Stored:
		acknowledge(ctx, m)
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
	if p.due && len(p.open) > 0 {
		p.due = false
		p.offered++
		p.offer(ctx, p.offered, stamped(uint64(clock())))
	}
}

func latencyMeasures(where string, p50, p99 float64) []measure {
	return []measure{
		{name: "latency, " + where + ", p50", unit: "µs", better: lower, bar: p50},
		{name: "latency, " + where + ", p99", unit: "µs", better: lower, bar: p99},
	}
}

// pace runs the jobs of a latency.
func (n *node) pace(ctx context.Context, b *bench, p *pacer) error {
	if err := n.ready(ctx, 1); err != nil {
		return fmt.Errorf("wait for the worker: %w", err)
	}
	return b.measured(func() error {
		if err := n.open(ctx); err != nil {
			return err
		}
		return pause(ctx, p.done)
	})
}

func percentiles(ages []time.Duration, jobs int) ([]float64, error) {
	if len(ages) != jobs {
		return nil, fmt.Errorf("%d deliveries of %d jobs", len(ages), jobs)
	}
	ages = ages[unsampled:]
	return []float64{microseconds(quantile(ages, 0.50)), microseconds(quantile(ages, 0.99))}, nil
}

// latencyHere has the worker in the producer's system.
func latencyHere(e extent) experiment {
	return experiment{
		name:     "latency, same node",
		measures: latencyMeasures("same node", 50, 200),
		once: func(ctx context.Context, b *bench) (values []float64, err error) {
			n, err := startNode(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.stop(ctx)) }()
			p := &pacer{jobs: unsampled + e.samples, done: make(chan struct{})}
			if err := n.produce(ctx, p); err != nil {
				return nil, err
			}
			ages := make([]time.Duration, 0, unsampled+e.samples)
			w := &sink{handle: func(d *workpull.Delivery) {
				ages = append(ages, clock()-time.Duration(stampOf(d)))
			}}
			if err := n.work(ctx, 1, func(int) actor.Actor { return w }); err != nil {
				return nil, err
			}
			if err := n.pace(ctx, b, p); err != nil {
				return nil, err
			}
			return percentiles(ages, unsampled+e.samples)
		},
	}
}

// latencyThere has the worker in a process of its own on the same host.
func latencyThere(e extent) experiment {
	return experiment{
		name:     "latency, other process",
		measures: latencyMeasures("other process", 500, 2000),
		once: func(ctx context.Context, b *bench) (values []float64, err error) {
			n, err := startRemote(ctx)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, n.stop(ctx)) }()
			p := &pacer{jobs: unsampled + e.samples, done: make(chan struct{})}
			if err := n.produce(ctx, p); err != nil {
				return nil, err
			}
			c, err := startCrew(ctx, b, 1, workerConfig{producer: n.port, window: defaultWindow, stamps: true})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, c.stop()) }()
			if err := n.pace(ctx, b, p); err != nil {
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
