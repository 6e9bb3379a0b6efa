package testbed

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/workpull/operator/bench/internal/clock"
	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/stats"
)

// Span is how long a steady stream of jobs runs: first until it is steady, then
// while it is measured.
type Span struct{ Warm, Steady time.Duration }

// Flow is what a steady stream of jobs came to: jobs a second, and per job what
// this process and others used, processor time in µs.
type Flow struct {
	Rate, CPU, Allocations, Bytes, OthersCPU float64
	// Begun and Ended bound what was measured.
	Begun, Ended time.Time
}

// Flow opens the source when all workers are there and counts confirmations
// over the steady time. Others gives the processor time of other processes, if
// there are any. The source stays open.
func (n *Node) Flow(ctx context.Context, r *series.Run, over Span, s *Source, workers int, others func() (time.Duration, error)) (f Flow, err error) {
	if err := n.Ready(ctx, workers); err != nil {
		return f, fmt.Errorf("wait for %d workers: %w", workers, err)
	}
	if err := n.Open(ctx); err != nil {
		return f, err
	}
	if err := Pause(ctx, time.After(over.Warm)); err != nil {
		return f, err
	}
	if others == nil {
		others = func() (time.Duration, error) { return 0, nil }
	}
	return f, r.Measured(func() error {
		first, err := s.usage(others)
		if err != nil {
			return err
		}
		if err := Pause(ctx, time.After(over.Steady)); err != nil {
			return err
		}
		err = Until(ctx, func() (bool, error) { return s.Confirmed() > first.jobs, nil })
		if err != nil {
			return fmt.Errorf("wait for a confirmation: %w", err)
		}
		last, err := s.usage(others)
		if err != nil {
			return err
		}
		jobs := float64(last.jobs - first.jobs)
		f = Flow{
			Rate:        jobs / last.at.Sub(first.at).Seconds(),
			CPU:         stats.Microseconds(last.cpu-first.cpu) / jobs,
			Allocations: float64(last.memory.Mallocs-first.memory.Mallocs) / jobs,
			Bytes:       float64(last.memory.TotalAlloc-first.memory.TotalAlloc) / jobs,
			Begun:       first.at,
			Ended:       last.at,
			OthersCPU:   stats.Microseconds(last.others-first.others) / jobs,
		}
		return nil
	})
}

// usage is what was done and used until a moment.
type usage struct {
	at          time.Time
	jobs        int64 // confirmed
	cpu, others time.Duration
	memory      runtime.MemStats
}

func (s *Source) usage(others func() (time.Duration, error)) (u usage, err error) {
	if u.others, err = others(); err != nil {
		return u, err
	}
	runtime.ReadMemStats(&u.memory)
	u.at, u.jobs, u.cpu = time.Now(), s.Confirmed(), clock.Processor()
	return u, nil
}
