package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/workpull"
)

// pebbleReload measures how long a producer takes to take a backlog up, and
// what the backlog then costs of memory.
func pebbleReload(e extent, dir string) series.Experiment {
	name := "Pebble, reload of " + e.name + " waiting"
	return series.Experiment{
		Name: name,
		Measures: []series.Measure{
			{Name: name + ": to the first dispatch", Unit: "s", Better: series.Lower, Bar: 3},
			{Name: name + ": memory", Unit: "B/job", Better: series.Lower, Bar: 250},
		},
		Once: func(ctx context.Context, r *series.Run) (values []float64, err error) {
			path, remove, err := folder(dir)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, remove()) }()
			queue := pebble.New(path)
			if err := errors.Join(fill(ctx, queue, e.backlog), queue.Close()); err != nil {
				return nil, err
			}
			queue = pebble.New(path)
			defer func() { err = errors.Join(err, queue.Close()) }()
			return reload(ctx, r, e.backlog, queue)
		},
	}
}

// reload gives the time in seconds and the bytes by job. The first worker that
// gets a job holds it until the memory is measured, and so do the others.
func reload(ctx context.Context, r *series.Run, backlog int, queue workpull.DurableWorkQueue) (values []float64, err error) {
	n, err := testbed.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Stop(ctx)) }()
	dispatched, release := make(chan struct{}), make(chan struct{})
	defer close(release) // before the workers stop
	var first sync.Once
	w := &testbed.Sink{Handle: func(*workpull.Delivery) {
		first.Do(func() { close(dispatched) })
		<-release
	}}
	before, err := occupied()
	if err != nil {
		return nil, err
	}
	var took time.Duration
	err = r.Measured(func() error {
		begun := time.Now()
		f := flow{credits: credits, backlog: backlog}
		if err := n.Produce(ctx, testbed.NewSource(), f.options(queue)...); err != nil {
			return err
		}
		spawned := time.Since(begun)
		if err := n.Work(ctx, workers, func(int) actor.Actor { return w }); err != nil {
			return err
		}
		if err := testbed.Pause(ctx, dispatched); err != nil {
			return fmt.Errorf("wait for the first job: %w", err)
		}
		took = time.Since(begun)
		r.Note("Spawn of the producer took %.2f s of %.2f s", spawned.Seconds(), took.Seconds())
		return nil
	})
	if err != nil {
		return nil, err
	}
	s, err := workpull.Inspect(ctx, n.Producer)
	if err != nil {
		return nil, err
	}
	if s.Waiting+s.InFlight != backlog {
		return nil, fmt.Errorf("%d jobs wait and %d are with workers, wanted %d in all", s.Waiting, s.InFlight, backlog)
	}
	after, err := occupied()
	if err != nil {
		return nil, err
	}
	r.Note("the Go heap grew by %.1f MiB, all memory of the process by %.1f MiB, to %.1f MiB",
		after.mib(after.heap-before.heap), after.mib(after.resident-before.resident), after.mib(after.resident))
	return []float64{took.Seconds(), float64(after.heap-before.heap) / float64(backlog)}, nil
}

// occupancy is how much memory a process uses, in bytes.
type occupancy struct {
	heap     int64 // live, of Go
	resident int64 // of everything
}

func (occupancy) mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// occupied collects first, and gives back what is free.
func occupied() (o occupancy, err error) {
	runtime.GC() // twice: what pools hold goes with the second
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return o, fmt.Errorf("ask for the resident memory: %w", err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return o, fmt.Errorf("resident memory: %w", err)
	}
	return occupancy{heap: int64(m.HeapAlloc), resident: pages * int64(os.Getpagesize())}, nil
}
