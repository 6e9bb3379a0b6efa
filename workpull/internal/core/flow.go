package core

import (
	"container/heap"
	"time"
)

// Control is a worker's demand, confirmation or farewell. One from another
// session, binding, sender or an earlier registration, or with a number that is
// not above the last, is dropped (rules 31, 33, 49). A later nonce is good:
// the registration that carries it is on its way, or was lost.
func (p *Producer) Control(now time.Duration, from Peer, m *Control) {
	if p.stopped || m.Session != p.session {
		return
	}
	b := p.bindings[m.Binding]
	if b == nil || b.peer != from || m.Nonce < b.reg.Nonce || m.Number <= b.control {
		return
	}
	if !legal(b, m) { // rule 36: only this binding ends
		p.end(b, ReasonIllegal)
		p.pump(now)
		return
	}
	before := b.free()
	b.control = m.Number
	b.heard = p.leaseClock(now)
	b.suspended = false
	p.reject(now, b, m)
	p.confirm(b, m.Confirmed)
	switch m.Kind {
	case Request:
		b.requested = m.RequestedUpTo // rule 39
	case Drain:
		b.draining = true
		p.returnJobs(b, max(m.KeepUpTo, b.confirmed))
	}
	p.account(b, before)
	if m.ViaTimeout {
		p.resend(b, m.Received)
	}
	if m.Kind == Drain || len(m.Rejections) > 0 {
		p.emit(Effect{Kind: ControlAck, Peer: b.peer, Session: p.session, Binding: b.id, Control: m.Number})
	}
	p.pump(now)
}

// legal checks a control message against what was given out (rules 34, 35).
func legal(b *binding, m *Control) bool {
	if m.Confirmed > b.dispatched {
		return false
	}
	for _, r := range m.Rejections {
		if r.Sequence == 0 || r.Sequence > m.Confirmed {
			return false
		}
	}
	if m.Kind != Request {
		return true
	}
	return m.RequestedUpTo >= m.Confirmed && m.RequestedUpTo-m.Confirmed <= MaxWindow
}

// reject takes back jobs that the worker did not do. They wait for their
// backoff and then join the pool at its end, never at its head (B3).
func (p *Producer) reject(now time.Duration, b *binding, m *Control) {
	for _, r := range m.Rejections {
		j := b.job(r.Sequence)
		if j == nil { // rejected before: the list is repeated until acknowledged
			continue
		}
		*b.jobs.at(int(r.Sequence - b.confirmed - 1)) = nil
		j.due = now + backoff(j.Attempt)
		j.Attempt++
		j.state, j.binding = jobDelayed, nil
		heap.Push(&p.delayed, j)
		p.rejected++
	}
}

func backoff(attempt uint32) time.Duration {
	return min(lastBackoff, firstBackoff<<min(attempt-1, 16))
}

// confirm removes the confirmed prefix in order (rules 37, 38).
func (p *Producer) confirm(b *binding, upTo uint64) {
	for b.confirmed < upTo {
		b.confirmed++
		j := b.jobs.popFront()
		if j == nil {
			continue
		}
		delete(p.jobs, j.ID)
		j.binding = nil
		p.confirmed++
		if p.cfg.Confirmations {
			p.emit(Effect{Kind: DeliveryConfirmed, Session: p.session, Job: j})
		}
	}
}

// resend sends again what the worker says it lacks, in order and within its
// demand (rules 40, 41). received is in ascending order.
func (p *Producer) resend(b *binding, received []Range) {
	last := min(b.dispatched, b.requested)
	for s := b.confirmed + 1; s <= last; s++ {
		for len(received) > 0 && received[0].Last < s {
			received = received[1:]
		}
		if len(received) > 0 && received[0].First <= s {
			continue
		}
		if j := b.job(s); j != nil {
			p.send(b, j)
		}
	}
}
