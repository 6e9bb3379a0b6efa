package sim

import (
	"strconv"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// process is one incarnation of a worker: its endpoint, its controller, and
// what the shell around the controller does.
type process struct {
	index    int32
	slot     int32
	identity int32
	address  int32
	local    bool
	consumer *core.Consumer
	reg      core.Registration

	alive       bool
	ghost       bool // its slot has another
	pausedUntil time.Duration
	cutUntil    time.Duration // nothing comes or goes
	lastIn      time.Duration // when what was sent last arrives, each way
	lastOut     time.Duration

	run     uint64 // number of the delivery in the handler, 0 when idle
	running core.Delivery
	session uint64
	binding uint64
	stuck   bool     // the handler never ends
	takenUp *binding // that under which it goes on (B15)

	epoch   uint64 // of the producer whose binding it took last, and when it did
	epochAt time.Duration

	spoken core.Control // what it said last
}

// start lets a worker begin in a slot.
func (w *World) start(slot, id, address int32) *process {
	v := &process{index: int32(len(w.processes)), slot: slot, identity: id, address: address, alive: true}
	v.local = int(slot) < w.opt.Local
	name := w.identities[id].name
	v.reg = core.Registration{Endpoint: name, Identity: name, Incarnation: strconv.Itoa(int(v.index)), Host: hostName(w.hosts[address])}
	if v.local {
		v.reg.Host = ""
	}
	c, err := core.NewConsumer(core.ConsumerConfig{
		Producer: "jobs", Endpoint: name, Identity: name, Incarnation: v.reg.Incarnation,
		Host: v.reg.Host, Actor: "worker", Window: w.opt.Window, ResendInterval: resendInterval,
		FirstNonce: uint64(v.index) << 32,
	})
	if err != nil {
		w.fail("a worker starts", "%s: %v", name, err)
		return v
	}
	v.consumer = c
	w.processes = append(w.processes, v)
	w.slots[slot], w.addresses[address] = v.index, v.index
	if w.tracing {
		w.say("%s starts at %s, process %d", name, peerOf(address), v.index)
	}
	c.Start(w.now)
	w.settleWorker(v)
	w.at(c.Interval(), tickWorker, v.index, 0, nil)
	return v
}

func (w *World) byIncarnation(incarnation string) *process {
	n, err := strconv.Atoi(incarnation)
	if err != nil {
		w.fail("a worker starts", "incarnation %q", incarnation)
		return w.processes[0]
	}
	return w.processes[n]
}

// kill ends a process at once. A local one's end is told.
func (w *World) kill(v *process) {
	if !v.alive {
		return
	}
	v.alive = false
	if v.local {
		w.at(0, terminated, producerParty, uint64(v.address), nil)
	}
}

// atWorker lets an event reach a worker.
func (w *World) atWorker(v *process, e *event) {
	m := e.message
	switch e.kind {
	case arriveAtWorker:
		w.take(v, m)
	case tickWorker:
		v.consumer.Tick(w.now)
		d, k := w.roll(placeOf(v.slot, atTick))
		after := v.consumer.Interval()
		if w.strikes(&d, k, LateTick) {
			after += d.upTo(5 * time.Second)
		}
		w.at(after, tickWorker, v.index, 0, nil)
	case resolved:
		v.consumer.Resolved(w.now, m.from)
	case producerStopped:
		v.consumer.ProducerStopped(w.now, m.from)
	case flush:
		v.consumer.Flush(w.now)
	case finish:
		w.finish(v, e.arg)
	}
	w.checkWorker(v)
}

// take hands a message to the worker's controller.
func (w *World) take(v *process, m *message) {
	if w.tracing {
		w.say("%s takes %s of binding %d", w.identities[v.identity].name, nameOf(m.kind), m.binding)
	}
	switch m.kind {
	case core.RegisterAck:
		before := v.consumer.Status()
		v.consumer.RegisterAck(w.now, m.from, m.session, m.binding, core.Grant{
			Confirmed: m.number, Nonce: m.nonce, Lease: lease, Retired: m.retired, Epoch: m.epoch, Adopted: m.adopted,
		})
		w.judgeTaken(v, before, m)
	case core.ControlAck:
		v.consumer.ControlAck(w.now, m.from, m.session, m.binding, m.number)
	case core.Recall:
		v.consumer.Recall(w.now, m.from, m.session, m.binding, m.number)
	case core.Dispatch:
		v.consumer.Batch(w.now, m.from, m.session, m.binding, m.jobs)
	}
}

// settleWorker carries out what a worker's controller asks for.
func (w *World) settleWorker(v *process) {
	for effects := v.consumer.Take(); len(effects) > 0; effects = v.consumer.Take() {
		for i := range effects {
			w.consume(v, &effects[i])
		}
	}
}

func (w *World) consume(v *process, e *core.Effect) {
	switch e.Kind {
	case core.Resolve:
		m := w.mail(e.Kind)
		m.from = w.address
		w.at(w.latency(), resolved, v.index, 0, m)
	case core.SendRegister:
		m := w.mail(e.Kind)
		m.reg, m.nonce = *e.Registration, e.Registration.Nonce
		w.transmitToProducer(v, e.Peer, m)
	case core.SendControl:
		v.spoken = *e.Message
		if e.Message.Announce {
			w.announced(v, e.Message)
		}
		m := w.mail(e.Kind)
		m.control = e.Message
		m.session, m.binding, m.number = e.Message.Session, e.Message.Binding, e.Message.Number
		w.transmitToProducer(v, e.Peer, m)
	case core.SendLate:
		m := w.mail(e.Kind)
		m.session, m.id, m.number, m.epoch = e.Session, e.Delivery.ID, e.Delivery.Token, e.Delivery.Epoch
		w.transmitToProducer(v, e.Peer, m)
	case core.SetFlush:
		w.at(core.FlushDelay, flush, v.index, 0, nil)
	case core.Drained:
		w.left(v)
	case core.Deliver:
		w.handle(v, e)
	}
}

// left: a worker that has left holds nothing, and the producer knows it (B13).
func (w *World) left(v *process) {
	name := w.identities[v.identity].name
	if w.tracing {
		w.say("%s is drained", name)
	}
	if v.run != 0 {
		w.fail("who leaves holds nothing", "%s says that it is drained and runs %s", name, v.running.ID)
	}
	if b := w.bindingOf(v.consumer.Status().Binding); b != nil && b.process == v {
		for _, s := range w.core.Snapshot(w.now).Workers {
			if s.Binding == b.id && s.InFlight > 0 {
				w.fail("who leaves holds nothing", "%s left and the producer counts %d jobs on it", name, s.InFlight)
			}
		}
	}
	w.kill(v)
}

// announced: from here on the producer cannot know whether the job ran, and
// takes it that it did (docs/decisions/003).
func (w *World) announced(v *process, m *core.Control) {
	j := &w.jobs[w.bindings[m.Binding-1].entry(m.Started).job]
	j.announced++
	j.runsAt(v.identity)
}

// handle is the worker actor: it runs one job at a time (rule 80) and confirms
// or rejects it.
func (w *World) handle(v *process, e *core.Effect) {
	name := w.identities[v.identity].name
	if w.tracing {
		w.say("%s runs %s, sequence %d of binding %d", name, e.Delivery.ID, e.Sequence, e.Binding)
	}
	if v.run != 0 {
		w.fail("one job at a time", "%s got %s while it runs %s", name, e.Delivery.ID, v.running.ID)
	}
	b := w.bindings[e.Binding-1]
	if r := &v.running; r.Epoch != e.Delivery.Epoch || r.Token != e.Delivery.Token {
		v.takenUp = nil
	}
	w.judgeRun(v, e.Delivery, b)
	w.noteGiven(v, e.Delivery)
	w.order++
	v.run, v.running, v.session, v.binding = w.order, *e.Delivery, e.Session, e.Binding
	d, k := w.roll(placeOf(v.slot, atHandler))
	length := d.upTo(w.opt.Work)
	fate, ok := w.fate(&d, k, Hang, Rejection)
	reject := uint64(0)
	if ok {
		w.struck(k, fate)
		if fate == Rejection {
			reject = 1
		} else if length = d.between(lease, 6*lease); d.below(4) == 0 {
			v.stuck = true
			return
		}
	}
	w.at(length, finish, v.index, v.run<<1|reject, nil)
}

func (w *World) finish(v *process, arg uint64) {
	if v.run != arg>>1 {
		return // the handler panicked meanwhile
	}
	v.run = 0
	d := &v.running
	if w.tracing {
		w.say("%s ends %s, rejected: %v", w.identities[v.identity].name, d.ID, arg&1 == 1)
	}
	if arg&1 == 1 {
		w.noteEnd(v, rejected)
		v.consumer.Rejected(w.now, "worker", v.session, v.binding, d.Sequence, d.ID, "bad")
		return
	}
	w.noteEnd(v, finished)
	v.consumer.Confirmed(w.now, "worker", v.session, v.binding, d.Sequence, d.ID)
}

// panics restarts the worker actor: the delivery it had is told again (B2).
func (w *World) panics(v *process) {
	w.noteEnd(v, panicked)
	v.run, v.stuck = 0, false
	v.consumer.HandlerRestarted(w.now)
	w.settleWorker(v)
}
