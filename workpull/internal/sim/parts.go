package sim

import (
	"fmt"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// The producer's side: its actor, its controller, and what the shell around
// the controller does.

func (w *World) tickProducer() {
	w.producer.Tick(w.now, w.producer.Generation())
	w.settleProducer()
	w.at(retryInterval, nil, w.tickProducer)
}

// settleProducer carries out what the producer controller asks for.
func (w *World) settleProducer() {
	for _, e := range append([]core.Effect(nil), w.producer.Take()...) {
		w.produce(e)
	}
}

func (w *World) produce(e core.Effect) {
	switch e.Kind {
	case core.RequestNext:
		w.answer(e)
	case core.Stored:
		w.at(0, nil, func() {
			if !w.accepted[e.Job.ID] {
				w.accepted[e.Job.ID] = true
			}
			w.producer.StoredAck(w.now, "actor", e.Session, e.Token)
			w.settleProducer()
		})
	case core.DeliveryConfirmed:
		w.confirmed[e.Job.ID]++
		if !w.done[e.Job.ID] {
			w.fail("%s is confirmed and no handler finished it", e.Job.ID)
		}
	case core.Verify:
		from, reg := e.Peer, *e.Registration
		w.at(w.latency(), nil, func() {
			w.producer.Verified(w.now, from, reg, w.find(from) != nil, w.fresh())
			w.settleProducer()
		})
	case core.Probe:
		w.probe(e)
	case core.Bound:
		w.bindings[e.Binding] = &flow{worker: w.find(e.Peer)}
		w.say("bound %s as %d", e.Peer, e.Binding)
	case core.Unbound:
		w.bindings[e.Binding].ended = true
		w.say("unbound %s (%d): %s", e.Peer, e.Binding, e.Reason)
		if e.Reason == core.ReasonIllegal {
			w.fail("%s was taken for a violator", e.Peer)
		}
	case core.RegisterAck:
		w.toWorker(e.Peer, e.Binding, func(v *worker) {
			v.consumer.RegisterAck(w.now, "controller", e.Session, e.Binding, e.Confirmed, e.Nonce, e.Lease, e.Retired)
		})
	case core.ControlAck:
		w.toWorker(e.Peer, e.Binding, func(v *worker) {
			v.consumer.ControlAck(w.now, "controller", e.Session, e.Binding, e.Control)
		})
	case core.Dispatch:
		w.dispatch(e)
	case core.Recall:
		w.Recalls++
		w.toWorker(e.Peer, e.Binding, func(v *worker) {
			v.consumer.Recall(w.now, "controller", e.Session, e.Binding, e.Sequence)
		})
	case core.SetRecall:
		w.at(core.RecallDelay, nil, func() { w.producer.RecallDue(w.now); w.settleProducer() })
	case core.DeadLettered:
		w.buried(e.Job)
	case core.Failed:
		w.fail("the producer controller failed: %v", e.Err)
	}
}

// buried checks that only runs were charged (B3), and gives the dead letter
// another chance, so that every job can be done in the end.
func (w *World) buried(j *core.Job) {
	w.Dead++
	for _, f := range j.Failures {
		if !w.ran[j.ID+" at "+f.Worker] {
			w.fail("%s is charged for %q at %s, where it never ran", j.ID, f.Reason, f.Worker)
		}
	}
	id := j.ID
	w.at(time.Second, nil, func() { w.producer.Redrive(w.now, id); w.settleProducer() })
}

// answer is the producer actor: it has one MessageID for each token.
func (w *World) answer(e core.Effect) {
	id, known := w.answered[e.Token]
	if !known {
		if w.submitted == w.opt.Jobs {
			return
		}
		w.submitted++
		id = fmt.Sprintf("j%d", w.submitted)
		w.answered[e.Token] = id
	}
	w.at(0, nil, func() {
		w.producer.Produced(w.now, "actor", e.Session, e.Token, id, core.Payload{})
		w.settleProducer()
	})
}

func (w *World) probe(e core.Effect) {
	target := w.find(e.Peer)
	result := core.Gone
	if target != nil {
		result = core.Alive
		if w.now < target.cutUntil {
			result = core.Unknown
		}
	}
	w.at(w.latency(), nil, func() {
		w.producer.Probed(w.now, e.Binding, result)
		w.settleProducer()
	})
}

// dispatch checks what is sent before it sends it (rules 41, 44).
func (w *World) dispatch(e core.Effect) {
	f := w.bindings[e.Binding]
	switch {
	case f == nil || f.ended:
		w.fail("%s was dispatched on binding %d, which is over", e.Delivery.ID, e.Binding)
	case e.Sequence > f.granted:
		w.fail("%s is sequence %d of binding %d, beyond the demand of %d", e.Delivery.ID, e.Sequence, e.Binding, f.granted)
	case e.Sequence > f.last+1:
		w.fail("binding %d jumps from sequence %d to %d", e.Binding, f.last, e.Sequence)
	}
	if f != nil {
		f.last = max(f.last, e.Sequence)
	}
	d := *e.Delivery
	w.toWorker(e.Peer, e.Binding, func(v *worker) {
		v.consumer.Batch(w.now, "controller", e.Session, e.Binding, []*core.Delivery{&d})
	})
}

// The workers' side.

func (w *World) spawn(name string) *worker {
	n := w.fresh()
	v := &worker{name: name, alive: true, peer: core.Peer(fmt.Sprintf("%s/%d", name, n))}
	v.reg = core.Registration{
		Producer: "jobs", Endpoint: name, Incarnation: fmt.Sprint(n),
		Identity: fmt.Sprintf("%s/%d", name, n), Host: fmt.Sprintf("%s:%d", name, n),
	}
	if w.rng.IntN(2) == 0 { // an identity that outlives its process, at the same address or another
		v.reg.Identity = name
		if w.rng.IntN(2) == 0 {
			v.reg.Host = name
		}
	}
	c, err := core.NewConsumer(core.ConsumerConfig{
		Producer: "jobs", Endpoint: name, Identity: v.reg.Identity, Incarnation: v.reg.Incarnation,
		Host: v.reg.Host, Actor: "worker", Window: w.opt.Window, ResendInterval: resendInterval,
	})
	if err != nil {
		w.fail("spawn %s: %v", name, err)
		return v
	}
	v.consumer = c
	w.say("%s: starts as %s, identity %s", name, v.peer, v.reg.Identity)
	c.Start(w.now)
	w.settleWorker(v)
	w.at(c.Interval(), v, func() { w.tickWorker(v) })
	return v
}

func (w *World) tickWorker(v *worker) {
	v.consumer.Tick(w.now)
	w.settleWorker(v)
	w.at(v.consumer.Interval(), v, func() { w.tickWorker(v) })
}

// settleWorker carries out what the consumer controller asks for.
func (w *World) settleWorker(v *worker) {
	for _, e := range append([]core.Effect(nil), v.consumer.Take()...) {
		w.consume(v, e)
	}
}

func (w *World) consume(v *worker, e core.Effect) {
	switch e.Kind {
	case core.Resolve:
		w.at(w.latency(), v, func() { v.consumer.Resolved(w.now, "controller"); w.settleWorker(v) })
	case core.SendRegister:
		reg := *e.Registration
		w.toProducer(v, func() { w.producer.Register(w.now, v.peer, reg) })
	case core.SendControl:
		m := *e.Message
		if f := w.bindings[m.Binding]; f != nil && m.Kind == core.Request {
			f.granted = max(f.granted, m.RequestedUpTo)
		}
		w.toProducer(v, func() { w.producer.Control(w.now, v.peer, &m) })
	case core.SetFlush:
		w.at(core.FlushDelay, v, func() { v.consumer.Flush(w.now); w.settleWorker(v) })
	case core.SendLate:
		w.Late++
		d := *e.Delivery
		w.toProducer(v, func() { w.producer.Late(w.now, v.peer, e.Session, d.ID, d.Token) })
	case core.Drained:
		w.say("%s: drained", v.name)
		if v.run != 0 {
			w.fail("%s says drained while it runs %s", v.name, v.running.ID)
		}
		v.alive = false
	case core.Deliver:
		w.handle(v, e)
	}
}

// handle is the worker actor: it runs one job at a time and confirms or
// rejects it.
func (w *World) handle(v *worker, e core.Effect) {
	if v.run != 0 {
		w.fail("%s got %s while it runs %s (rule 80)", v.name, e.Delivery.ID, v.running.ID)
	}
	over := w.bindings[e.Binding].ended // and v has not heard of it yet
	for _, other := range w.workers {
		if other != v && other.alive && other.run != 0 && other.running.ID == e.Delivery.ID && !over && !w.bindings[other.binding].ended {
			w.fail("%s runs at %s and %s at once, and neither binding is over", e.Delivery.ID, other.name, v.name)
		}
	}
	w.ran[e.Delivery.ID+" at "+v.reg.Identity] = true
	run := w.fresh()
	v.run, v.running, v.session, v.binding = run, *e.Delivery, e.Session, e.Binding
	length := time.Duration(w.rng.IntN(200)) * time.Millisecond
	if w.chance(20) {
		length = 30 * time.Second // longer than the lease
	}
	w.at(length, v, func() {
		if v.run != run {
			return // the handler panicked meanwhile
		}
		v.run = 0
		d := v.running
		if w.faults && w.chance(20) {
			w.Strikes.Rejection++
			v.consumer.Rejected(w.now, "worker", v.session, v.binding, d.Sequence, d.ID, "bad")
		} else {
			w.done[d.ID] = true
			v.consumer.Confirmed(w.now, "worker", v.session, v.binding, d.Sequence, d.ID)
		}
		w.settleWorker(v)
	})
}

// The network.

func (w *World) latency() time.Duration {
	return time.Duration(w.rng.IntN(2000)) * time.Microsecond
}

func (w *World) find(peer core.Peer) *worker {
	for _, v := range w.workers {
		if v.peer == peer && v.alive {
			return v
		}
	}
	return nil
}

func (w *World) toProducer(v *worker, do func()) {
	w.transmit(v, nil, func() { do(); w.settleProducer() }, func() {})
}

func (w *World) toWorker(peer core.Peer, binding uint64, do func(*worker)) {
	v := w.find(peer)
	failed := func() {
		w.Strikes.SendFailure++
		w.at(w.latency(), nil, func() { w.producer.SendFailed(w.now, binding); w.settleProducer() })
	}
	if v == nil {
		failed()
		return
	}
	w.transmit(v, v, func() { do(v); w.settleWorker(v) }, failed)
}

// transmit carries a message between the producer and a worker, unless
// something befalls it.
func (w *World) transmit(v, to *worker, arrive, failed func()) {
	if w.now < v.cutUntil || w.faults && w.chance(30) {
		w.Strikes.Drop++
		if w.chance(500) { // else nobody notices
			failed()
		}
		return
	}
	delay := time.Millisecond
	if w.faults && w.chance(50) {
		w.Strikes.Reorder++
		delay = w.latency() * 50
	}
	w.at(delay, to, arrive)
	if w.faults && w.chance(30) {
		w.Strikes.Duplicate++
		w.at(delay+w.latency(), to, arrive)
	}
}

// check holds the invariants against the state.
func (w *World) check() {
	s := w.producer.Snapshot(w.now)
	if held := s.Waiting + s.InFlight + s.Delayed + s.Dead; int(s.Accepted-s.Confirmed) != held {
		w.fail("%d jobs are accepted and not confirmed, %d are held", s.Accepted-s.Confirmed, held)
	}
	seen := map[string]bool{}
	for _, b := range s.Workers {
		if seen[b.Identity] {
			w.fail("identity %s has two bindings", b.Identity)
		}
		seen[b.Identity] = true
	}
	for id, n := range w.confirmed {
		if n > 1 {
			w.fail("%s was confirmed %d times", id, n)
		}
	}
}
