package core

import (
	"container/heap"
	"time"
)

// Attempts (B3): a job is charged when it was rejected, or when its worker died
// while it ran, and no other job is. Which one ran is known where the worker
// held but one. Where it held several, none is charged: they are suspects. One
// that is a suspect twice goes to a worker that holds nothing else, so that the
// next death is no riddle.

// deathsBeforeSolo is after how many deaths of its workers a suspect goes
// alone. One death alone says little, and going alone costs throughput.
const deathsBeforeSolo = 2

// maxHistory is how many failures, and how many attempts without an outcome, a
// job remembers.
const maxHistory = 32

// line is where a job waits.
func (p *Producer) line(j *Job) *pool {
	switch {
	case j.solo:
		return &p.solos
	case j.loaded && p.settles():
		return &p.loaded
	}
	return &p.waiting
}

// enqueue puts a job behind all others, putBack before them (rule 47).
func (p *Producer) enqueue(j *Job) {
	j.state = jobWaiting
	l := p.line(j)
	p.leave(l, j)
	l.pushBack(j)
}

func (p *Producer) putBack(j *Job) {
	j.state = jobWaiting
	if p.paged(j) { // a job that was adopted
		p.want(j)
	}
	p.line(j).pushFront(j)
}

// judge takes back what a binding held that has ended, and finds out what its
// end says of the jobs.
func (p *Producer) judge(now time.Duration, b *binding, why Reason) {
	died := (why == ReasonGone || why == ReasonStopped || why == ReasonReplaced) && !b.draining
	alone := b.held == 1
	e := &endedBinding{peer: b.peer, at: now, dispatched: b.dispatched}
	for b.jobs.length > 0 {
		j := b.jobs.popBack()
		sequence := b.dispatched
		b.dispatched--
		if j == nil {
			continue
		}
		b.held--
		j.binding = nil
		p.requeued++
		if why != ReasonIllegal { // it may run on there, and then its confirmation counts (B6)
			t := j.befallen()
			t.past = keepLast(append(t.past, attempt{token: j.token, peer: b.peer}))
			e.held = append(e.held, heldJob{sequence: sequence, id: j.ID, token: j.token})
		}
		ran := sequence <= b.started
		switch {
		case !died:
			if ran {
				j.befallen().interruptions++
			}
		case !alone, !ran: // it may have run, for less than the worker takes to say so
			t := j.befallen()
			t.deaths++
			j.solo = j.solo || t.deaths >= deathsBeforeSolo
		default:
			p.charge(now, j, b.reg.Identity, string(why)+" while it ran")
			t := j.befallen()
			if t.deaths++; t.deaths > 1 { // the first time it goes on at once: most deaths are not the job's doing
				p.retry(now, j)
				continue
			}
			if p.exhausted(j) {
				p.bury(j)
				continue
			}
		}
		p.putBack(j)
	}
	if len(e.held) > 0 {
		p.ended[b.id] = e
	}
}

// handBack takes back what a leaving worker has not started.
func (p *Producer) handBack(b *binding, keep uint64) {
	for b.dispatched > keep && b.jobs.length > 0 {
		j := b.jobs.popBack()
		b.dispatched--
		if j == nil {
			continue
		}
		b.held--
		j.binding = nil
		p.requeued++
		p.putBack(j)
	}
}

func (p *Producer) charge(now time.Duration, j *Job, worker, reason string) {
	t := j.befallen()
	t.failures = keepLast(append(t.failures, Failure{Attempt: j.Attempt, Worker: worker, At: now, Reason: reason}))
	j.Attempt++
	p.unsaved(j)
}

// charged is how many attempts were charged.
func (j *Job) charged() int { return int(j.Attempt - 1) }

// keepLast bounds what a job that is tried without end takes of memory.
func keepLast[T any](list []T) []T {
	if len(list) > maxHistory {
		return append(list[:0], list[len(list)-maxHistory:]...)
	}
	return list
}

func (p *Producer) exhausted(j *Job) bool {
	return p.cfg.MaxAttempts > 0 && j.charged() >= p.cfg.MaxAttempts
}

// retry lets a charged job wait for its backoff. Then it joins the pool at its
// end, never at its head. One out of attempts becomes a dead letter.
func (p *Producer) retry(now time.Duration, j *Job) {
	if p.exhausted(j) {
		p.bury(j)
		return
	}
	j.befallen().due = now + p.backoff(j.charged())
	p.delay(j)
	p.unsaved(j)
}

// delay lets a job wait until it is due.
func (p *Producer) delay(j *Job) {
	j.state = jobDelayed
	if p.cfg.Pages && len(p.delayed) >= 2*p.pageSize() { // B11
		j.Payload = nil
	}
	heap.Push(&p.delayed, j)
}

func (p *Producer) backoff(failures int) time.Duration {
	return min(p.cfg.LastBackoff, p.cfg.FirstBackoff<<min(failures-1, 16))
}

func (p *Producer) bury(j *Job) {
	j.state = jobDead
	p.dead.pushBack(j)
	p.unsaved(j)
	if p.cfg.Pages {
		p.buried = append(p.buried, j)
	}
	p.emit(Effect{Kind: DeadLettered, Session: p.session, Job: j})
}

// Redrive gives a dead letter all its attempts again and puts it at the pool's
// end. It tells whether there is such a dead letter.
func (p *Producer) Redrive(now time.Duration, id string) bool {
	j := p.jobs[id]
	if p.stopped || j == nil || j.state != jobDead {
		return false
	}
	p.dead.remove(j)
	p.unsaved(j)
	j.Attempt, j.solo = 1, false
	t := j.befallen()
	t.failures, t.deaths = nil, 0
	p.enqueue(j)
	p.pump(now)
	return true
}

// Drop forgets a dead letter. It tells whether there was such a one. A queue
// that keeps what befalls jobs has to know first that it was given up, and not
// done.
func (p *Producer) Drop(now time.Duration, id string) bool {
	j := p.jobs[id]
	if p.stopped || j == nil || j.state != jobDead {
		return false
	}
	p.dead.remove(j)
	j.dropped = true
	if p.cfg.Keeps {
		j.state = jobDropping
		p.unsaved(j)
	} else {
		p.complete(now, j)
	}
	p.pumpLane()
	return true
}

// DeadLetters lists up to limit dead letters, the oldest first.
func (p *Producer) DeadLetters(limit int) []*Job {
	var out []*Job
	for j := p.dead.head; j != nil && len(out) < limit; j = j.next {
		out = append(out, j)
	}
	return out
}

// dispatchSolos gives each suspect to a worker that holds nothing, and lets as
// many workers run empty as there are suspects without one.
func (p *Producer) dispatchSolos(now time.Duration) {
	if p.settles() {
		return
	}
	for p.solos.length > 0 && !p.paged(p.solos.head) {
		slot, ok := p.vacant.next(p.turn)
		if !ok {
			break
		}
		p.turn = slot + 1
		b := p.slots[slot]
		b.alone = true
		p.assign(now, b, p.solos.popFront())
	}
	for p.reserved < p.solos.length && p.vacant.empty() { // else the first one's payload is not there yet
		slot, ok := p.eligible.next(p.turn)
		if !ok {
			return
		}
		p.turn = slot + 1
		p.reserve(p.slots[slot], true)
		p.index(p.slots[slot])
	}
	for p.reserved > p.solos.length {
		slot, ok := p.emptied.seek(0)
		if !ok {
			return
		}
		p.reserve(p.slots[slot], false)
		p.index(p.slots[slot])
	}
}

func (p *Producer) reserve(b *binding, on bool) {
	switch {
	case on && !b.reserved:
		p.reserved++
	case !on && b.reserved:
		p.reserved--
	}
	b.reserved = on
}
