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
	actor    *actor.PID // the producer endpoint
	failed   atomic.Bool

	// mu guards the turns against PostStop, which GoAkt runs beside them.
	mu       sync.Mutex
	begun    bool
	stopped  bool
	core     *core.Producer
	self     *actor.PID
	noSender *actor.PID
	timer    *time.Timer
	recall   *time.Timer
	bound    map[core.Peer]sub
	locals   map[core.Peer]*actor.PID
	outboxes map[core.Peer]*outbox.Outbox
	unbound  []core.Peer // in this turn
}

// sub is what the shell keeps of a binding.
type sub struct {
	binding uint64
	host    string
}

var _ actor.Actor = (*producerController)(nil)

func newProducerController(e *endpoint, self *actor.PID) (*producerController, error) {
	cfg := e.spec.producer
	cfg.Name, cfg.Actor = e.spec.name, core.Peer(self.ID())
	machine, err := core.NewProducer(cfg)
	if err != nil {
		return nil, err
	}
	return &producerController{endpoint: e, node: e.node, actor: self, core: machine}, nil
}

// PreStart implements actor.Actor.
func (c *producerController) PreStart(*actor.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = false
	c.failed.Store(false)
	c.bound = map[core.Peer]sub{}
	c.locals = map[core.Peer]*actor.PID{}
	c.outboxes = map[core.Peer]*outbox.Outbox{}
	return nil
}

// PostStop implements actor.Actor.
func (c *producerController) PostStop(*actor.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, t := range []*time.Timer{c.timer, c.recall} {
		if t != nil {
			t.Stop() // rule 18
		}
	}
	for _, o := range c.outboxes {
		o.Close()
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
		c.core.Late(now, c.local(ctx), m.session, m.id, m.token)
	case *wire.Late:
		c.core.Late(now, c.remote(ctx), m.GetSession(), m.GetMessageId(), m.GetToken())
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
	case *inspect:
		m.reply <- c.snapshot(now)
	default:
		ctx.Unhandled()
	}
	c.carryOut(now)
	return c.core.Stopped()
}

// hasFailed implements controller.
func (c *producerController) hasFailed() bool { return c.failed.Load() }

// start begins an incarnation under a new session (rule 2).
func (c *producerController) start(ctx *actor.ReceiveContext, now time.Duration) {
	c.self, c.noSender = ctx.Self(), ctx.ActorSystem().NoSender()
	c.node.enter(companion{pid: c.self, endpoint: c.endpoint})
	c.core.Start(now, randomID())
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
	for _, s := range c.bound {
		if s.host != "" && m.matches(s.host) {
			hosts[s.host] = struct{}{}
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
	for _, peer := range c.unbound {
		if _, again := c.bound[peer]; !again {
			c.drop(peer)
		}
	}
	c.unbound = c.unbound[:0]
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
		if pid := c.locals[e.Peer]; pid != nil {
			c.tell(pid, &registered{Effect: *e})
		} else {
			c.post(e.Peer, e.Binding, codec.EncodeRegisterAck(e))
		}
	case core.ControlAck:
		if pid := c.locals[e.Peer]; pid != nil {
			c.tell(pid, &acknowledged{session: e.Session, binding: e.Binding, control: e.Control})
		} else {
			c.post(e.Peer, e.Binding, &wire.ControlAck{Session: e.Session, Binding: e.Binding, Control: e.Control})
		}
	case core.Recall:
		if pid := c.locals[e.Peer]; pid != nil {
			c.tell(pid, &recall{session: e.Session, binding: e.Binding, sequence: e.Sequence})
		} else {
			c.post(e.Peer, e.Binding, &wire.Recall{Session: e.Session, Binding: e.Binding, Sequence: e.Sequence})
		}
	case core.SetRecall:
		c.setRecall()
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

func (c *producerController) dispatch(e *core.Effect) {
	if pid := c.locals[e.Peer]; pid != nil {
		m := &batch{session: e.Session, binding: e.Binding}
		m.job[0] = e.Delivery
		c.tell(pid, m)
		return
	}
	if o := c.outbox(e.Peer); o != nil {
		o.Job(e.Session, e.Binding, codec.EncodeJob(&e.Delivery))
	}
}

func (c *producerController) post(peer core.Peer, binding uint64, m protoMessage) {
	if o := c.outbox(peer); o != nil {
		o.Message(binding, m)
	}
}

// outbox returns the outbox toward a bound controller on another node.
func (c *producerController) outbox(peer core.Peer) *outbox.Outbox {
	if o := c.outboxes[peer]; o != nil {
		return o
	}
	to, err := c.node.remotePeer(peer)
	if err != nil {
		return nil
	}
	self := c.self
	o := c.node.outbox(self, to, func(bindings []uint64) {
		for _, b := range bindings {
			_ = self.Tell(context.Background(), self, &sendFailed{binding: b})
		}
	})
	c.outboxes[peer] = o
	return o
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
	binding, peer, incarnation := e.Binding, e.Peer, e.Incarnation
	if e.Registration == nil || e.Registration.Host == "" {
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
	c.bound[e.Peer] = sub{binding: e.Binding, host: e.Registration.Host}
	if e.Registration.Host != "" {
		return
	}
	companion, ok := c.node.live(e.Peer)
	if ok {
		c.locals[e.Peer] = companion.pid
		c.self.Watch(companion.pid)
		ok = companion.pid.IsRunning()
	}
	if !ok {
		c.core.Terminated(now, e.Peer)
	}
}

// unbind ends the outbox at once, so that nothing of an ended binding is sent
// any more. What else belongs to the peer goes after the turn: an
// acknowledgement may follow.
func (c *producerController) unbind(e *core.Effect) {
	if c.bound[e.Peer].binding == e.Binding {
		delete(c.bound, e.Peer)
		c.unbound = append(c.unbound, e.Peer)
	}
	if o := c.outboxes[e.Peer]; o != nil {
		o.Close()
		delete(c.outboxes, e.Peer)
	}
}

func (c *producerController) drop(peer core.Peer) {
	if pid := c.locals[peer]; pid != nil {
		c.self.UnWatch(pid)
		delete(c.locals, peer)
	}
	if o := c.outboxes[peer]; o != nil {
		o.Close()
		delete(c.outboxes, peer)
	}
}
