// Package testbed has the actor systems, producers and workers that experiments
// measure.
package testbed

import (
	"context"
	"fmt"
	"net"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/workpull/operator/workpull"
)

// Names and addresses of a testbed.
const (
	systemName   = "bench"
	ProducerName = "source"
	Loopback     = "127.0.0.1"
	// DefaultWindow is the pattern's own default.
	DefaultWindow = workpull.DefaultFlowControlWindow
)

// Node is an actor system of this process and, on the producer's side, its
// producer endpoint.
type Node struct {
	System   actor.ActorSystem
	Port     int // of remoting, 0 without
	Producer *actor.PID
}

// Start starts a system without remoting.
func Start(ctx context.Context) (*Node, error) { return startOn(ctx, 0) }

// Uncompressed is what the pattern's own client needs to match StartRemote.
func Uncompressed() workpull.SpawnOption {
	return workpull.WithRemotingOptions(remote.WithRemotingCompression(remote.NoCompression))
}

// StartRemote starts a system that others reach over loopback, without
// compression: within a host it only costs time. Another process may take the
// port between its choice and its use: then it takes the next.
func StartRemote(ctx context.Context) (n *Node, err error) {
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

func startOn(ctx context.Context, port int) (*Node, error) {
	options := []actor.Option{actor.WithLogger(log.DiscardLogger)}
	if port != 0 {
		options = append(options, actor.WithRemote(remote.NewConfig(Loopback, port, remote.WithCompression(remote.NoCompression))))
	}
	system, err := actor.NewActorSystem(systemName, options...)
	if err != nil {
		return nil, fmt.Errorf("make an actor system: %w", err)
	}
	if err := system.Start(ctx); err != nil {
		return nil, fmt.Errorf("start an actor system on port %d: %w", port, err)
	}
	return &Node{System: system, Port: port}, nil
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", Loopback+":0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Stop stops the system, also when the run's context has ended.
func (n *Node) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return workpull.Stop(ctx, n.System)
}

// Produce spawns the producer endpoint, which wants DeliveryConfirmed.
func (n *Node) Produce(ctx context.Context, source actor.Actor, options ...workpull.ProducerOption) (err error) {
	options = append(options, workpull.WithReliableDeliveryConfirmation())
	n.Producer, err = workpull.Spawn(ctx, n.System, ProducerName, source, workpull.AsReliableWorkPullingProducer(options...), Uncompressed())
	if err != nil {
		return fmt.Errorf("spawn the producer: %w", err)
	}
	return nil
}

// Work spawns worker endpoints, each with an actor of its own.
func (n *Node) Work(ctx context.Context, workers int, worker func(i int) actor.Actor, options ...workpull.WorkerOption) error {
	for i := range workers {
		_, err := workpull.Spawn(ctx, n.System, fmt.Sprintf("worker-%d", i), worker(i),
			workpull.AsReliableWorkPullingWorker(ProducerName, options...))
		if err != nil {
			return fmt.Errorf("spawn worker %d: %w", i, err)
		}
	}
	return nil
}

// Ready waits until so many workers have registered and asked for jobs.
func (n *Node) Ready(ctx context.Context, workers int) error {
	return Until(ctx, func() (bool, error) {
		s, err := workpull.Inspect(ctx, n.Producer)
		if err != nil || len(s.Workers) < workers {
			return false, err
		}
		for _, w := range s.Workers {
			if w.Demand+w.InFlight == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// Open tells the source that it may begin.
func (n *Node) Open(ctx context.Context) error {
	return actor.Tell(ctx, n.Producer, new(emptypb.Empty))
}
