package workpull

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/goaktpb"

	"github.com/workpull/operator/workpull/internal/codec"
	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/outbox"
	"github.com/workpull/operator/workpull/internal/wire"
)

// consumerController is the shell around core.Consumer.
type consumerController struct {
	endpoint *endpoint
	node     *node
	mailbox  *mailbox
	actor    *actor.PID // the worker endpoint
	resolver peers

	mu          sync.Mutex
	begun       bool
	stopped     bool
	core        *core.Consumer
	incarnation string
	self        *actor.PID
	noSender    *actor.PID
	timer       *time.Timer
	flush       *time.Timer
	place       place
	outbox      *outbox.Outbox // toward place, when it is on another node
	accepted    [1]*core.Delivery
	told        outcome // the delivery that the worker actor was told last
	suspended   bool    // the worker actor is
	drained     bool
	waiting     []chan struct{} // for Drained
	late        lates
	trouble     string // why the producer was not found, as last logged
}

var _ actor.Actor = (*consumerController)(nil)

func newConsumerController(e *endpoint, self *actor.PID) (*consumerController, error) {
	c := &consumerController{endpoint: e, node: e.node, mailbox: newMailbox(), actor: self, resolver: e.node.resolver(e.spec)}
	c.mailbox.ours, c.mailbox.at, c.mailbox.handle = c.frequent, c.fromActor, c.here
	return c, c.configure(randomName())
}

// frequent tells whether a message comes with each job.
func (c *consumerController) frequent(ctx *actor.ReceiveContext) bool {
	switch ctx.Message().(type) {
	case *batch, *wire.Batch, *Confirmed, *Rejected:
		return true
	}
	return false
}

// fromActor tells whether a message is the worker actor's, whose goroutine runs
// the turn where it can.
func (c *consumerController) fromActor(ctx *actor.ReceiveContext) bool {
	if ctx.Sender() != c.actor {
		return false
	}
	switch ctx.Message().(type) {
	case *Confirmed, *Rejected:
		return true
	}
	return false
}

func (c *consumerController) here(ctx *actor.ReceiveContext) {
	here(ctx.Self(), func() bool { c.Receive(ctx); return false })
}

// accept takes a job from the producer's controller of this system.
func (c *consumerController) accept(from core.Peer, e *core.Effect) (stop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || !c.begun {
		return false
	}
	now := c.node.now()
	c.accepted[0] = e.Delivery
	c.core.Batch(now, from, e.Session, e.Binding, c.accepted[:])
	c.accepted[0] = nil
	c.carryOut(now)
	return false
}

// configure makes a core of a new incarnation.
func (c *consumerController) configure(incarnation string) (err error) {
	cfg := c.endpoint.spec.consumer
	cfg.Producer, cfg.Endpoint, cfg.Identity = c.endpoint.spec.follows, c.endpoint.spec.name, c.endpoint.identity()
	cfg.Incarnation, cfg.Actor, cfg.Host = incarnation, core.Peer(c.actor.ID()), c.actor.Address().HostPort()
	cfg.FirstNonce = randomID() >> 1 // with room to count from there
	c.incarnation = incarnation
	c.core, err = core.NewConsumer(cfg)
	return err
}

// box implements controller.
func (c *consumerController) box() *mailbox { return c.mailbox }

// hasFailed implements controller: this one has no terminal failures.
func (c *consumerController) hasFailed() bool { return false }

// PreStart implements actor.Actor.
func (c *consumerController) PreStart(*actor.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = false
	c.mailbox.start()
	return nil
}

// PostStop implements actor.Actor.
func (c *consumerController) PostStop(*actor.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, t := range []*time.Timer{c.timer, c.flush} {
		if t != nil {
			t.Stop()
		}
	}
	if c.self != nil {
		c.farewell()
		c.node.leave(c.self)
	}
	if c.outbox != nil {
		c.outbox.Finish()
		c.outbox = nil
	}
	return nil
}

// farewell tells a producer on another node that this controller ends; one of
// this system watches it.
func (c *consumerController) farewell() {
	if c.outbox == nil {
		return
	}
	c.core.Stop(c.node.now())
	for _, e := range c.core.Take() {
		if e.Kind == core.SendControl && e.Peer == c.place.peer {
			c.outbox.Message(0, codec.EncodeControl(e.Message))
		}
	}
}

// Receive implements actor.Actor.
func (c *consumerController) Receive(ctx *actor.ReceiveContext) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	now := c.node.now()
	switch m := ctx.Message().(type) {
	case *begin:
		c.begun = true
		c.start(ctx, now)
	case *goaktpb.PostStart:
		if c.begun { // restarted in place: a new incarnation of the core
			if err := c.configure(randomName()); err != nil {
				ctx.Err(err)
				return
			}
			c.start(ctx, now)
		}
	case *tick:
		c.followSuspension(ctx, now)
		c.core.Tick(now)
		c.arm()
	case *flush:
		c.core.Flush(now)
	case *resolved:
		c.found(ctx, now, m)
	case *batch:
		c.core.Batch(now, c.local(ctx), m.session, m.binding, m.jobs[:])
	case *registered:
		c.core.RegisterAck(now, c.local(ctx), m.Session, m.Binding, *m.Grant)
		c.late.tell(c, c.place.peer)
		c.arm()
	case *acknowledged:
		c.core.ControlAck(now, c.local(ctx), m.session, m.binding, m.control)
	case *wire.Batch:
		if jobs, ok := codec.DecodeBatch(m); ok {
			c.core.Batch(now, c.remote(ctx), m.GetSession(), m.GetBinding(), jobs)
		}
	case *wire.RegisterAck:
		if grant, ok := codec.DecodeRegisterAck(m); ok {
			c.core.RegisterAck(now, c.remote(ctx), m.GetSession(), m.GetBinding(), grant)
			c.late.tell(c, c.place.peer)
			c.arm()
		}
	case *wire.ControlAck:
		c.core.ControlAck(now, c.remote(ctx), m.GetSession(), m.GetBinding(), m.GetControl())
	case *recall:
		c.core.Recall(now, c.local(ctx), m.session, m.binding, m.sequence)
	case *wire.Recall:
		c.core.Recall(now, c.remote(ctx), m.GetSession(), m.GetBinding(), m.GetSequence())
	case *Confirmed:
		c.core.Confirmed(now, c.local(ctx), m.session, m.binding, m.sequence, m.id)
	case *Rejected:
		c.core.Rejected(now, c.local(ctx), m.session, m.binding, m.sequence, m.id, m.reason)
	case *handlerRestarted:
		if m.outcome == c.told { // one that was confirmed before the panic is not told again
			c.core.HandlerRestarted(now)
		}
	case *goaktpb.Terminated:
		c.core.ProducerStopped(now, core.Peer(m.GetAddress()))
	case *drain:
		c.drain(now, m)
	case *panicked:
		panic(m.String())
	case *inquire:
		m.reply <- c.status()
	default:
		ctx.Unhandled()
	}
	c.carryOut(now)
}

func (c *consumerController) start(ctx *actor.ReceiveContext, now time.Duration) {
	c.self, c.noSender = ctx.Self(), ctx.ActorSystem().NoSender()
	c.node.enter(companion{pid: c.self, endpoint: c.endpoint, incarnation: c.incarnation})
	c.place, c.drained, c.told = place{}, false, outcome{}
	c.core.Start(now)
	c.arm()
}

func (c *consumerController) local(ctx *actor.ReceiveContext) core.Peer {
	if sender := ctx.Sender(); sender != nil && sender != c.noSender {
		return core.Peer(sender.ID())
	}
	return ""
}

// remote is the sender on another node, as it says itself. Nobody can speak
// for a controller of this system that way.
func (c *consumerController) remote(ctx *actor.ReceiveContext) core.Peer {
	if sender := ctx.RemoteSender(); sender != nil && ctx.Sender() == c.noSender && !c.node.isHere(sender.Host(), sender.Port()) {
		return core.Peer(sender.String())
	}
	return ""
}

// arm sets the timer to the present interval, which an acknowledgement may
// have changed.
func (c *consumerController) arm() {
	interval := c.core.Interval()
	if c.timer != nil {
		c.timer.Reset(interval)
		return
	}
	self := c.self
	c.timer = time.AfterFunc(interval, func() { _ = self.Tell(context.Background(), self, &tick{}) })
}

// followSuspension hands everything back when the worker actor was suspended
// by its supervisor, and begins a new incarnation when it is reinstated
// (rule 88). By default GoAkt suspends an actor that reports an error.
func (c *consumerController) followSuspension(ctx *actor.ReceiveContext, now time.Duration) {
	suspended := c.actor.IsSuspended()
	if suspended == c.suspended {
		return
	}
	c.suspended = suspended
	if suspended {
		ctx.Logger().Warnf("%s is suspended: its jobs are handed back", c.endpoint.spec.name)
		c.core.Drain(now) // first: no other job takes the place of the one that runs
		c.core.Rejected(now, core.Peer(c.actor.ID()), c.told.session, c.told.binding, c.told.sequence, c.told.id, "the worker is suspended")
		return
	}
	if err := c.configure(randomName()); err != nil {
		ctx.Err(err)
		return
	}
	c.start(ctx, now)
}

func (c *consumerController) carryOut(now time.Duration) {
	for effects := c.core.Take(); len(effects) > 0; effects = c.core.Take() {
		for i := range effects {
			c.do(now, &effects[i])
		}
	}
}

func (c *consumerController) do(now time.Duration, e *core.Effect) {
	switch e.Kind {
	case core.Deliver:
		c.deliver(now, e)
	case core.SendControl:
		c.send(e.Peer, &control{Control: e.Message}, func() protoMessage { return codec.EncodeControl(e.Message) })
	case core.SendRegister:
		c.send(e.Peer, &registration{Registration: *e.Registration}, func() protoMessage { return codec.EncodeRegister(e.Registration) })
	case core.SendLate:
		c.late.add(&late{session: e.Session, HeldAttempt: core.HeldAttempt{ID: e.Delivery.ID, Epoch: e.Delivery.Epoch, Token: e.Delivery.Token}})
		c.late.tell(c, e.Peer)
	case core.Resolve:
		c.resolve(now)
	case core.SetFlush:
		c.setFlush()
	case core.Drained:
		c.drained = true
		for _, done := range c.waiting {
			close(done)
		}
		c.waiting = nil
	}
}

// send gives the producer's controller the local or the encoded form.
func (c *consumerController) send(peer core.Peer, local protoMessage, encoded func() protoMessage) {
	switch {
	case peer != c.place.peer:
	case c.place.local != nil:
		_ = c.self.Tell(context.Background(), c.place.local, local)
	case c.outbox != nil:
		c.outbox.Message(0, encoded())
	}
}

func (c *consumerController) setFlush() {
	if c.flush != nil {
		c.flush.Reset(core.FlushDelay)
		return
	}
	self := c.self
	c.flush = time.AfterFunc(core.FlushDelay, func() { _ = self.Tell(context.Background(), self, &flush{}) })
}

// deliver decodes the job afresh (rule 80) and tells the worker actor. One
// that cannot be decoded is rejected and reported (rule 85).
func (c *consumerController) deliver(now time.Duration, e *core.Effect) {
	d := e.Delivery
	payload, err := decodePayload(&d.Payload)
	if err != nil {
		reason := err.Error()
		c.node.system.Logger().Errorf("%s: job %s: %s", c.endpoint.spec.name, d.ID, reason)
		c.core.Rejected(now, core.Peer(c.actor.ID()), e.Session, e.Binding, d.Sequence, d.ID, codec.Cut(reason))
		return
	}
	c.told = outcome{session: e.Session, binding: e.Binding, sequence: d.Sequence, id: d.ID}
	_ = c.self.Tell(context.Background(), c.actor, &Delivery{
		parties: parties{endpoint: c.actor, controller: c.self},
		session: e.Session, binding: e.Binding, sequence: d.Sequence, id: d.ID, attempt: d.Attempt, token: d.Token, epoch: d.Epoch, payload: payload,
	})
}

// resolve looks for the producer beside the turn, anew each time (rule 74).
func (c *consumerController) resolve(now time.Duration) {
	self, resolver, producer := c.self, c.resolver, c.endpoint.spec.follows
	started := c.node.aside(func(ctx context.Context) {
		place, err := resolveSafely(ctx, resolver, producer)
		_ = self.Tell(context.Background(), self, &resolved{place: place, err: err})
	})
	if !started {
		c.core.Resolved(now, "")
	}
}

// resolveSafely survives a panic in the user's address function.
func resolveSafely(ctx context.Context, resolver peers, producer string) (p place, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrProducerNotFound, cause, debug.Stack())
		}
	}()
	return resolver.Resolve(ctx, producer)
}

// found adopts where the producer is now.
func (c *consumerController) found(ctx *actor.ReceiveContext, now time.Duration, m *resolved) {
	if m.err != nil {
		if text := m.err.Error(); text != c.trouble {
			c.trouble = text
			ctx.Logger().Warnf("%s: %v", c.endpoint.spec.name, m.err)
		}
		c.core.Resolved(now, "")
		return
	}
	c.trouble = ""
	if m.place.peer != c.place.peer {
		c.move(m.place)
	}
	c.core.Resolved(now, m.place.peer)
	if local := m.place.local; local != nil && !local.IsRunning() {
		c.core.ProducerStopped(now, m.place.peer)
	}
}

// move leaves the controller before and turns to the one at to.
func (c *consumerController) move(to place) {
	if c.place.local != nil {
		c.self.UnWatch(c.place.local)
	}
	if c.outbox != nil {
		c.outbox.Close()
		c.outbox = nil
	}
	c.place = place{}
	if to.local != nil {
		c.self.Watch(to.local)
		c.place = to
		return
	}
	remote, err := c.node.remotePeer(to.peer)
	if err != nil {
		return
	}
	c.place = to
	c.outbox = c.node.outbox(c.self, remote, nil)
}

func (c *consumerController) drain(now time.Duration, m *drain) {
	if c.drained {
		close(m.done)
		return
	}
	c.waiting = append(c.waiting, m.done)
	c.core.Drain(now)
}
