package workpull

import (
	"context"
	"fmt"
	"time"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/workpull/internal/core"
)

// Snapshot is the state of a producer endpoint's controller at one moment.
type Snapshot struct {
	// At is when this was the state, by the clock that all times here are of: it
	// never jumps.
	At time.Time
	// Session of the controller, which changes with each start, and Epoch of its
	// queue, 0 without one.
	Session, Epoch uint64
	// Waiting jobs have no worker, InFlight jobs are at one, Delayed jobs
	// wait for their backoff, Dead jobs are out of attempts.
	Waiting, InFlight, Delayed, Dead int
	// Running jobs are those in flight that their worker says have started, the
	// others are Buffered.
	Running, Buffered int
	// OldestAge is about how long ago the oldest waiting job was accepted, or
	// loaded; 0 when none waits. It may be 10 ms or some percent too high, and is
	// too low for a job that was at a worker before.
	OldestAge time.Duration
	// Totals since the controller started, in jobs.
	Accepted, Confirmed, Requeued, Rejected, Recalled uint64
	// Adopted attempts outlived an earlier controller (B15).
	Adopted uint64
	Workers []WorkerSnapshot
}

// WorkerSnapshot is one worker in a Snapshot.
type WorkerSnapshot struct {
	// Identity of the worker endpoint, its name, and the host:port of its
	// node; Host is empty for one of the producer's own system.
	Identity, Endpoint, Host string
	// Demand is how many more jobs it asks for, InFlight how many it holds.
	Demand, InFlight int
	// RunningID is the oldest job that it holds, RunningAttempt counts from 1
	// how often that one was given out.
	RunningID      string
	RunningAttempt int
	// Running tells that the worker has said that it runs, and RunningSince when;
	// a job that outlived a controller runs for longer than the new one knows.
	Running      bool
	RunningSince time.Time
	// IdleSince is since when it holds nothing; zero while it holds something.
	IdleSince time.Time
	// Since is when it registered.
	Since time.Time
	// Suspended workers get nothing until they answer; draining ones leave;
	// retired ones get nothing until they are released.
	Suspended, Draining, Retired bool
	// Uncertain workers are suspended, or there was news of their end: what they
	// hold they may never have got.
	Uncertain bool
}

func (c *producerController) snapshot(now time.Duration) Snapshot {
	state := c.core.Snapshot(now)
	s := Snapshot{
		At: c.node.origin.Add(now), Session: state.Session, Epoch: state.Epoch,
		Waiting: state.Waiting, InFlight: state.InFlight, Delayed: state.Delayed, Dead: state.Dead,
		Running: state.Running, Buffered: state.Buffered, OldestAge: state.OldestAge,
		Accepted: state.Accepted, Confirmed: state.Confirmed, Requeued: state.Requeued, Rejected: state.Rejected, Recalled: state.Recalled, Adopted: state.Adopted,
		Workers: make([]WorkerSnapshot, len(state.Workers)),
	}
	for i := range state.Workers {
		s.Workers[i] = c.node.worker(&state.Workers[i])
	}
	return s
}

func (n *node) worker(w *core.WorkerSnapshot) WorkerSnapshot {
	s := WorkerSnapshot{
		Identity: w.Identity, Endpoint: w.Endpoint, Host: w.Host, Demand: w.Demand, InFlight: w.InFlight,
		RunningID: w.RunningID, RunningAttempt: int(w.RunningAttempt), Running: w.Running,
		Since: n.origin.Add(w.Since), Suspended: w.Suspended, Draining: w.Draining, Retired: w.Retired, Uncertain: w.Uncertain,
	}
	if w.Running {
		s.RunningSince = n.origin.Add(w.RunningSince)
	}
	if w.InFlight == 0 {
		s.IdleSince = n.origin.Add(w.IdleSince)
	}
	return s
}

// Status is the state of a worker endpoint's controller at one moment.
type Status struct {
	// Registered: the producer has it and answered of late.
	Registered, Draining bool
	// InFlightID is the job that runs, if one does.
	InFlightID string
	// Buffered jobs wait behind it.
	Buffered int
	// Confirmed counts the jobs that are done at the present registration.
	Confirmed uint64
}

func (c *consumerController) status() Status {
	s := c.core.Status()
	return Status{Registered: s.Registered, Draining: s.Draining, InFlightID: s.InFlightID, Buffered: s.Buffered, Confirmed: s.Confirmed}
}

func endpointOf(pid *actor.PID) (*endpoint, bool) {
	if pid == nil {
		return nil, false
	}
	e, ok := pid.Actor().(*endpoint)
	return e, ok
}

// controllerOf returns the live controller of an endpoint of that role.
func controllerOf(pid *actor.PID, want role) (*actor.PID, error) {
	if pid == nil {
		return nil, fmt.Errorf("endpoint is nil: %w", ErrNotEndpoint)
	}
	e, ok := endpointOf(pid)
	if !ok || e.spec.role != want {
		return nil, fmt.Errorf("%s: wanted a %s: %w", pid.Name(), want, ErrNotEndpoint)
	}
	controller := e.liveController()
	if controller == nil {
		return nil, fmt.Errorf("%s: %w", pid.Name(), ErrNoController)
	}
	return controller, nil
}

// ask tells a controller a question and waits for the answer.
func ask[T any](ctx context.Context, pid *actor.PID, want role, question protoMessage, reply <-chan T) (answer T, err error) {
	controller, err := controllerOf(pid, want)
	if err != nil {
		return answer, err
	}
	if err := controller.ActorSystem().NoSender().Tell(ctx, controller, question); err != nil {
		return answer, fmt.Errorf("ask the controller of %s: %w", pid.Name(), err)
	}
	answer, err = receive(ctx, controller, reply)
	if err != nil {
		return answer, fmt.Errorf("ask the controller of %s: %w", pid.Name(), err)
	}
	return answer, nil
}

// lifeCheck is how often a waiting caller looks whether the actor it waits for
// has ended.
const lifeCheck = 50 * time.Millisecond

// receive waits for an answer, the end of the one who owes it, or the context.
func receive[T any](ctx context.Context, from *actor.PID, reply <-chan T) (answer T, err error) {
	ticker := time.NewTicker(lifeCheck)
	defer ticker.Stop()
	for {
		select {
		case answer = <-reply:
			return answer, nil
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-ticker.C:
			if from.IsRunning() {
				continue
			}
			select { // it may have answered before it ended
			case answer = <-reply:
				return answer, nil
			default:
				return answer, errStopped
			}
		}
	}
}

// Inspect tells what a producer endpoint's controller holds.
func Inspect(ctx context.Context, producer *actor.PID) (Snapshot, error) {
	reply := make(chan Snapshot, 1)
	return ask(ctx, producer, producerRole, &inspect{reply: reply}, reply)
}

// WorkerStatus tells what a worker endpoint's controller holds.
func WorkerStatus(ctx context.Context, worker *actor.PID) (Status, error) {
	reply := make(chan Status, 1)
	return ask(ctx, worker, workerRole, &inquire{reply: reply}, reply)
}

// Drain has a worker endpoint take no more jobs and hand back at once what has
// not started. It returns when nothing is held any more and the producer knows
// it, or when ctx ends; the endpoint stays as it is then, without jobs.
func Drain(ctx context.Context, worker *actor.PID) error {
	done := make(chan struct{})
	_, err := ask(ctx, worker, workerRole, &drain{done: done}, done)
	return err
}

// PeerLost tells that a connection which the node at host:port held open has
// closed: every producer controller of the system probes its workers there,
// and requeues the jobs of those that are gone. The port is the node's
// remoting port; 0 means every node at the host.
func PeerLost(ctx context.Context, system actor.ActorSystem, host string, port int) error {
	n, err := nodeOf(ctx, system, nil)
	if err != nil {
		return fmt.Errorf("peer %s lost: %w", hostPort(host, port), err)
	}
	if err := n.peerLost(ctx, host, port); err != nil {
		return fmt.Errorf("peer %s lost: %w", hostPort(host, port), err)
	}
	return nil
}

// Locate asks the node at host:port whether it hosts the producer endpoint. It
// returns nil when it does, and otherwise ErrProducerNotFound with the reason.
// The host is an IP address. It takes no longer than 500 ms.
func Locate(ctx context.Context, system actor.ActorSystem, host string, port int, producer string) error {
	n, err := nodeOf(ctx, system, nil)
	if err != nil {
		return fmt.Errorf("locate %s: %w", producer, err)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if _, err := n.at(ctx, host, port, producer); err != nil {
		return fmt.Errorf("locate %s: %w: %w", producer, ErrProducerNotFound, err)
	}
	return nil
}

// pid is the endpoint's own.
func (e *endpoint) pid() *actor.PID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.self
}
