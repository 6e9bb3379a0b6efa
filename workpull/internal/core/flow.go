package core

import "time"

// Control is a worker's demand, confirmation or farewell. One from another
// session, binding, sender or an earlier registration, or with a number that is
// not above the last, is dropped (rules 31, 33, 49). A later nonce is good:
// the registration that carries it is on its way, or was lost.
func (p *Producer) Control(now time.Duration, from Peer, m *Control) {
	if p.stopped || m.Session != p.session {
		return
	}
	b := p.bindings[m.Binding]
	if b == nil {
		p.lateControl(now, from, m)
		return
	}
	if b.peer != from || m.Nonce < b.reg.Nonce || m.Number <= b.control {
		return
	}
	if !legal(b, m) { // rule 36: only this binding ends
		p.end(now, b, ReasonIllegal)
		p.pump(now)
		return
	}
	b.control = m.Number
	b.hear(p.leaseClock(now))
	held := b.held
	p.takeExceptions(now, b, m)
	p.confirm(now, b, m.Confirmed)
	b.start(now, min(m.Started, b.dispatched))
	p.settleRecalls(b, max(m.Started, m.Confirmed))
	switch m.Kind {
	case Request:
		b.requested = m.RequestedUpTo // rule 39
	case Drain:
		b.draining = true
		p.handBack(b, max(m.KeepUpTo, b.confirmed))
		p.dropRecalls(b)
	case Stop: // its last word on what has started: the rest is under no suspicion
		p.handBack(b, max(b.started, b.confirmed))
		p.end(now, b, ReasonStopped)
		p.pump(now)
		return
	}
	if held > 0 && b.held == 0 {
		b.emptied = now
	}
	p.index(b)
	if m.ViaTimeout {
		p.resend(b, m.Received)
	}
	if m.Kind == Drain || m.Announce || len(m.Exceptions) > 0 {
		p.emit(Effect{Kind: ControlAck, Peer: b.peer, Link: &b.link, Session: p.session, Binding: b.id, Control: m.Number})
	}
	p.pump(now)
}

// legal checks a control message against what was given out (rules 34, 35).
func legal(b *binding, m *Control) bool {
	if m.Confirmed > b.dispatched {
		return false
	}
	if m.Kind != Request {
		return true
	}
	return m.RequestedUpTo >= m.Confirmed && m.RequestedUpTo-m.Confirmed <= MaxWindow
}

// takeExceptions takes back what the worker did not do. A list is repeated
// until it is acknowledged; what was taken back before is not there any more.
func (p *Producer) takeExceptions(now time.Duration, b *binding, m *Control) {
	for _, x := range m.Exceptions {
		j := b.take(x.Sequence)
		if j == nil {
			continue
		}
		switch x.Kind {
		case Recalled:
			p.recalled++
			p.handOver(now, b, x.Sequence, j)
		default:
			p.rejected++
			p.charge(now, j, b.reg.Identity, x.Reason)
			p.retry(now, j)
		}
	}
}

// confirm removes the confirmed prefix in order (rules 37, 38).
func (p *Producer) confirm(now time.Duration, b *binding, upTo uint64) {
	if upTo > b.confirmed {
		b.progress(now, upTo-b.confirmed)
	}
	for b.confirmed < upTo {
		b.confirmed++
		j := b.jobs.popFront()
		if j == nil {
			continue
		}
		b.held--
		j.binding = nil
		p.complete(now, j)
	}
}

// complete takes a worker's confirmation of a job; a queue has to know first
// (rule 38, B10).
func (p *Producer) complete(now time.Duration, j *Job) {
	if p.lane.durable {
		j.state = jobConfirming
		if !j.fetching { // else it is confirmed once it is not
			p.lane.confirms = append(p.lane.confirms, j)
		}
		return
	}
	p.done(now, j)
}

// done forgets a job.
func (p *Producer) done(now time.Duration, j *Job) {
	delete(p.jobs, j.ID)
	p.remember(now, j)
	if j.dropped {
		return
	}
	p.confirmed++
	p.tellConfirmed(j)
}

func (p *Producer) tellConfirmed(j *Job) {
	if p.cfg.Confirmations {
		p.emit(Effect{Kind: DeliveryConfirmed, Session: p.session, Job: j})
	}
}

// resend sends again what the worker says it lacks, in order and within its
// demand (rules 40, 41); where an exception left nothing it says so. received
// is in ascending order.
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
			continue
		}
		p.emit(Effect{
			Kind: Dispatch, Peer: b.peer, Link: &b.link, Session: p.session, Binding: b.id, Sequence: s,
			Delivery: &Delivery{Sequence: s, Skip: true},
		})
	}
}
