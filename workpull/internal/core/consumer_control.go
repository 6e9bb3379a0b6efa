package core

import "time"

// request grants the window anew; viaTimeout asks to resend what is missing
// (rules 39, 40, 79).
func (c *Consumer) request(now time.Duration, viaTimeout bool) {
	c.requested = c.confirmed + uint64(c.cfg.Window)
	c.topUpAt = c.confirmed
	m := c.message(Request)
	m.RequestedUpTo = c.requested
	if viaTimeout {
		m.ViaTimeout = true
		m.Received = c.received()
		c.asked, c.lastAsk = true, now
	}
	c.send(m)
}

// ack confirms. A worker that leaves says so with whatever it says: the answer
// to a later message must not stand for a farewell that was lost (B13).
func (c *Consumer) ack() {
	if c.draining {
		c.sendDrain()
		return
	}
	c.send(c.message(Ack))
}

// announce tells that the running delivery is about to start, and asks for an
// acknowledgement, without which it does not.
func (c *Consumer) announce() {
	m := c.message(Ack)
	m.Announce = true
	c.running.announced = m.Number
	c.send(m)
}

// message fills in what every control message carries, the exceptions that are
// not acknowledged among it.
func (c *Consumer) message(kind ControlKind) *Control {
	c.control++
	m := &Control{
		Session: c.session, Binding: c.binding, Nonce: c.nonce,
		Number: c.control, Kind: kind, Confirmed: c.confirmed, Started: c.expected() - 1,
	}
	for i := range c.exceptions {
		r := &c.exceptions[i]
		if r.control == 0 {
			r.control = c.control
		}
		m.Exceptions = append(m.Exceptions, r.Exception)
	}
	return m
}

func (c *Consumer) send(m *Control) {
	c.reported, c.begun = m.Confirmed, m.Started
	c.spoke = true
	c.emit(Effect{Kind: SendControl, Peer: c.producer, Message: m})
}

// received lists what is held above the confirmed sequences.
func (c *Consumer) received() []Range {
	var ranges []Range
	add := func(s uint64) {
		if n := len(ranges); n > 0 && ranges[n-1].Last+1 == s {
			ranges[n-1].Last = s
			return
		}
		ranges = append(ranges, Range{First: s, Last: s})
	}
	if c.holds() {
		add(c.confirmed + 1)
	}
	for s := c.expected(); s <= c.highest; s++ {
		_, skipped := c.skips[s]
		if d := *c.place(s); skipped || d != nil && d.Sequence == s {
			add(s)
		}
	}
	return ranges
}

// ControlAck tells that the producer has taken in every control message up to
// a number: its exceptions need not be repeated, and a farewell is complete
// once nothing runs.
func (c *Consumer) ControlAck(now time.Duration, from Peer, session, binding, control uint64) {
	if !c.current(from, session, binding) || control > c.control {
		return
	}
	c.hear(now)
	n := 0
	for n < len(c.exceptions) && c.exceptions[n].control != 0 && c.exceptions[n].control <= control {
		n++
	}
	c.exceptions = c.exceptions[n:]
	if r := c.running; r != nil && r.announced != 0 && control >= r.announced {
		r.announced = 0
		c.tell()
	}
	if c.draining && c.drainSent > 0 && control >= c.drainSent && c.running == nil {
		c.finishDrain()
	}
}

// Drain takes no more jobs and hands back at once what has not started; what
// runs goes on. Drained follows when nothing is held and the producer has
// taken in the last confirmation (B13).
func (c *Consumer) Drain(time.Duration) {
	if c.draining {
		return
	}
	c.draining = true
	clear(c.buffer)
	clear(c.skips)
	c.buffered, c.highest = 0, 0
	c.afterDrainStep()
}

// afterDrainStep says farewell, again with each outcome, so that the producer
// has both what is handed back and the last confirmation.
func (c *Consumer) afterDrainStep() {
	if c.session != 0 {
		c.sendDrain()
		return
	}
	if c.running == nil {
		c.finishDrain()
	}
}

func (c *Consumer) sendDrain() {
	m := c.message(Drain)
	m.KeepUpTo = c.confirmed
	if c.holds() {
		m.KeepUpTo++
	}
	c.drainSent = m.Number
	c.send(m)
}

// Stop tells the producer that this controller ends, so that what it holds
// goes elsewhere at once, even while its handler runs (rule 46). Nothing
// repeats it: where it is lost the producer finds out by a probe or the lease.
func (c *Consumer) Stop(time.Duration) {
	if c.session != 0 {
		c.send(c.message(Stop))
	}
}

func (c *Consumer) finishDrain() {
	if c.drained {
		return
	}
	c.drained = true
	c.emit(Effect{Kind: Drained})
}
