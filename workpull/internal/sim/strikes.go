package sim

import (
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// meanStrike is the time between two strikes of the timeline.
const meanStrike = 100 * time.Millisecond

// nextStrike puts the next strike on the agenda.
func (w *World) nextStrike() {
	d := draw(w.opt.Seed, Key{placeSwarm, 1000 + w.counters[placeTimeline]})
	w.at(d.upTo(2*meanStrike), strike, nobody, 0, nil)
}

// strike lets something befall a worker or the producer, as the timeline has
// it.
func (w *World) strike() {
	if !w.faults {
		return
	}
	d, k := w.roll(placeTimeline)
	w.nextStrike()
	total := uint64(0)
	for kind := Crash; kind < faultKinds; kind++ {
		total += faultTable[kind].rate * 4
	}
	x := d.below(total)
	for kind := Crash; kind < faultKinds; kind++ {
		if rate := w.rate[kind]; x >= rate {
			x -= rate
			continue
		}
		if slot := d.below(uint64(len(w.slots))); w.allowed(k) {
			w.befall(kind, k, &d, w.processes[w.slots[slot]])
		}
		return
	}
}

// befall lets one kind of fault strike a worker, if it is in a state for it.
func (w *World) befall(kind FaultKind, k Key, d *dice, v *process) {
	note := func() { w.struck(k, kind) }
	switch kind {
	case ProducerPause:
		note()
		w.pausedUntil = max(w.pausedUntil, w.now+d.upTo(15*time.Second))
		return
	case ProducerRestart:
		note()
		w.restartProducer(d.below(2) == 0)
		return
	case Restart:
		if !v.alive {
			note()
			w.restartAs(v.index<<2 | int32(d.below(4)))
		}
		return
	case RetireWorker:
		if !w.identities[v.identity].retired && !w.failed {
			note()
			w.retire(v)
			w.at(d.between(500*time.Millisecond, 10*time.Second), release, nobody, uint64(v.identity), nil)
		}
		return
	}
	if !v.alive {
		return
	}
	switch kind {
	case Crash:
		note()
		w.kill(v)
		if !v.local && d.below(2) == 0 { // the held connection closes; else only a failed send or the lease tells
			w.at(time.Millisecond, peerLost, producerParty, uint64(w.hosts[v.address]), nil)
		}
	case LostConnection:
		if !v.local {
			note()
			w.at(0, peerLost, producerParty, uint64(w.hosts[v.address]), nil)
		}
	case Takeover:
		if !v.local {
			note()
			w.takeOver(v)
			w.at(d.between(time.Second, 20*time.Second), endGhost, nobody, uint64(v.index), nil)
		}
	case Suspension:
		if !v.consumer.Status().Draining {
			note()
			w.suspend(v)
			w.at(d.upTo(3*time.Second), restart, nobody, uint64(v.index)<<2|1, nil)
		}
	case Panic:
		if v.run != 0 {
			note()
			w.panics(v)
		}
	case WorkerPause:
		note()
		v.pausedUntil = max(v.pausedUntil, w.now+d.upTo(16*time.Second))
	case Partition:
		if !v.local {
			note()
			v.cutUntil = max(v.cutUntil, w.now+d.upTo(16*time.Second))
		}
	case DrainWorker:
		note()
		v.consumer.Drain(w.now)
		w.settleWorker(v)
	case Violation:
		w.violate(k, d, v)
	}
}

// Ways in which a worker comes back.
const (
	asAnother = iota
	atItsAddress
	elsewhere // under its identity
	atItsHost // under its identity, as another controller
)

// restartAs starts a worker in a dead one's place: arg is the process and the
// way.
func (w *World) restartAs(arg int32) {
	v := w.processes[arg>>2]
	if w.slots[v.slot] != v.index || v.alive && !v.consumer.Status().Draining {
		return
	}
	if v.alive {
		w.kill(v)
	}
	switch arg & 3 {
	case atItsAddress:
		w.start(v.slot, v.identity, v.address)
	case elsewhere:
		w.start(v.slot, v.identity, w.newAddress())
	case atItsHost:
		w.start(v.slot, v.identity, w.newAddressAt(w.hosts[v.address]))
	default:
		w.start(v.slot, w.newIdentity(v.slot), w.newAddress())
	}
}

// takeOver starts a second worker under the identity of one that lives (B14).
func (w *World) takeOver(v *process) {
	v.ghost = true
	w.ghosts = append(w.ghosts, v.index)
	w.start(v.slot, v.identity, w.newAddress())
}

func (w *World) endGhost(index int32) { w.kill(w.processes[index]) }

// suspend is what the shell does when the worker actor is suspended: what is
// buffered goes back, what runs is rejected (rule 88).
func (w *World) suspend(v *process) {
	v.consumer.Drain(w.now)
	if v.run != 0 {
		w.noteEnd(v, rejected)
		d := &v.running
		v.run, v.stuck = 0, false
		v.consumer.Rejected(w.now, "worker", v.session, v.binding, d.Sequence, d.ID, "suspended")
	}
	w.settleWorker(v)
}

// retire tells the controller that a worker is to be given nothing, and holds
// the answer to what runs there: unknown is never empty (B13).
func (w *World) retire(v *process) {
	id := &w.identities[v.identity]
	r := w.core.Retire(id.name)
	id.retired = true
	b := id.binding
	switch {
	case r.Session != w.session || r.Known != (b != nil):
		w.fail("retirement tells the truth", "%s: %+v, it is bound: %v", id.name, r, b != nil)
	case b != nil && r.Held == 0 && v.run != 0 && v.binding == b.id && v.alive && w.jobHeldBy(v, b):
		w.fail("retirement tells the truth", "%s holds nothing, they say, and runs %s", id.name, v.running.ID)
	}
	w.settleProducer()
}

// jobHeldBy tells whether what a worker runs is not confirmed by others.
func (w *World) jobHeldBy(v *process, b *binding) bool {
	en := b.entry(v.running.Sequence)
	j := &w.jobs[en.job]
	return j.state == jobHeld && j.life == en.life && j.binding == b
}

func (w *World) release(id int32) {
	if !w.identities[id].retired {
		return
	}
	w.identities[id].retired = false
	if w.tracing {
		w.say("%s is released", w.identities[id].name)
	}
	if w.gone {
		return
	}
	w.core.Release(w.now, w.identities[id].name)
	w.settleProducer()
}

// violate sends an illegal control message in a worker's name: its binding
// ends, and nothing else (rules 34-36).
func (w *World) violate(k Key, d *dice, v *process) {
	c := v.spoken
	b := w.bindingOf(c.Binding)
	if b == nil || c.Session != w.session || b.process != v || w.now < w.pausedUntil {
		return
	}
	w.struck(k, Violation)
	c.Nonce, c.Number, c.Exceptions = max(c.Nonce, b.nonce), b.number+1, nil
	if d.below(2) == 0 {
		c.Confirmed = b.last + 1 + d.below(3)
	} else {
		c.Kind, c.RequestedUpTo = core.Request, c.Confirmed+core.MaxWindow+1
	}
	b.violated = true
	w.handling = event{kind: strike}
	w.core.Control(w.now, peerOf(v.address), &c)
	w.settleProducer()
	if !b.ended {
		w.fail("a violation ends its binding", "%s violated the protocol and is bound", w.identities[v.identity].name)
	}
}
