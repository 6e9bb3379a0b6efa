package core

import "fmt"

// Check counts again what the controller keeps as sums, sets and lists, and
// names the first that disagrees. It costs time in proportion to jobs and
// workers: it is for tests.
func (p *Producer) Check() error {
	if err := p.checkJobs(); err != nil {
		return err
	}
	demand, reserved := 0, 0
	for slot, b := range p.slots {
		if b == nil {
			if p.eligible.has(slot) || p.vacant.has(slot) || p.idle.has(slot) || p.fresh.has(slot) || p.stuck.has(slot) || p.emptied.has(slot) {
				return fmt.Errorf("slot %d is empty and in a set", slot)
			}
			continue
		}
		if err := p.checkBinding(slot, b); err != nil {
			return fmt.Errorf("binding %d of %s: %w", b.id, b.reg.Identity, err)
		}
		demand += b.free()
		if b.reserved {
			reserved++
		}
	}
	switch {
	case demand != p.demand:
		return fmt.Errorf("demand is %d, counted %d", p.demand, demand)
	case reserved != p.reserved:
		return fmt.Errorf("%d workers are emptied, counted %d", p.reserved, reserved)
	case len(p.bindings) != len(p.byPeer) || len(p.bindings) != len(p.byIdentity):
		return fmt.Errorf("%d bindings, %d peers, %d identities", len(p.bindings), len(p.byPeer), len(p.byIdentity))
	case !p.stopped && p.waiting.length > 0 && !p.eligible.empty() && !p.paged(p.waiting.head): // rules 42, 51
		return fmt.Errorf("%d jobs wait and there is demand for %d", p.waiting.length, demand)
	}
	return p.checkCredits()
}

// checkCredits holds the open credits to their number and bound (rule 4, B7, B8).
func (p *Producer) checkCredits() error {
	open := 0
	p.handshakes.each(func(*handshake) { open++ })
	if open != p.handshakes.open || open > p.cfg.Credits {
		return fmt.Errorf("%d credits are open, counted %d, at most %d may be", p.handshakes.open, open, p.cfg.Credits)
	}
	return nil
}

// WaitingPayloads counts the payloads that are held of jobs which wait for a
// worker or for their backoff (B11), in time proportional to the jobs. It is for
// tests.
func (p *Producer) WaitingPayloads() int {
	n := 0
	for _, j := range p.jobs {
		if (j.state == jobWaiting || j.state == jobDelayed) && j.Payload != nil {
			n++
		}
	}
	return n
}

func (p *Producer) checkJobs() error {
	var count [jobFinished + 1]int
	for id, j := range p.jobs {
		count[j.state]++
		if j.ID != id || (j.state == jobDispatched) != (j.binding != nil) {
			return fmt.Errorf("job %s is under %s, in state %d, at a binding: %v", j.ID, id, j.state, j.binding != nil)
		}
	}
	lists := []struct {
		name         string
		list         *pool
		state        jobState
		otherLengths int
	}{
		{"waiting", &p.waiting, jobWaiting, p.solos.length + p.loaded.length}, {"loaded", &p.loaded, jobWaiting, p.waiting.length + p.solos.length},
		{"alone", &p.solos, jobWaiting, p.waiting.length + p.loaded.length}, {"dead", &p.dead, jobDead, 0},
	}
	for _, l := range lists {
		n, covered, beyond := 0, 0, false
		for j := l.list.head; j != nil; j = j.next {
			beyond = beyond || j == l.list.rest
			if j.covered {
				covered++
			}
			if j.covered == beyond || j.covered && p.paged(j) && !j.fetching && j.state == jobWaiting { // B11
				return fmt.Errorf("%s: %s is covered: %v, at or beyond the first that is not: %v, its payload is asked for: %v", l.name, j.ID, j.covered, beyond, j.fetching)
			}
			if n++; j.state != l.state || p.jobs[j.ID] != j || n > l.list.length {
				return fmt.Errorf("%s: %s is among the %d, in state %d", l.name, j.ID, l.list.length, j.state)
			}
		}
		if covered != l.list.covered {
			return fmt.Errorf("%s: %d jobs are covered, counted %d", l.name, l.list.covered, covered)
		}
		if n != l.list.length || n+l.otherLengths != count[l.state] {
			return fmt.Errorf("%s: %d jobs, counted %d, %d are in that state", l.name, l.list.length, n, count[l.state])
		}
	}
	for id, j := range p.memory.jobs {
		if j.ID != id || j.state != jobFinished || j.Payload != nil || len(p.memory.order) < len(p.memory.jobs) { // B9
			return fmt.Errorf("remembered: %s is under %s, in state %d, with %d bytes", j.ID, id, j.state, len(j.Body().Value))
		}
	}
	for i, j := range p.delayed {
		if j.state != jobDelayed || j.trouble.heapIndex != i || p.jobs[j.ID] != j {
			return fmt.Errorf("delayed: %s is at %d, in state %d", j.ID, i, j.state)
		}
	}
	held := 0
	for _, b := range p.bindings {
		held += b.held
	}
	if len(p.delayed) != count[jobDelayed] || held != count[jobDispatched] {
		return fmt.Errorf("%d delayed, %d in that state; %d at workers, %d in that state", len(p.delayed), count[jobDelayed], held, count[jobDispatched])
	}
	return nil
}

func (p *Producer) checkBinding(slot int, b *binding) error {
	if b.slot != slot || b.ended || p.bindings[b.id] != b || p.byPeer[b.peer] != b || p.byIdentity[b.reg.Identity] != b {
		return fmt.Errorf("is in slot %d, ended: %v, or is not found by its names", slot, b.ended)
	}
	if uint64(b.jobs.length) != b.dispatched-b.confirmed {
		return fmt.Errorf("%d places for sequences %d to %d", b.jobs.length, b.confirmed+1, b.dispatched)
	}
	held := 0
	for i := range b.jobs.length {
		j := *b.jobs.at(i)
		if j == nil {
			continue
		}
		if held++; j.binding != b || j.state != jobDispatched || j.sequence != b.confirmed+1+uint64(i) || p.jobs[j.ID] != j {
			return fmt.Errorf("%s is in place %d with sequence %d, in state %d", j.ID, i, j.sequence, j.state)
		}
	}
	free := b.free() > 0
	switch {
	case held != b.held:
		return fmt.Errorf("holds %d, counted %d", b.held, held)
	case b.counted != b.free():
		return fmt.Errorf("counts for a demand of %d, which is %d", b.counted, b.free())
	case p.eligible.has(slot) != (free && held < b.depth()) || p.vacant.has(slot) != (free && held == 0) || b.stacked != (free && held == 0):
		return fmt.Errorf("is in the wrong sets: demand %d, held %d", b.free(), held)
	case p.idle.has(slot) != (free && held == 0 && !b.expecting) || p.fresh.has(slot) != (b.loaded() && !b.stuck) || p.stuck.has(slot) != (b.loaded() && b.stuck) || p.emptied.has(slot) != b.reserved:
		return fmt.Errorf("is in the wrong sets of recall: demand %d, held %d", b.free(), held)
	}
	return nil
}

func (e *slotSet) has(slot int) bool {
	return slot/64 < len(e.words) && e.words[slot/64]&(1<<(slot%64)) != 0
}

// Check counts again what the controller keeps as sums, and names the first
// that disagrees. It costs time in proportion to the window: it is for tests.
func (c *Consumer) Check() error {
	buffered := 0
	for i := range c.buffer {
		if c.buffer[i] == nil {
			continue
		}
		s := c.buffer[i].Sequence
		buffered++
		if s < c.expected() || s > c.requested || s > c.highest || s%uint64(len(c.buffer)) != uint64(i) {
			return fmt.Errorf("sequence %d is kept in place %d, wanted %d to %d, highest %d", s, i, c.expected(), c.requested, c.highest)
		}
		if _, skipped := c.skips[s]; skipped {
			return fmt.Errorf("sequence %d is kept and skipped", s)
		}
	}
	if buffered != c.buffered {
		return fmt.Errorf("%d jobs are kept, counted %d", c.buffered, buffered)
	}
	for s := range c.skips {
		if s < c.expected() || s > c.highest {
			return fmt.Errorf("sequence %d is skipped, wanted %d to %d", s, c.expected(), c.highest)
		}
	}
	return nil
}
