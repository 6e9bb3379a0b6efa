package workpull

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/goaktpb"

	"github.com/workpull/operator/workpull/internal/codec"
	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/outbox"
	"github.com/workpull/operator/workpull/internal/wire"
)

// producerController is the shell around core.Producer: it turns messages into
// events and carries out effects. No turn waits for anything.
type producerController struct {
	endpoint *endpoint
	node     *node
	mailbox  *mailbox
	laneCtx  context.Context // of the queue's operations, from start to stop
	laneStop context.CancelFunc
	actor    *actor.PID // the producer endpoint
	failed   atomic.Bool

	// mu guards the turns against PostStop, which GoAkt runs beside them.
	mu       sync.Mutex
	begun    bool
	stopped  bool
	core     *core.Producer
	self     *actor.PID
	peer     core.Peer // self
	noSender *actor.PID
	timer    *time.Timer
	recall   *time.Timer
	bound    map[core.Peer]*carrier
	unbound  []*carrier // in this turn
	pulse    core.Pulse // after the last turn
}

// carrier brings messages to the controller of one binding.
type carrier struct {
	peer     core.Peer
	host     string              // empty when local
	local    *actor.PID          // of this system
	consumer *consumerController // the actor of local
	outbox   *outbox.Outbox      // on another node, once there is something to send
}

var _ actor.Actor = (*producerController)(nil)

func newProducerController(e *endpoint, self *actor.PID) (*producerController, error) {
	cfg := e.spec.producer
	cfg.Name, cfg.Actor = e.spec.name, core.Peer(self.ID())
	machine, err := core.NewProducer(cfg)
	if err != nil {
		return nil, err
	}
	c := &producerController{endpoint: e, node: e.node, mailbox: newMailbox(), actor: self, core: machine}
	c.mailbox.ours, c.mailbox.at, c.mailbox.handle = c.frequent, c.fromActor, c.here
	return c, nil
}

// frequent tells whether a message comes with each job.
func (c *producerController) frequent(ctx *actor.ReceiveContext) bool {
	switch ctx.Message().(type) {
	case *Produced, *StoredAck, *control, *wire.Control:
		return true
	}
	return false
}

// fromActor tells whether a message is the producer actor's, whose goroutine
// runs the turn where it can.
func (c *producerController) fromActor(ctx *actor.ReceiveContext) bool {
	if ctx.Sender() != c.actor {
		return false
	}
	switch ctx.Message().(type) {
	case *Produced, *StoredAck:
		return true
	}
	return false
}

func (c *producerController) here(ctx *actor.ReceiveContext) {
	here(ctx.Self(), func() bool { return c.turn(ctx) })
}

// PreStart implements actor.Actor.
func (c *producerController) PreStart(*actor.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = false
	c.mailbox.start()
	c.failed.Store(false)
	c.laneCtx, c.laneStop = context.WithCancel(context.Background())
	c.bound = map[core.Peer]*carrier{}
	return nil
}

// PostStop implements actor.Actor.
func (c *producerController) PostStop(*actor.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.laneStop != nil {
		c.laneStop()
	}
	for _, t := range []*time.Timer{c.timer, c.recall} {
		if t != nil {
			t.Stop() // rule 18
		}
	}
	for _, to := range c.bound {
		to.close()
	}
	if c.self != nil {
		c.node.leave(c.self)
	}
	return nil
}

// Receive implements actor.Actor.
func (c *producerController) Receive(ctx *actor.ReceiveContext) {
	if c.turn(ctx) {
		ctx.Shutdown()
	}
}

// turn handles one message and tells whether the controller has to stop.
func (c *producerController) turn(ctx *actor.ReceiveContext) (stop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	now := c.node.now()
	switch m := ctx.Message().(type) {
	case *begin:
		c.begun = true
		c.start(ctx, now)
	case *goaktpb.PostStart:
		if c.begun { // restarted in place: the core is reset, not the actor
			c.start(ctx, now)
		}
	case *tick:
		c.core.Tick(now, m.generation)
		if m.generation == c.core.Generation() {
			c.arm()
		}
	case *Produced:
		c.core.Produced(now, c.local(ctx), m.session, m.token, m.id, m.payload)
	case *StoredAck:
		c.core.StoredAck(now, c.local(ctx), m.session, m.token)
	case *registration:
		r := m.Registration
		r.Host = ""
		c.core.Register(now, c.local(ctx), r)
	case *control:
		c.core.Control(now, c.local(ctx), m.Control)
	case *wire.Register:
		if peer, r, ok := c.remoteRegistration(ctx, m); ok {
			c.core.Register(now, peer, r)
		}
	case *wire.Control:
		if decoded, ok := codec.DecodeControl(m); ok {
			c.core.Control(now, c.remote(ctx), decoded)
		}
	case *late:
		c.core.Late(now, c.local(ctx), m.session, m.HeldAttempt)
	case *wire.Late:
		c.core.Late(now, c.remote(ctx), m.GetSession(), codec.DecodeLate(m))
	case *recallDue:
		c.core.RecallDue(now)
	case *command:
		m.do(c.core, now)
		close(m.done)
	case *verified:
		c.core.Verified(now, m.from, m.reg, m.ok, randomID())
	case *probed:
		c.core.Probed(now, m.binding, m.result)
	case *sendFailed:
		c.core.SendFailed(now, m.binding)
	case *peerLost:
		c.lost(now, m)
	case *goaktpb.Terminated:
		c.core.Terminated(now, core.Peer(m.GetAddress()))
	case *loaded:
		c.core.Loaded(now, m.session, m.number, m.state, m.epoch, m.err)
	case *fetched:
		if m.err != nil {
			ctx.Logger().Errorf("%s: %v", c.endpoint.spec.name, m.err)
		}
		c.core.Fetched(now, m.session, m.number, m.payloads, m.err, randomID())
	case *committed:
		if m.err != nil {
			ctx.Logger().Errorf("%s: %v", c.endpoint.spec.name, m.err)
		}
		c.core.Committed(now, m.session, m.number, m.outcomes, m.err, randomID())
	case *halt:
	case *panicked:
		panic(m.String())
	case *inspect:
		m.reply <- c.snapshot(now)
	default:
		ctx.Unhandled()
	}
	c.carryOut(now)
	return c.core.Stopped()
}

// box implements controller.
func (c *producerController) box() *mailbox { return c.mailbox }

// hasFailed implements controller.
func (c *producerController) hasFailed() bool { return c.failed.Load() }

// start begins an incarnation under a new session (rule 2).
func (c *producerController) start(ctx *actor.ReceiveContext, now time.Duration) {
	c.self, c.noSender = ctx.Self(), ctx.ActorSystem().NoSender()
	c.peer = core.Peer(c.self.ID())
	c.node.enter(companion{pid: c.self, endpoint: c.endpoint})
	c.core.Start(now, randomID(), c.endpoint.takeQueue())
	c.arm()
}

// local is the sender within this system, or nobody.
func (c *producerController) local(ctx *actor.ReceiveContext) core.Peer {
	if sender := ctx.Sender(); sender != nil && sender != c.noSender {
		return core.Peer(sender.ID())
	}
	return ""
}

// remote is the sender on another node, as it says itself, or nobody.
func (c *producerController) remote(ctx *actor.ReceiveContext) core.Peer {
	if sender := ctx.RemoteSender(); sender != nil && ctx.Sender() == c.noSender {
		return core.Peer(sender.String())
	}
	return ""
}

// remoteRegistration drops what cannot be genuine before anything is looked up
// (rule 22). The host is the sender's, not what the message says.
func (c *producerController) remoteRegistration(ctx *actor.ReceiveContext, m *wire.Register) (core.Peer, core.Registration, bool) {
	peer := c.remote(ctx)
	a, err := c.node.remotePeer(peer)
	if err != nil {
		return "", core.Registration{}, false
	}
	r, ok := codec.DecodeRegister(m)
	r.Host = a.HostPort()
	return peer, r, ok
}

// arm sets the timer of the present generation.
func (c *producerController) arm() {
	if c.timer != nil {
		c.timer.Stop()
	}
	self, message := c.self, &tick{generation: c.core.Generation()}
	c.timer = time.AfterFunc(c.endpoint.spec.producer.RetryInterval, func() {
		_ = self.Tell(context.Background(), self, message)
	})
}

func (c *producerController) setRecall() {
	if c.recall != nil {
		c.recall.Reset(core.RecallDelay)
		return
	}
	self := c.self
	c.recall = time.AfterFunc(core.RecallDelay, func() { _ = self.Tell(context.Background(), self, &recallDue{}) })
}

// lost tells the core of every node at the host, or of one.
func (c *producerController) lost(now time.Duration, m *peerLost) {
	hosts := map[string]struct{}{}
	for _, to := range c.bound {
		if to.host != "" && m.matches(to.host) {
			hosts[to.host] = struct{}{}
		}
	}
	for host := range hosts {
		c.core.PeerLost(now, host)
	}
}

// carryOut does what the core asks for, in order, until it asks for nothing.
func (c *producerController) carryOut(now time.Duration) {
	for effects := c.core.Take(); len(effects) > 0; effects = c.core.Take() {
		for i := range effects {
			c.do(now, &effects[i])
		}
	}
	for i, from := range c.unbound {
		c.drop(from)
		c.unbound[i] = nil
	}
	c.unbound = c.unbound[:0]
	if pulse := c.core.Pulse(); pulse != c.pulse {
		c.pulse = pulse
		c.endpoint.pulses.beat()
	}
}

func (c *producerController) do(now time.Duration, e *core.Effect) {
	switch e.Kind {
	case core.Dispatch:
		c.dispatch(e)
	case core.RequestNext:
		c.tellActor(&RequestNext{parties: c.parties(), producer: c.endpoint.spec.name, session: e.Session, token: e.Token})
	case core.Stored:
		c.tellActor(&Stored{
			parties: c.parties(), producer: c.endpoint.spec.name, session: e.Session, token: e.Token,
			id: e.Job.ID, sequence: e.Job.StoreSequence,
		})
	case core.DeliveryConfirmed:
		c.tellActor(&DeliveryConfirmed{
			parties: c.parties(), producer: c.endpoint.spec.name, session: e.Session,
			id: e.Job.ID, sequence: e.Job.StoreSequence,
		})
	case core.Verify:
		c.verify(now, e.Peer, *e.Registration)
	case core.Probe:
		c.probe(now, e)
	case core.Bound:
		c.bind(now, e)
	case core.Unbound:
		c.unbind(e)
	case core.RegisterAck:
		if to := c.carrier(e); to.local != nil {
			c.tell(to.local, &registered{Effect: *e})
		} else {
			c.post(to, e.Binding, codec.EncodeRegisterAck(e))
		}
	case core.ControlAck:
		if to := c.carrier(e); to.local != nil {
			c.tell(to.local, &acknowledged{session: e.Session, binding: e.Binding, control: e.Control})
		} else {
			c.post(to, e.Binding, &wire.ControlAck{Session: e.Session, Binding: e.Binding, Control: e.Control})
		}
	case core.Recall:
		if to := c.carrier(e); to.local != nil {
			c.tell(to.local, &recall{session: e.Session, binding: e.Binding, sequence: e.Sequence})
		} else {
			c.post(to, e.Binding, &wire.Recall{Session: e.Session, Binding: e.Binding, Sequence: e.Sequence})
		}
	case core.SetRecall:
		c.setRecall()
	case core.Load:
		c.load(e)
	case core.Fetch:
		c.fetch(e)
	case core.Commit, core.Save:
		c.commit(e)
	case core.Restarted:
		c.arm()
	case core.DeadLettered:
		c.node.bury(c.endpoint, e.Job)
	case core.Failed:
		c.failed.Store(true)
		c.node.publish(c.endpoint, ReliableDeliveryStage(e.Stage), e.Err)
	}
}

func (c *producerController) parties() parties { return parties{endpoint: c.actor, controller: c.self} }

func (c *producerController) tellActor(m protoMessage) { c.tell(c.actor, m) }

// tell never blocks: every receiver has an unbounded mailbox. One that is gone
// is found out by its watch.
func (c *producerController) tell(to *actor.PID, m protoMessage) {
	_ = c.self.Tell(context.Background(), to, m)
}

// carrier of the binding that an effect is sent on.
func (c *producerController) carrier(e *core.Effect) *carrier { return e.Link.Carrier.(*carrier) }

func (c *producerController) dispatch(e *core.Effect) {
	to := c.carrier(e)
	if to.local != nil {
		c.hand(to, e)
		return
	}
	if o := c.outbox(to); o != nil {
		o.Job(e.Session, e.Binding, codec.EncodeJob(e.Delivery))
	}
}

// hand gives a job to a worker's controller of this system, which takes it on
// this goroutine if it has nothing else to do.
func (c *producerController) hand(to *carrier, e *core.Effect) {
	if box := to.consumer.mailbox; box.take() {
		here(to.local, func() bool { return to.consumer.accept(c.peer, e) })
		box.turn.Unlock()
		return
	}
	c.tell(to.local, &batch{session: e.Session, binding: e.Binding, jobs: [1]*core.Delivery{e.Delivery}})
}

func (c *producerController) post(to *carrier, binding uint64, m protoMessage) {
	if o := c.outbox(to); o != nil {
		o.Message(binding, m)
	}
}

// outbox returns the outbox of a carrier. After the binding's end it is a new
// one, for an acknowledgement that follows.
func (c *producerController) outbox(to *carrier) *outbox.Outbox {
	if to.outbox != nil {
		return to.outbox
	}
	address, err := c.node.remotePeer(to.peer)
	if err != nil {
		return nil
	}
	self := c.self
	to.outbox = c.node.outbox(self, address, func(bindings []uint64) {
		for _, b := range bindings {
			_ = self.Tell(context.Background(), self, &sendFailed{binding: b})
		}
	})
	return to.outbox
}

// verify answers at once for a sender of this system and beside the turn for
// others.
func (c *producerController) verify(now time.Duration, from core.Peer, r core.Registration) {
	way := c.node.verifier(r.Host == "")
	if r.Host == "" {
		c.core.Verified(now, from, r, way.Verify(context.Background(), from, r), randomID())
		return
	}
	self := c.self
	started := c.node.aside(func(ctx context.Context) {
		ok := way.Verify(ctx, from, r)
		_ = self.Tell(context.Background(), self, &verified{from: from, reg: r, ok: ok})
	})
	if !started {
		c.core.Verified(now, from, r, false, 0)
	}
}

func (c *producerController) probe(now time.Duration, e *core.Effect) {
	binding, peer, incarnation := e.Binding, e.Peer, e.Registration.Incarnation
	if e.Registration.Host == "" {
		result := core.Gone
		if _, ok := c.node.live(peer); ok {
			result = core.Alive
		}
		c.core.Probed(now, binding, result)
		return
	}
	self := c.self
	started := c.node.aside(func(ctx context.Context) {
		result := c.node.probe(ctx, peer, incarnation)
		_ = self.Tell(context.Background(), self, &probed{binding: binding, result: result})
	})
	if !started {
		c.core.Probed(now, binding, core.Unknown)
	}
}

// bind watches a worker of this system, and looks again after the watch: one
// that is gone already sends no Terminated (rule 32; part 5, trap 11).
func (c *producerController) bind(now time.Duration, e *core.Effect) {
	to := &carrier{peer: e.Peer, host: e.Registration.Host}
	e.Link.Carrier, c.bound[e.Peer] = to, to
	if to.host != "" {
		return
	}
	companion, ok := c.node.live(e.Peer)
	if ok {
		to.local = companion.pid
		to.consumer, ok = companion.pid.Actor().(*consumerController)
		c.self.Watch(companion.pid)
		ok = ok && companion.pid.IsRunning()
	}
	if !ok {
		c.core.Terminated(now, e.Peer)
	}
}

// unbind throws away what waits, so that nothing of an ended binding is sent
// any more. The rest goes after the turn: an acknowledgement may follow.
func (c *producerController) unbind(e *core.Effect) {
	to := c.carrier(e)
	to.close()
	if c.bound[to.peer] == to {
		delete(c.bound, to.peer)
	}
	c.unbound = append(c.unbound, to)
}

func (c *producerController) drop(from *carrier) {
	if from.outbox != nil {
		from.outbox.Finish()
	}
	if next := c.bound[from.peer]; from.local != nil && (next == nil || next.local != from.local) {
		c.self.UnWatch(from.local)
	}
}

func (t *carrier) close() {
	if t.outbox != nil {
		t.outbox.Close()
		t.outbox = nil
	}
}
