package workpull

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/goaktpb"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/wire"
)

// endpoint wraps the user's actor. GoAkt's restart in place forgets the
// dependencies and the supervisor and makes children relocatable (part 5,
// trap 2), so the wrapper catches panics and restarts the inner actor itself,
// as GoAkt would: PostStop, PreStart and PostStart of the same instance. It
// spawns the controller as its child, and knows what entered the handler.
//
// An inner actor that calls Become takes its messages past the wrapper: a
// panic in such a behaviour is GoAkt's to handle, which by default stops the
// endpoint; its jobs then go elsewhere.
type endpoint struct {
	node    *node
	spec    *spec
	mailbox *mailbox
	pulses  pulses

	// Of the actor's own turns.
	start    *actor.Context
	attached bool
	entered  outcome // the last delivery that entered the handler
	panics   int     // in a row

	mu         sync.Mutex
	self       *actor.PID
	controller *actor.PID
	failed     func() bool       // whether the controller published its failure
	queue      *core.LoadedQueue // loaded by Spawn, for the first controller
}

var _ actor.Actor = (*endpoint)(nil)

func newEndpoint(n *node, s *spec) *endpoint {
	return &endpoint{node: n, spec: s, mailbox: newMailbox()}
}

// PreStart implements actor.Actor.
func (e *endpoint) PreStart(ctx *actor.Context) error {
	if e.astray() {
		return nil
	}
	e.start = ctx
	e.mailbox.start()
	return e.spec.inner.PreStart(ctx)
}

// PostStop implements actor.Actor.
func (e *endpoint) PostStop(ctx *actor.Context) error {
	if e.astray() {
		return nil
	}
	e.node.forget(e)
	return e.spec.inner.PostStop(ctx)
}

// Receive implements actor.Actor.
func (e *endpoint) Receive(ctx *actor.ReceiveContext) {
	if e.astray() {
		if _, starts := ctx.Message().(*goaktpb.PostStart); starts {
			go endAstray(ctx.ActorSystem(), ctx.Self())
		}
		return
	}
	switch m := ctx.Message().(type) {
	case *attach:
		e.attached = true
		e.node.remember(e)
		m.done <- e.spawnController(ctx)
		return
	case *respawn:
		m.done <- e.respawn(ctx)
		return
	case *wire.Lookup: // somebody asks whether the name is alive
		return
	case *goaktpb.PostStart:
		if e.attached && !isReplay(ctx) { // restarted by supervision (rule 88)
			e.node.remember(e)
			if err := e.spawnController(ctx); err != nil {
				ctx.Err(fmt.Errorf("restart the controller of %s: %w", e.spec.name, err))
				return
			}
		}
	case *goaktpb.Terminated:
		if e.controllerEnded(m.GetAddress()) {
			return
		}
	case *Delivery:
		e.entered = outcome{session: m.session, binding: m.binding, sequence: m.sequence, id: m.id}
		e.hand(ctx)
		return
	}
	e.hand(ctx)
}

// hand gives a message to the inner actor and restarts it when it panics.
func (e *endpoint) hand(ctx *actor.ReceiveContext) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		ctx.Logger().Errorf("%s panicked on %T and is restarted: %v\n%s", e.spec.name, ctx.Message(), cause, debug.Stack())
		ctx.Err(e.restartInner(ctx)) // nil: a restart that worked is no failure
	}()
	e.spec.inner.Receive(ctx)
	if _, ok := ctx.Message().(*Delivery); ok {
		e.panics = 0
	}
}

// Backoff of deliveries that are told again to a handler that panics: none at
// first, then doubling.
const (
	firstPanicBackoff = 50 * time.Millisecond
	lastPanicBackoff  = 5 * time.Second
)

// restartInner restarts the user's actor. What waits in the mailbox stays; the
// delivery that had entered the handler is told again by the controller.
func (e *endpoint) restartInner(ctx *actor.ReceiveContext) error {
	if err := e.spec.inner.PostStop(e.start); err != nil {
		ctx.Logger().Errorf("stop %s to restart it: %v", e.spec.name, err)
	}
	if err := e.spec.inner.PreStart(e.start); err != nil {
		return fmt.Errorf("restart %s: %w", e.spec.name, err)
	}
	if err := ctx.Self().Tell(context.Background(), ctx.Self(), new(goaktpb.PostStart)); err != nil {
		return fmt.Errorf("restart %s: %w", e.spec.name, err)
	}
	if e.spec.role != workerRole || e.entered.sequence == 0 {
		return nil
	}
	var pause time.Duration
	if e.panics > 0 {
		pause = min(lastPanicBackoff, firstPanicBackoff<<min(e.panics-1, 16))
	}
	e.panics++
	if pid := e.liveController(); pid != nil {
		self, told := ctx.Self(), &handlerRestarted{outcome: e.entered}
		time.AfterFunc(pause, func() { _ = self.Tell(context.Background(), pid, told) })
	}
	return nil
}

// respawn restarts the inner actor, keeps a live controller and recreates a
// stopped one (rule 88).
func (e *endpoint) respawn(ctx *actor.ReceiveContext) error {
	if err := e.restartInner(ctx); err != nil {
		ctx.Err(err)
		return err
	}
	if e.liveController() != nil {
		return nil
	}
	return e.spawnController(ctx)
}

// takeQueue returns what Spawn loaded, once: a controller that starts later loads
// for itself.
func (e *endpoint) takeQueue() *core.LoadedQueue {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queue
	e.queue = nil
	return q
}

// spawnController spawns a controller beneath the endpoint in place of one
// that may still be there.
func (e *endpoint) spawnController(ctx *actor.ReceiveContext) error {
	self := ctx.Self()
	e.mu.Lock()
	old := e.controller
	e.self, e.controller = self, nil
	e.mu.Unlock()
	if old != nil && old.IsRunning() {
		if err := old.Shutdown(context.Background()); err != nil {
			return fmt.Errorf("stop the controller before: %w", err)
		}
	}
	controller, err := e.newController(self)
	if err != nil {
		return fmt.Errorf("configure the controller: %w", err)
	}
	pid, err := self.SpawnChild(context.Background(), controllerPrefix+randomName(), controller, actor.WithLongLived(), actor.WithMailbox(controller.box()))
	if err != nil {
		if pid != nil {
			err = errors.Join(err, pid.Shutdown(context.Background()))
		}
		return fmt.Errorf("spawn the controller: %w", err)
	}
	e.mu.Lock()
	e.controller, e.failed = pid, controller.hasFailed
	e.mu.Unlock()
	// It may begin only now: GoAkt posts PostStart before the actor is in the
	// tree, and nobody can watch it until it is.
	if err := self.Tell(context.Background(), pid, &begin{}); err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	return nil
}

// controller is what the endpoint knows of both kinds.
type controller interface {
	actor.Actor
	box() *mailbox
	// hasFailed tells whether it published its terminal failure.
	hasFailed() bool
}

func (e *endpoint) newController(self *actor.PID) (controller, error) {
	if e.spec.role == producerRole {
		return newProducerController(e, self)
	}
	return newConsumerController(e, self)
}

// controllerEnded takes note of the end of the endpoint's controller. The
// endpoint lives on (rule 61). A controller that did not publish its failure
// was stopped by something else, and that is published here (rule 91).
func (e *endpoint) controllerEnded(addr string) bool {
	e.mu.Lock()
	ended := e.controller
	if ended == nil || ended.ID() != addr {
		e.mu.Unlock()
		return isControllerName(lastName(addr))
	}
	failed := e.failed()
	e.controller = nil
	e.mu.Unlock()
	if !failed {
		e.node.publish(e, ReliableDeliveryStageProtocol, ErrControllerStopped)
	}
	return true
}

// liveController returns the controller, or nil when it has ended. One that has
// published its failure is about to: who answers the event with ReSpawn must
// not keep it (rule 88).
func (e *endpoint) liveController() *actor.PID {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.controller == nil || e.failed() || !e.controller.IsRunning() || e.self == nil || !alive(e.self) {
		return nil
	}
	return e.controller
}

// alive tells whether an actor runs or is suspended until its supervisor has
// decided: a suspended one may be reinstated.
func alive(pid *actor.PID) bool { return pid.IsRunning() || pid.IsSuspended() && !pid.IsStopping() }

// identity of a worker endpoint (rule 27).
func (e *endpoint) identity() string {
	if e.spec.consumer.Identity != "" {
		return e.spec.consumer.Identity
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.self == nil {
		return ""
	}
	return e.self.ID()
}
