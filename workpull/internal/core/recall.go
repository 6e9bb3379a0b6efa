package core

import "time"

// Recall (B4): when the pool is empty and a worker holds nothing, a job that is
// buffered and not started at a busy one is asked back and given to the idle
// one. The busy worker's controller answers before the job goes elsewhere.

// recallsPerTurn bounds the work of one RecallDue, in workers looked at.
const recallsPerTurn = 64

// recallTimeout is when an unanswered recall is forgotten and may be repeated.
const recallTimeout = time.Second

// considerRecall asks for RecallDue while there is a worker that holds nothing
// and one that holds more than it can run.
func (p *Producer) considerRecall() {
	if p.recallSet || p.waiting.length > 0 || p.solos.length > 0 || p.idle.empty() || p.loaded.empty() {
		return
	}
	p.recallSet = true
	p.emit(Effect{Kind: SetRecall})
}

// RecallDue asks back one buffered job for each worker that holds nothing.
func (p *Producer) RecallDue(now time.Duration) {
	p.recallSet = false
	if p.stopped || p.waiting.length > 0 || p.solos.length > 0 {
		return
	}
	slot, looked := 0, 0
	for range recallsPerTurn {
		next, ok := p.idle.seek(slot)
		if !ok {
			break
		}
		slot = next + 1
		if !p.recallFor(now, p.slots[next], &looked) {
			break
		}
	}
	p.considerRecall()
}

// recallFor finds a buffered job behind one that runs for longer than
// RecallDelay, and asks it back.
func (p *Producer) recallFor(now time.Duration, target *binding, looked *int) bool {
	for ; *looked < recallsPerTurn; *looked++ {
		slot, ok := p.loaded.next(p.recallTurn)
		if !ok {
			return false
		}
		p.recallTurn = slot + 1
		b := p.slots[slot]
		if now-b.progressed < RecallDelay {
			continue
		}
		sequence := max(b.recallNext, b.confirmed+2)
		for sequence <= b.dispatched && b.job(sequence) == nil {
			sequence++
		}
		b.recallNext = sequence + 1
		p.index(b)
		if sequence > b.dispatched {
			continue
		}
		b.recalls = append(b.recalls, recall{sequence: sequence, target: target.id, at: now})
		p.expect(target, true)
		p.emit(Effect{Kind: Recall, Peer: b.peer, Link: &b.link, Session: p.session, Binding: b.id, Sequence: sequence})
		return true
	}
	return false
}

func (p *Producer) expect(target *binding, expecting bool) {
	target.expecting = expecting
	p.index(target)
}

// handOver gives a recalled job to the worker for which it was recalled, or to
// the pool's head when that one is busy by now.
func (p *Producer) handOver(now time.Duration, b *binding, sequence uint64, j *Job) {
	for i, r := range b.recalls {
		if r.sequence != sequence {
			continue
		}
		b.recalls = append(b.recalls[:i], b.recalls[i+1:]...)
		target := p.bindings[r.target]
		if target == nil {
			break
		}
		p.expect(target, false)
		if target.held == 0 && target.free() > 0 {
			p.assign(now, target, j)
			return
		}
		break
	}
	p.putBack(j)
}

// settleRecalls ends those that came too late: the job has started.
func (p *Producer) settleRecalls(b *binding, started uint64) {
	p.endRecalls(b, func(r recall) bool { return r.sequence <= started })
}

// expireRecalls forgets those whose answer is long due, so that they can be
// repeated.
func (p *Producer) expireRecalls(now time.Duration, b *binding) {
	if p.endRecalls(b, func(r recall) bool { return now-r.at > recallTimeout }) {
		b.recallNext = 0
		p.index(b)
	}
}

func (p *Producer) dropRecalls(b *binding) {
	p.endRecalls(b, func(recall) bool { return true })
}

func (p *Producer) endRecalls(b *binding, over func(recall) bool) bool {
	kept := b.recalls[:0]
	for _, r := range b.recalls {
		if !over(r) {
			kept = append(kept, r)
			continue
		}
		if target := p.bindings[r.target]; target != nil {
			p.expect(target, false)
		}
	}
	ended := len(kept) < len(b.recalls)
	b.recalls = kept
	return ended
}
