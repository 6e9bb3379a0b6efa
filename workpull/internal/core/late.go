package core

import (
	"container/heap"
	"slices"
	"time"
)

// endedBinding is what is remembered of a binding for a lease: a confirmation
// that was on its way when it ended counts (B6).
type endedBinding struct {
	peer       Peer
	at         time.Duration
	dispatched uint64
	held       []heldJob
}

// heldJob is what an ended binding held.
type heldJob struct {
	sequence, token uint64
	id              string
}

// lateControl takes the confirmations out of a control message of a binding
// that has ended. Nothing else of it counts any more (rule 49).
func (p *Producer) lateControl(now time.Duration, from Peer, m *Control) {
	e := p.ended[m.Binding]
	if e == nil || e.peer != from || m.Confirmed > e.dispatched {
		return
	}
	kept := e.held[:0]
	for _, h := range e.held {
		isIt := func(x Exception) bool { return x.Sequence == h.sequence }
		switch {
		case slices.ContainsFunc(m.Exceptions, isIt): // not done, and back in the pool already
		case h.sequence > m.Confirmed:
			kept = append(kept, h)
		default:
			p.Late(now, from, m.Session, HeldAttempt{ID: h.id, Token: h.token})
		}
	}
	e.held = kept
}

// forgetEnded forgets bindings that ended long ago.
func (p *Producer) forgetEnded(now time.Duration) {
	for id, e := range p.ended {
		if now-e.at > p.cfg.Lease {
			delete(p.ended, id)
		}
	}
}

// Late is the confirmation of an attempt whose binding has ended: the first
// confirmation wins, whatever has become of the job since (B6). Only the
// controller that had the attempt can confirm it, and not if its binding ended
// for a violation (rule 49). An attempt of an earlier
// controller of the same queue counts as well (B15).
func (p *Producer) Late(now time.Duration, from Peer, session uint64, h HeldAttempt) {
	j := p.jobs[h.ID]
	if p.stopped || j == nil || j.state == jobConfirming || j.state == jobStored || j.state == jobDropping {
		return
	}
	if !p.outdated(from, h.Epoch) && (session != p.session || !slices.Contains(j.record().past, attempt{token: h.Token, peer: from})) {
		return
	}
	switch j.state {
	case jobWaiting:
		p.line(j).remove(j)
	case jobDead:
		p.dead.remove(j)
	case jobDelayed:
		heap.Remove(&p.delayed, j.trouble.heapIndex)
	case jobDispatched:
		b := j.binding
		b.take(j.sequence)
		if b.held == 0 {
			b.emptied = now
		}
		p.index(b)
		p.emit(Effect{Kind: Recall, Peer: b.peer, Link: &b.link, Session: p.session, Binding: b.id, Sequence: j.sequence})
	}
	p.complete(now, j)
	p.pump(now)
}
