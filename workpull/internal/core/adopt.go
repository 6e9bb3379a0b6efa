package core

import "time"

// A restart of the producer does not run again what is running (B15). A worker
// that registers says which attempt it holds; where the new controller has that
// job waiting, the attempt goes on under the new binding, as its first sequence.
// So that there is time for that, jobs that were loaded are held back for a
// while; new ones are not.

// HeldAttempt is an attempt that a worker runs, under the epoch and the token of
// its dispatch.
type HeldAttempt struct {
	ID           string
	Epoch, Token uint64
}

// settles tells that jobs which were loaded are held back.
func (p *Producer) settles() bool { return p.settled != 0 }

// settle gives out what is still there of the jobs that were loaded, before all
// that came since.
func (p *Producer) settle(now time.Duration) {
	if !p.settles() || now < p.settled {
		return
	}
	p.settled = 0
	for p.waiting.length > 0 {
		j := p.waiting.popFront()
		p.leave(&p.loaded, j)
		p.loaded.pushBack(j)
	}
	p.waiting, p.loaded = p.loaded, pool{}
}

// takeUp lets the attempt that a worker holds go on under its binding. It has
// to be one of an earlier epoch, of a job that nobody else has.
func (p *Producer) takeUp(now time.Duration, b *binding) {
	h := b.reg.Held
	if h == nil || p.cfg.Settle == 0 || h.Epoch == 0 || h.Epoch >= p.lane.epoch {
		return
	}
	j := p.jobs[h.ID]
	if j == nil || j.state != jobWaiting {
		return
	}
	p.line(j).remove(j)
	p.place(now, b, j)
	b.alone, b.adopted = j.solo, h
	b.start(now, b.dispatched)
	p.index(b)
	p.adopted++
}

// outdated tells that the late confirmation of an attempt of an earlier epoch
// comes from a worker that is bound by now: the job was done, whoever gave it
// out (B6).
func (p *Producer) outdated(from Peer, epoch uint64) bool {
	return epoch > 0 && epoch < p.lane.epoch && p.byPeer[from] != nil
}

// lastOutcomes is how many outcomes a worker remembers: that of the attempt
// which its last registration named is among them.
const lastOutcomes = 4

// outcome is what became of an attempt.
type outcome struct {
	epoch, token uint64
	rejected     *string
}

// held is the attempt that the worker runs, for a registration. One that was
// given out without a queue cannot be told from others after a restart.
func (c *Consumer) held() *HeldAttempt {
	r := c.running
	if r == nil || r.announced != 0 || r.delivery.Epoch == 0 {
		return nil
	}
	return &HeldAttempt{ID: r.delivery.ID, Epoch: r.delivery.Epoch, Token: r.delivery.Token}
}

// goOn takes up the attempt that the new binding begins with: it runs on, or
// has an outcome by now, or is given back.
func (c *Consumer) goOn(h *HeldAttempt) {
	sequence := c.confirmed + 1
	c.highest = sequence
	if r := c.running; r != nil && r.stale && r.delivery.Epoch == h.Epoch && r.delivery.Token == h.Token {
		r.stale, r.sequence = false, sequence
		return
	}
	x := Exception{Sequence: sequence, Kind: Recalled}
	for _, o := range c.outcomes {
		if o.epoch != h.Epoch || o.token != h.Token {
			continue
		}
		if o.rejected == nil {
			c.advance(sequence)
			return
		}
		x.Kind, x.Reason = Rejected, *o.rejected
	}
	c.exceptions = append(c.exceptions, exception{Exception: x})
	c.advance(sequence)
}

// note remembers an outcome.
func (c *Consumer) note(d *Delivery, rejected *string) {
	if d.Epoch != 0 {
		c.outcomes[c.noted%lastOutcomes] = outcome{d.Epoch, d.Token, rejected}
		c.noted++
	}
}

// older tells that a producer of a lower epoch answers while that of the higher
// one was heard within a lease: it does not know yet that it was replaced (B6).
// A queue that was made anew begins its epochs again, hence the lease.
func (c *Consumer) older(now time.Duration, epoch uint64) bool {
	return epoch > 0 && epoch < c.epoch && now-c.epochAt < max(c.lease, time.Millisecond)
}
