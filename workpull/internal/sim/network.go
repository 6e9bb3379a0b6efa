package sim

import (
	"fmt"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// sendDeadline is when a sender gives up on a connection that hangs.
const sendDeadline = time.Second

var (
	fatesToWorker   = []FaultKind{Drop, SendFailure, UncertainSend, Duplicate, Reorder, Delay}
	fatesToProducer = []FaultKind{Drop, Duplicate, Reorder, Delay}
)

// latency of a look-up.
func (w *World) latency() time.Duration {
	w.order++
	d := draw(w.opt.Seed, Key{placeVerify, uint32(w.order)})
	return d.upTo(2 * time.Millisecond)
}

// transmitToWorker carries a message to where its binding's worker lives,
// unless something befalls it.
func (w *World) transmitToWorker(m *message) {
	b := w.bindings[m.binding-1]
	m.from, m.to = w.address, b.address
	v := w.living(b.address)
	if b.process.local {
		if v != nil {
			w.at(0, arriveAtWorker, v.index, 0, m)
			return
		}
		w.over(m)
		return
	}
	if v == nil { // refused at once
		w.at(w.latency(), sendFailed, producerParty, m.binding, nil)
		w.over(m)
		return
	}
	d, k := w.roll(placeOf(v.slot, toWorker))
	fate, ok := w.fate(&d, k, fatesToWorker...)
	switch {
	case w.now < v.cutUntil:
		w.at(sendDeadline, sendFailed, producerParty, m.binding, nil)
		w.over(m)
		return
	case ok && fate == Drop:
		w.struck(k, fate)
		w.over(m)
		return
	case ok && fate == SendFailure:
		w.struck(k, fate)
		w.at(d.upTo(sendDeadline), sendFailed, producerParty, m.binding, nil)
		w.over(m)
		return
	case ok && fate == UncertainSend:
		w.struck(k, fate)
		w.at(d.upTo(sendDeadline), sendFailed, producerParty, m.binding, nil)
		ok = false
	case v.pausedUntil > w.now+sendDeadline: // it arrives once the process goes on
		w.at(sendDeadline, sendFailed, producerParty, m.binding, nil)
	}
	arrival := max(w.now+d.between(200*time.Microsecond, 2*time.Millisecond), v.lastIn)
	v.lastIn = w.arrive(&d, k, fate, ok, arrival, v.lastIn, arriveAtWorker, v.index, m)
}

// arrive puts a message and its duplicate on the agenda, and returns when what
// is sent next may arrive at the earliest.
func (w *World) arrive(d *dice, k Key, fate FaultKind, ok bool, arrival, last time.Duration, kind eventKind, party int32, m *message) time.Duration {
	if ok {
		w.struck(k, fate)
		switch fate {
		case Reorder:
			w.at(d.between(2*time.Millisecond, 100*time.Millisecond), kind, party, 0, m)
			return last
		case Delay:
			w.at(d.between(time.Second, 10*time.Second), kind, party, 0, m)
			return last
		case Duplicate:
			after := d.upTo(20 * time.Millisecond)
			if d.below(8) == 0 {
				after = d.upTo(9 * time.Second)
			}
			w.at(arrival-w.now+after, kind, party, 0, m)
		}
	}
	w.at(arrival-w.now, kind, party, 0, m)
	return arrival
}

// transmitToProducer carries a message to the address where the worker last
// found the producer's controller.
func (w *World) transmitToProducer(v *process, to core.Peer, m *message) {
	m.from, m.to = peerOf(v.address), v.address
	m.place = w.place
	if to != w.address {
		w.over(m)
		return
	}
	if v.local {
		w.at(0, arriveAtProducer, producerParty, 0, m)
		return
	}
	d, k := w.roll(placeOf(v.slot, toProducer))
	fate, ok := w.fate(&d, k, fatesToProducer...)
	if w.now < v.cutUntil || ok && fate == Drop {
		if w.now >= v.cutUntil {
			w.struck(k, fate)
		}
		w.over(m)
		return
	}
	arrival := max(w.now+d.between(200*time.Microsecond, 2*time.Millisecond), v.lastOut)
	v.lastOut = w.arrive(&d, k, fate, ok, arrival, v.lastOut, arriveAtProducer, producerParty, m)
}

// receive hands a worker's message to the producer's controller, after noting
// what it has to make of it.
func (w *World) receive(m *message) {
	if m.place != w.place {
		return
	}
	if w.tracing {
		w.say("producer takes %s from %s%s", nameOf(m.kind), m.from, describe(m))
	}
	switch m.kind {
	case core.SendRegister:
		d, k := w.roll(placeOlder)
		if w.epoch > 1 && w.strikes(&d, k, OlderController) {
			w.older(m)
		}
		w.noteRegistration(m.to, &m.reg)
		w.core.Register(w.now, m.from, m.reg)
	case core.SendControl:
		over := w.noteControl(m)
		w.core.Control(w.now, m.from, m.control)
		w.noteConfirmed(m, over)
	case core.SendLate:
		w.core.Late(w.now, m.from, m.session, core.HeldAttempt{ID: m.id, Epoch: m.epoch, Token: m.number})
		w.noteLate(m)
	}
}

func describe(m *message) string {
	if c := m.control; c != nil {
		return fmt.Sprintf(": %+v", *c)
	}
	return ""
}

// noteRegistration: of a worker that is bound it is a sign of life (rule 29).
func (w *World) noteRegistration(address int32, r *core.Registration) {
	b := w.bindingAt(address)
	if b == nil || b.process.reg.Incarnation != r.Incarnation || r.Nonce < b.nonce {
		return
	}
	b.nonce, b.heard, b.late, b.suspended = r.Nonce, w.now, w.late, false
	b.drained = b.drained || r.Draining
}

// noteControl notes a control message that counts (rule 33).
// over tells that its binding had ended by then.
func (w *World) noteControl(m *message) (over bool) {
	c := m.control
	b := w.bindingOf(c.Binding)
	over = b == nil
	if b == nil || c.Session != w.session || m.to != b.address || c.Nonce < b.nonce || c.Number <= b.number {
		return over
	}
	b.number, b.heard, b.late, b.suspended = c.Number, w.now, w.late, false
	for _, x := range c.Exceptions {
		if x.Sequence > b.last {
			continue
		}
		if j := &w.jobs[b.entry(x.Sequence).job]; j.binding == b && j.seq == x.Sequence {
			j.binding = nil
			if x.Kind == core.Recalled {
				w.Seen[GivenBack]++
			}
			if x.Kind == core.Recalled && x.Sequence == 1 && b.adopted != nil { // its handler was restarted before it knew
				w.Seen[AdoptedAndBack]++
				j.last = lastRun{}
			}
		}
	}
	switch c.Kind {
	case core.Request:
		b.granted = c.RequestedUpTo // rule 39
	case core.Drain:
		b.drained = true
	}
	return over
}

func (w *World) noteSuspension(id uint64) {
	if b := w.bindingOf(id); b != nil {
		w.Seen[Suspended]++
		b.suspended = true
	}
}

// verify is the look-up in the directory of the node that a registration comes
// from.
func (w *World) verify(e *core.Effect) {
	m := w.mail(e.Kind)
	m.from, m.to, m.reg = e.Peer, addressOf(e.Peer), *e.Registration
	v := w.living(m.to)
	m.ok = v != nil && v.reg.Incarnation == m.reg.Incarnation && v.reg.Identity == m.reg.Identity
	if m.reg.Host == "" {
		m.copies++
		w.verified(m)
		w.over(m)
		return
	}
	d, k := w.roll(placeVerify)
	fate, ok := w.fate(&d, k, LateVerification, FailedVerification)
	after := d.upTo(2 * time.Millisecond)
	if ok {
		w.struck(k, fate)
		if after = d.upTo(500 * time.Millisecond); fate == FailedVerification {
			m.ok = false
		}
	}
	m.session = w.session
	w.at(after, verified, producerParty, 0, m)
}

func (w *World) verified(m *message) {
	if m.reg.Host != "" && m.session != w.session {
		return // the shell asked for an incarnation that is over
	}
	w.bindings = append(w.bindings, nil)
	if !m.ok {
		w.bindings[len(w.bindings)-1] = refused
	} else {
		w.noteRegistration(m.to, &m.reg)
		if i := w.byIncarnation(m.reg.Incarnation).identity; w.identities[i].binding != nil && w.identities[i].binding.address != m.to {
			w.Seen[Refused]++
		}
	}
	w.noteClaim(&m.reg, uint64(len(w.bindings)))
	w.core.Verified(w.now, m.from, m.reg, m.ok, uint64(len(w.bindings)))
}

// probe asks whether a worker's controller lives.
func (w *World) probe(e *core.Effect) {
	m := w.mail(e.Kind)
	m.binding, m.session, m.result = e.Binding, w.session, core.Gone
	v := w.living(addressOf(e.Peer))
	if v != nil && v.reg.Incarnation == e.Registration.Incarnation {
		m.result = core.Alive
	}
	if e.Registration.Host == "" {
		m.copies++
		w.probed(m)
		w.over(m)
		return
	}
	d, k := w.roll(placeProbe)
	fate, ok := w.fate(&d, k, LateProbe, UnansweredProbe)
	after := d.upTo(2 * time.Millisecond)
	if ok {
		w.struck(k, fate)
		if after = d.upTo(5 * time.Second); fate == UnansweredProbe {
			m.result = core.Unknown
		}
	}
	if b := w.bindings[e.Binding-1]; w.now < b.process.cutUntil || w.now < b.process.pausedUntil {
		m.result, after = core.Unknown, sendDeadline
	}
	w.at(after, probed, producerParty, 0, m)
}

func (w *World) probed(m *message) {
	if b := w.bindingOf(m.binding); b != nil && m.result == core.Gone {
		b.gone = true
	}
	w.core.Probed(w.now, m.binding, m.result)
}

func (w *World) terminated(address int32) {
	if b := w.bindingAt(address); b != nil {
		b.stopped = true
	}
	w.core.Terminated(w.now, peerOf(address))
}

func nameOf(k core.Kind) string {
	names := map[core.Kind]string{
		core.RegisterAck: "RegisterAck", core.ControlAck: "ControlAck", core.Recall: "Recall", core.Dispatch: "Batch",
		core.SendRegister: "Register", core.SendControl: "Control", core.SendLate: "Late",
	}
	return names[k]
}
