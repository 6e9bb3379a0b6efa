package core

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// The durable lane (rules 55-63): what the producer controller asks of its
// queue, one operation under way at a time. The operations of the handshake go
// before confirmations, and confirmations keep their order. A queue that takes
// batches gets everything that waits in one commit (B8).
//
// Whoever carries the operations out tries again what may be tried again, so
// that an error here is final (rule 60).

// maxBatch bounds the operations of one commit, of each kind.
const maxBatch = 1024

// lane is the producer controller's side of its queue.
type lane struct {
	durable bool
	loading bool
	epoch   uint64
	own     uint64 // the epoch that this controller had when it began anew (B16)
	last    uint64 // number of the last operation

	stores   []uint64 // tokens of handshakes that wait to be stored
	accepts  []acceptance
	confirms []*Job
	saves    []*Job // whose progress the queue shall keep
	// committed tells that the last operation was no save.
	committed bool
	under     commit // what is under way

	// dropped are MessageIDs of dead letters that were given up: the queue has
	// them as confirmed, and a resubmission must not be told that it was done.
	dropped map[string]struct{}
}

// commit is the operation under way.
type commit struct {
	operation *QueueOperation
	stores    []uint64
	accepts   []acceptance
	confirms  []*Job
	saves     []*Job
}

// acceptance is a job to be accepted, and the handshake that waits for it.
type acceptance struct {
	job   *Job
	token uint64
}

// load asks for the queue's state, under a fresh epoch. A controller that begins
// anew takes the queue from nobody: only what is still in its own epoch (B16).
func (p *Producer) load() {
	p.lane.loading = true
	p.lane.last++
	o := &QueueOperation{Number: p.lane.last}
	if p.cfg.Reloads {
		o.Epoch = p.lane.own
	}
	p.emit(Effect{Kind: Load, Session: p.session, Operation: o})
}

// Loaded answers Load. The pool is the loaded jobs in store order and the
// cursor goes on where it was (rule 55). A load that failed, after all its
// attempts, ends the controller (rule 56).
func (p *Producer) Loaded(now time.Duration, session, number uint64, state QueueState, epoch uint64, err error) {
	if p.stopped || session != p.session || !p.lane.loading || number != p.lane.last { // rules 57, 63
		return
	}
	var queue *LoadedQueue
	if err == nil {
		queue, err = NewLoadedQueue(state, epoch)
	}
	if err != nil {
		p.fail(StageLoad, err)
		return
	}
	p.lane.loading = false
	p.takeOver(now, &queue.State, queue.Epoch)
	early := p.early
	p.early = nil
	for _, r := range early {
		p.Verified(now, r.peer, r.reg, true, r.binding)
	}
	p.pump(now)
}

// takeOver takes over what a queue holds. Jobs that are stored and not accepted
// run too: only a StoredAck accepts them, so that a resubmission still finds
// its first write (B1).
func (p *Producer) takeOver(now time.Duration, state *QueueState, epoch uint64) {
	p.lane.epoch, p.cursor = epoch, state.Cursor
	if p.cfg.Settle > 0 && len(state.Jobs) > 0 {
		p.settled = now + p.cfg.Settle
	}
	p.jobs = make(map[string]*Job, len(state.Jobs))
	for i := range state.Jobs {
		s := &state.Jobs[i]
		j := &Job{ID: s.ID, StoreSequence: s.Sequence, Attempt: 1, accepted: s.Accepted, loaded: true}
		if !s.Paged {
			payload := s.Payload // not the slice's, which is as large as the backlog
			j.Payload = &payload
			p.weigh(j.Payload)
		}
		p.jobs[j.ID] = j
		if s.Progress == nil || !p.resume(now, j, s.Progress) {
			p.enqueue(j)
		}
	}
}

// pumpLane begins the next operation when none is under way.
func (p *Producer) pumpLane() {
	l := &p.lane
	if !l.durable || l.loading || l.under.operation != nil || p.stopped {
		return
	}
	waits := len(l.stores)+len(l.accepts)+len(l.confirms) > 0
	if len(l.saves) > 0 && (l.committed || !waits) { // in turn
		l.committed = false
		if p.save() {
			return
		}
	}
	if !waits {
		return
	}
	l.committed = true
	n := 1
	if p.cfg.Batches {
		n = maxBatch
	}
	var c commit
	c.stores, l.stores = split(l.stores, n)
	if p.cfg.Batches || len(c.stores) == 0 {
		c.accepts, l.accepts = split(l.accepts, n)
	}
	if p.cfg.Batches || len(c.stores)+len(c.accepts) == 0 { // rule 58
		c.confirms, l.confirms = split(l.confirms, n)
	}
	if uint64(len(c.stores)) > math.MaxUint64-p.cursor { // rule 19
		p.fail(StageProtocol, ErrExhausted)
		return
	}
	l.last++
	o := &QueueOperation{Number: l.last, Epoch: l.epoch}
	for i, token := range c.stores {
		h := p.handshakes.find(token)
		s := StoredJob{ID: h.id, Payload: h.payload}
		if !p.cfg.Batches {
			s.Sequence = p.cursor + 1 + uint64(i)
		}
		o.Stores = append(o.Stores, s)
	}
	for _, a := range c.accepts {
		o.Accepts = append(o.Accepts, a.job.ID)
	}
	for _, j := range c.confirms {
		o.Confirms = append(o.Confirms, j.ID)
	}
	c.operation = o
	l.under = c
	p.emit(Effect{Kind: Commit, Session: p.session, Operation: o})
}

// split takes up to n from the front.
func split[T any](from []T, n int) (front, rest []T) {
	if n >= len(from) {
		return from, nil
	}
	return from[:n:n], from[n:]
}

// Committed answers Commit, with one outcome for each store. A stale answer
// changes nothing (rules 57, 63). fresh is a random session, for a controller
// that has to begin anew: after an error that is neither a fence nor a conflict
// nobody knows what the queue holds (rule 62).
func (p *Producer) Committed(now time.Duration, session, number uint64, outcomes []StoreOutcome, err error, fresh uint64) {
	o := p.lane.under.operation
	if p.stopped || session != p.session || o == nil || o.Number != number {
		return
	}
	if err == nil && len(outcomes) != len(o.Stores) {
		err = fmt.Errorf("%d outcomes of %d stores: %w", len(outcomes), len(o.Stores), ErrQueueConflict)
	}
	if errors.Is(err, ErrQueueFenced) || errors.Is(err, ErrQueueConflict) { // rule 61
		p.fail(o.stage(), err)
		return
	}
	if err != nil {
		p.reset(now, fresh)
		return
	}
	c := p.lane.under
	p.lane.under = commit{}
	for i, token := range c.stores {
		p.stored(p.handshakes.find(token), &outcomes[i])
	}
	for _, a := range c.accepts {
		p.acceptedJob(now, a)
	}
	for _, j := range c.confirms {
		p.confirmedJob(now, j)
	}
	for _, j := range c.saves {
		p.saved(now, j)
	}
	p.pump(now)
}

// stored goes on with what the queue returned, never with what was proposed
// (rules 12, 13).
func (p *Producer) stored(h *handshake, s *StoreOutcome) {
	p.cursor = max(p.cursor, s.Sequence)
	job := p.jobs[h.id]
	if job == nil {
		payload := h.payload
		job = &Job{ID: h.id, StoreSequence: s.Sequence, Attempt: 1, Payload: &payload}
		if s.Payload.TypeURL != "" {
			payload = s.Payload
		}
		if s.Already { // and not held: it is done, whether or not it was accepted, and runs no more (rule 16, B1)
			job.state = jobFinished
			_, job.dropped = p.lane.dropped[h.id]
			job.dropped = job.dropped || s.Dropped
		} else {
			p.jobs[h.id] = job
			p.weigh(job.Payload)
		}
	}
	h.answer(job)
	p.retell(h)
}

// accept lets the queue know that the producer actor acknowledged the job. With
// batches that may ride in any later commit: a job that is stored and not
// accepted is not lost (B1).
func (p *Producer) accept(now time.Duration, h *handshake) {
	job := h.job
	if job.accepted || job.accepting { // a resubmission
		p.handshakes.complete(h)
		p.repeat(job)
		return
	}
	job.accepting = true
	p.lane.accepts = append(p.lane.accepts, acceptance{job: job, token: h.token})
	if p.cfg.Batches {
		p.handshakes.complete(h)
		p.admit(now, job)
		return
	}
	h.state = accepting
}

// acceptedJob is accepted durably.
func (p *Producer) acceptedJob(now time.Duration, a acceptance) {
	j := a.job
	j.accepted, j.accepting = true, false
	if h := p.handshakes.find(a.token); h != nil && h.state == accepting {
		p.handshakes.complete(h)
	}
	p.admit(now, j)
	p.repeat(j)
}

// repeat tells of a job that was done before it was submitted again (B9).
func (p *Producer) repeat(j *Job) {
	if j.state == jobFinished && !j.dropped {
		p.tellConfirmed(j)
	}
}

// admit lets an accepted job join the pool, once (rule 16).
func (p *Producer) admit(now time.Duration, j *Job) {
	if j.state == jobStored && p.jobs[j.ID] == j {
		p.accepted++
		p.enqueue(j)
		p.ages.note(now, j.StoreSequence, p.oldest())
	}
}

// confirmedJob is confirmed durably: only now it is done (B10).
func (p *Producer) confirmedJob(now time.Duration, j *Job) {
	if j.dropped && !p.cfg.Keeps {
		p.lane.dropped[j.ID] = struct{}{}
	}
	p.done(now, j)
}

// reset begins anew within this controller: every binding ends, and the queue
// is loaded again under a fresh epoch (rule 62).
func (p *Producer) reset(now time.Duration, session uint64) {
	for _, b := range p.slots {
		if b != nil {
			p.emit(Effect{Kind: Unbound, Peer: b.peer, Link: &b.link, Binding: b.id, Registration: &b.reg, Reason: ReasonProducer})
		}
	}
	out := p.out
	p.out = nil
	p.Start(now, session, nil)
	p.out = append(out, p.out...)
	p.emit(Effect{Kind: Restarted, Session: session})
}

// QueueSettled tells that the queue knows all that there is to know.
func (p *Producer) QueueSettled() bool {
	l := &p.lane
	return !l.loading && l.under.operation == nil && len(l.stores)+len(l.accepts)+len(l.confirms)+len(l.saves) == 0
}
