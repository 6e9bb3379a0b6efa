package workpull

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tochemey/goakt/v3/actor"
)

// Stop stops an actor system: first its worker endpoints, then its producer
// endpoints, then the rest. It does not drain: what a worker holds goes to
// others; see Drain. In a cluster, endpoints of registered kinds go to members
// that stay: see Register.
//
// Do not call system.Stop while endpoints live. GoAkt v3.14.0 refuses messages
// in a system that stops, and tells its dead-letter actor of each; that message
// is refused too, and told, without end: the sender's goroutine is lost, and
// with it the actor whose turn it was. A controller's tick is enough. An
// endpoint that has ended sends nothing.
func Stop(ctx context.Context, system actor.ActorSystem) error {
	if system == nil {
		return errors.New("stop: the actor system is nil, wanted a running one")
	}
	var errs []error
	if n, pid := runningNode(system); n != nil {
		moving := n.beginLeaving(ctx)
		for _, r := range []role{workerRole, producerRole} {
			errs = append(errs, n.stopEndpoints(ctx, r))
		}
		n.handOver(ctx, moving)
		errs = append(errs, pid.Shutdown(ctx))
		n.awaitSwept(ctx)
	}
	errs = append(errs, system.Stop(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop the actor system: %w", err)
	}
	return nil
}

// runningNode is the system's node, if there is one.
func runningNode(system actor.ActorSystem) (*node, *actor.PID) {
	pid, err := system.LocalActor(directoryName(system.Host(), system.Port()))
	if err != nil {
		return nil, nil
	}
	n, ok := pid.Actor().(*node)
	if !ok || !pid.IsRunning() {
		return nil, nil
	}
	return n, pid
}

// awaitSwept waits until GoAkt has forgotten the actors that were stopped. It
// takes a stopped one that is still in its tree for relocatable, and has another
// member spawn it: a controller or a directory that nobody can make, upon which
// that member relocates nothing else any more (rule 90).
func (n *node) awaitSwept(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	if err := poll(ctx, func() bool {
		return !slices.ContainsFunc(n.system.Actors(), func(pid *actor.PID) bool { return !alive(pid) })
	}); err != nil {
		n.system.Logger().Warnf("stop: stopped actors are still in the tree: %v", err)
	}
}

// stopEndpoints stops all endpoints of a role at once.
func (n *node) stopEndpoints(ctx context.Context, r role) error {
	n.mu.Lock()
	var pids []*actor.PID
	for _, e := range n.endpoints {
		if e.spec.role == r {
			pids = append(pids, e.pid())
		}
	}
	n.mu.Unlock()
	errs := make([]error, len(pids))
	var group sync.WaitGroup
	for i, pid := range pids {
		if pid == nil || !alive(pid) {
			continue
		}
		group.Go(func() { errs[i] = pid.Shutdown(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}
