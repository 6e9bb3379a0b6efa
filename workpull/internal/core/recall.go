package core

import (
	"math"
	"time"
)

// Recall (B4): when the pool is empty and a worker holds nothing, the oldest job
// that is buffered behind one that does not progress is asked back and given to
// the idle one. While the pool is not empty such a job goes to its head when a
// younger one is given out. The busy worker's controller answers before the job
// goes elsewhere.

// recallsPerTurn bounds the work of one turn, in workers looked at.
const recallsPerTurn = 64

// recallTimeout is when an unanswered recall is forgotten and may be repeated.
const recallTimeout = time.Second

// considerRecall recalls for workers that hold nothing. While there are such, or
// jobs wait, it asks for RecallDue as long as a worker with buffered jobs is not
// known to be stuck.
func (p *Producer) considerRecall(now time.Duration) {
	if p.solos.length > 0 || p.waiting.length == 0 && p.idle.empty() {
		return
	}
	if !p.recallSet && !p.fresh.empty() && len(p.bindings) > 1 {
		p.findStuck(now)
		if !p.fresh.empty() {
			p.recallSet = true
			p.emit(Effect{Kind: SetRecall})
		}
	}
	if p.waiting.length > 0 {
		return
	}
	for looked, slot := 0, 0; looked < recallsPerTurn && !p.stuck.empty(); looked++ {
		next, ok := p.idle.seek(slot)
		if !ok || !p.recallOldest(now, p.slots[next], math.MaxUint64, 0) {
			return
		}
		slot = next + 1
	}
}

// RecallDue looks once more for workers that are stuck.
func (p *Producer) RecallDue(now time.Duration) {
	p.recallSet = false
	if !p.stopped {
		p.considerRecall(now)
	}
}

// findStuck finds the workers whose running job has taken RecallDelay so far.
func (p *Producer) findStuck(now time.Duration) {
	for range recallsPerTurn {
		slot, ok := p.fresh.next(p.recallTurn)
		if !ok {
			break
		}
		p.recallTurn = slot + 1
		if b := p.slots[slot]; now-b.progressed >= RecallDelay {
			b.stuck = true
			p.index(b)
		}
	}
}

// recallOlder asks back a job that is older than one just given out and lies
// behind one that takes long even for its worker: it goes to the pool's head.
func (p *Producer) recallOlder(now time.Duration, than uint64) {
	if !p.stuck.empty() && p.solos.length == 0 {
		p.recallOldest(now, nil, than, 2)
	}
}

// recallOldest asks back the oldest job that is buffered at a worker that is
// stuck, for a target if there is one. Only jobs below a store sequence count,
// and workers whose running job takes so many times as long as usual there.
func (p *Producer) recallOldest(now time.Duration, target *binding, below uint64, times time.Duration) bool {
	var from *binding
	var sequence uint64
	looked := 0
	for slot, ok := p.stuck.seek(0); ok && looked < recallsPerTurn; slot, ok = p.stuck.seek(slot + 1) {
		looked++
		b := p.slots[slot]
		if s := b.recallable(); s == 0 {
			p.index(b)
		} else if j := b.job(s); j.StoreSequence < below && now-b.progressed >= times*b.service {
			from, sequence, below = b, s, j.StoreSequence
		}
	}
	if from == nil {
		return false
	}
	from.recallNext = sequence + 1
	p.index(from)
	r := recall{sequence: sequence, at: now}
	if target != nil {
		r.target = target.id
		p.expect(target, true)
	}
	from.recalls = append(from.recalls, r)
	p.emit(Effect{Kind: Recall, Peer: from.peer, Link: &from.link, Session: p.session, Binding: from.id, Sequence: sequence})
	return true
}

// recallable is the next sequence that may be asked back, 0 if there is none;
// the job right above the confirmed ones runs.
func (b *binding) recallable() uint64 {
	s := max(b.recallNext, b.confirmed+2)
	for s <= b.dispatched && b.job(s) == nil {
		s++
	}
	b.recallNext = s
	if s > b.dispatched {
		return 0
	}
	return s
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
