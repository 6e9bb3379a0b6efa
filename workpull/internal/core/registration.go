package core

import "time"

// Register is a worker's request for a binding and its heartbeat. A binding
// that was verified is not looked up again (rule 26).
func (p *Producer) Register(now time.Duration, from Peer, r Registration) {
	if p.stopped || from == "" || r.Identity == "" || r.Incarnation == "" || r.Producer != p.cfg.Name { // rules 22, 23
		return
	}
	if b := p.byPeer[from]; b != nil && b.reg.Incarnation == r.Incarnation && b.reg.Identity == r.Identity {
		p.renew(now, b, r)
		return
	}
	if _, underWay := p.verifying[from]; underWay {
		return
	}
	p.verifying[from] = struct{}{}
	p.emit(Effect{Kind: Verify, Peer: from, Registration: &r})
}

// renew refreshes the nonce of a known incarnation and acknowledges again; the
// sequence space and unconfirmed jobs stay (rules 28, 29).
func (p *Producer) renew(now time.Duration, b *binding, r Registration) {
	if r.Nonce < b.reg.Nonce { // overtaken by a later one
		return
	}
	b.reg.Nonce = r.Nonce
	b.hear(p.leaseClock(now))
	b.draining = b.draining || r.Draining
	p.index(b)
	p.acknowledge(b)
	p.pump(now)
}

func (p *Producer) acknowledge(b *binding) {
	adopted := b.adopted
	if b.confirmed > 0 { // it has heard of it
		adopted = nil
	}
	p.emit(Effect{
		Kind: RegisterAck, Peer: b.peer, Link: &b.link, Session: p.session, Binding: b.id,
		Grant: &Grant{Confirmed: b.confirmed, Nonce: b.reg.Nonce, Lease: p.cfg.Lease, Retired: b.retired, Epoch: p.lane.epoch, Adopted: adopted},
	})
}

// Verified answers a Verify. binding is a fresh random id, not zero.
//
// An identity has one binding (rule 27). Another incarnation at the same
// address replaces it (rule 30). One at another address is refused while the
// first lives, which a probe finds out, so that two that claim one identity
// cannot replace each other forever (B14).
func (p *Producer) Verified(now time.Duration, from Peer, r Registration, ok bool, id uint64) {
	if p.stopped {
		return
	}
	delete(p.verifying, from)
	if ok && p.lane.loading && p.cfg.Settle > 0 { // what it runs may be in the queue (B15)
		p.early = append(p.early, successor{peer: from, reg: r, binding: id})
		return
	}
	if !ok || id == 0 || p.bindings[id] != nil { // rule 22
		return
	}
	if b := p.byPeer[from]; b != nil && b.reg.Incarnation == r.Incarnation && b.reg.Identity == r.Identity {
		p.renew(now, b, r)
		return
	}
	if b := p.byIdentity[r.Identity]; b != nil {
		if b.reg.Host != r.Host {
			p.successors[b.id] = successor{peer: from, reg: r, binding: id}
			p.probe(b)
			return
		}
		p.end(now, b, ReasonReplaced)
	}
	p.bind(now, from, r, id)
	p.pump(now)
}

func (p *Producer) bind(now time.Duration, from Peer, r Registration, id uint64) {
	if old := p.byPeer[from]; old != nil { // the same address under another identity or incarnation
		p.end(now, old, ReasonReplaced)
	}
	b := &binding{id: id, peer: from, reg: r, since: now, emptied: now, heard: p.leaseClock(now), draining: r.Draining}
	if r.RetiredBy != 0 && r.RetiredBy != p.session {
		p.retired[r.Identity] = true
	}
	b.retired = p.retired[r.Identity]
	p.compactSlots()
	b.slot = len(p.slots)
	p.slots = append(p.slots, b)
	p.bindings[id], p.byPeer[from], p.byIdentity[r.Identity] = b, b, b
	p.emit(Effect{Kind: Bound, Peer: from, Link: &b.link, Binding: id, Registration: &b.reg})
	p.takeUp(now, b)
	p.acknowledge(b)
}

// compactSlots closes the holes once most slots are holes: a cost that the
// endings which made them have paid for.
func (p *Producer) compactSlots() {
	if len(p.slots) < 64 || len(p.slots) < 2*len(p.bindings) {
		return
	}
	turn := 0
	p.sets = sets{}
	kept := p.slots[:0]
	for slot, b := range p.slots {
		if b == nil {
			continue
		}
		if slot < p.turn {
			turn = len(kept) + 1
		}
		b.slot = len(kept)
		kept = append(kept, b)
		p.index(b)
	}
	clear(p.slots[len(kept):])
	p.slots, p.turn, p.recallTurn = kept, turn, 0
}

// end removes a binding; its unconfirmed jobs return to the pool's head in
// order (rules 46, 47). The next worker gets them under sequences of its own
// (rule 48).
func (p *Producer) end(now time.Duration, b *binding, why Reason) {
	p.judge(now, b, why)
	p.dropRecalls(b)
	b.ended = true
	p.index(b)
	delete(p.bindings, b.id)
	delete(p.byPeer, b.peer)
	delete(p.successors, b.id)
	if p.byIdentity[b.reg.Identity] == b {
		delete(p.byIdentity, b.reg.Identity)
	}
	p.slots[b.slot] = nil
	p.emit(Effect{Kind: Unbound, Peer: b.peer, Link: &b.link, Binding: b.id, Registration: &b.reg, Reason: why})
}

// SendFailed tells that something sent to a binding may not have arrived:
// nothing more goes there until the worker answers (rule 45, S39). A probe
// finds out whether it is gone.
func (p *Producer) SendFailed(now time.Duration, id uint64) {
	b := p.bindings[id]
	if p.stopped || b == nil {
		return
	}
	b.suspended = true
	p.index(b)
	p.doubt(b)
}

// PeerLost tells that the connection of the node at host closed; its workers
// are probed.
func (p *Producer) PeerLost(_ time.Duration, host string) {
	if p.stopped {
		return
	}
	for _, b := range p.slots { // registration order, not the map's
		if b != nil && b.reg.Host == host {
			p.doubt(b)
		}
	}
}

// doubt probes a binding of whose end there is news, and again with each tick
// until the worker speaks: a node that is about to end may still answer that
// it lives, or not at all.
func (p *Producer) doubt(b *binding) {
	b.doubted, b.news = true, b.probing
	p.probe(b)
}

func (p *Producer) probe(b *binding) {
	if b.probing {
		return
	}
	b.probing = true
	p.emit(Effect{Kind: Probe, Peer: b.peer, Binding: b.id, Registration: &b.reg})
}

// Probed answers a Probe. A worker that is gone loses its binding at once, and
// the others at its node are probed; one that did not answer is left to the
// next probe and the lease.
func (p *Producer) Probed(now time.Duration, id uint64, result ProbeResult) {
	b := p.bindings[id]
	if p.stopped || b == nil {
		return
	}
	b.probing = false
	next, contested := p.successors[id]
	delete(p.successors, id)
	if result != Gone {
		if b.news {
			b.news = false
			p.probe(b)
		}
		return
	}
	p.end(now, b, ReasonGone)
	if contested && p.bindings[next.binding] == nil {
		p.bind(now, next.peer, next.reg, next.binding)
	}
	if b.reg.Host != "" {
		p.PeerLost(now, b.reg.Host)
	}
	p.pump(now)
}

// Terminated tells that a watched controller on this node ended.
func (p *Producer) Terminated(now time.Duration, peer Peer) {
	b := p.byPeer[peer]
	if p.stopped || b == nil {
		return
	}
	p.end(now, b, ReasonStopped)
	p.pump(now)
}
