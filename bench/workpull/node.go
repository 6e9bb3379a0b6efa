package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/workpull/operator/workpull"
)

const (
	systemName   = "bench"
	producerName = "source"
	loopback     = "127.0.0.1"
	// defaultWindow is the pattern's own default.
	defaultWindow = workpull.DefaultFlowControlWindow
	// patience is how long a run waits for its workers, glance how often it
	// looks.
	patience = time.Minute
	glance   = 2 * time.Millisecond
)

// node is an actor system of this process and, on the producer's side, its
// producer endpoint.
type node struct {
	system   actor.ActorSystem
	port     int // of remoting, 0 without
	producer *actor.PID
}

// startNode starts a system without remoting.
func startNode(ctx context.Context) (*node, error) { return startOn(ctx, 0) }

// uncompressed is what the pattern's own client needs to match startRemote.
func uncompressed() workpull.SpawnOption {
	return workpull.WithRemotingOptions(remote.WithRemotingCompression(remote.NoCompression))
}

// startRemote starts a system that others reach over loopback, without
// compression: within a host it only costs time. Another process may take the port between its choice and its use: then it takes the next.
func startRemote(ctx context.Context) (n *node, err error) {
	for range 3 {
		var port int
		if port, err = freePort(ctx); err != nil {
			return nil, err
		}
		if n, err = startOn(ctx, port); err == nil {
			return n, nil
		}
	}
	return nil, err
}

func startOn(ctx context.Context, port int) (*node, error) {
	options := []actor.Option{actor.WithLogger(log.DiscardLogger)}
	if port != 0 {
		options = append(options, actor.WithRemote(remote.NewConfig(loopback, port, remote.WithCompression(remote.NoCompression))))
	}
	system, err := actor.NewActorSystem(systemName, options...)
	if err != nil {
		return nil, fmt.Errorf("make an actor system: %w", err)
	}
	if err := system.Start(ctx); err != nil {
		return nil, fmt.Errorf("start an actor system on port %d: %w", port, err)
	}
	return &node{system: system, port: port}, nil
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback+":0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// stop stops the system, also when the run's context has ended.
func (n *node) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return workpull.Stop(ctx, n.system)
}

// produce spawns the producer endpoint.
func (n *node) produce(ctx context.Context, source actor.Actor, options ...workpull.ProducerOption) (err error) {
	options = append(options, workpull.WithReliableDeliveryConfirmation())
	n.producer, err = workpull.Spawn(ctx, n.system, producerName, source, workpull.AsReliableWorkPullingProducer(options...), uncompressed())
	if err != nil {
		return fmt.Errorf("spawn the producer: %w", err)
	}
	return nil
}

// work spawns worker endpoints, each with an actor of its own.
func (n *node) work(ctx context.Context, workers int, worker func(i int) actor.Actor, options ...workpull.WorkerOption) error {
	for i := range workers {
		_, err := workpull.Spawn(ctx, n.system, fmt.Sprintf("worker-%d", i), worker(i),
			workpull.AsReliableWorkPullingWorker(producerName, options...))
		if err != nil {
			return fmt.Errorf("spawn worker %d: %w", i, err)
		}
	}
	return nil
}

// ready waits until so many workers have registered and asked for jobs.
func (n *node) ready(ctx context.Context, workers int) error {
	return until(ctx, func() (bool, error) {
		s, err := workpull.Inspect(ctx, n.producer)
		if err != nil || len(s.Workers) < workers {
			return false, err
		}
		for _, w := range s.Workers {
			if w.Demand == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// open tells the source that it may begin.
func (n *node) open(ctx context.Context) error {
	return actor.Tell(ctx, n.producer, new(emptypb.Empty))
}

// until waits for a condition.
func until(ctx context.Context, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		switch ok, err := condition(); {
		case err != nil:
			return err
		case ok:
			return nil
		}
		if err := pause(ctx, ticker.C); err != nil {
			return err
		}
	}
}

// pause waits for the channel or the end of the context.
func pause[T any](ctx context.Context, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
