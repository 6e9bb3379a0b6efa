package core

import "time"

// binding is the producer controller's side of one worker endpoint's sub-flow.
type binding struct {
	id    uint64
	peer  Peer
	link  Link
	reg   Registration
	since time.Duration // when it was bound

	slot  int           // place in registration order
	heard time.Duration // on the lease clock

	control    uint64 // highest control number seen
	confirmed  uint64 // every sequence up to here is done
	dispatched uint64 // highest sequence given out
	requested  uint64 // granted demand: nothing beyond is sent (rule 41)
	jobs       ring   // confirmed+1 … dispatched; nil where an exception left nothing
	held       int    // jobs that are not nil
	counted    int    // free demand as it is in the producer's sum

	progressed time.Duration // when it last confirmed, or began to hold a job
	service    time.Duration // how long a job takes there; 0 is not known
	stuck      bool          // no progress for RecallDelay
	recalls    []recall      // asked for and not answered
	recallNext uint64        // next sequence to ask for
	expecting  bool          // a recalled job is on its way to this one

	emptied time.Duration // when it last came to hold nothing

	used         bool // has ever been given a job
	stacked      bool
	above, below *binding // in the stack of vacant ones

	started   uint64        // highest sequence known to have been given to the worker
	startedAt time.Duration // when that became known
	reserved  bool          // takes nothing until it is empty, for a suspect
	alone     bool          // runs a suspect, and takes nothing besides
	adopted   *HeldAttempt  // went on as the first sequence (B15)
	retired   bool          // is given nothing until it is released (B13)
	suspended bool          // a send failed and the worker has not answered since
	draining  bool
	doubted   bool // there was news of its end, and it has not spoken since
	probing   bool
	news      bool // came while it was being probed: the answer may be older
	ended     bool
}

// recall is a buffered job that was asked back for a worker that holds nothing.
type recall struct {
	sequence uint64
	target   uint64 // binding id
	at       time.Duration
}

// hear notes a sign of life.
func (b *binding) hear(at time.Duration) {
	b.heard, b.suspended, b.doubted, b.news = at, false, false, false
}

// free is the demand that is not used up.
func (b *binding) free() int {
	if b.suspended || b.draining || b.ended || b.retired || b.reserved || b.alone || b.requested <= b.dispatched {
		return 0
	}
	return int(b.requested - b.dispatched)
}

// ahead is how much work lies at a worker beside what runs there, in time.
const ahead = 10 * time.Millisecond

// depth is how many jobs a worker should hold: enough not to run dry while its
// confirmation and the next job are on their way, and no more than that, since
// what lies behind a slow job has to be recalled. Demand remains what the worker
// granted.
func (b *binding) depth() int {
	if b.service == 0 {
		return MaxWindow
	}
	return int(min(MaxWindow, max(2, 1+ahead/b.service)))
}

// progress notes that n jobs are done. One that takes far longer than others
// counts for no more than four of them.
func (b *binding) progress(now time.Duration, n uint64) {
	took := max(1, (now-b.progressed)/time.Duration(n))
	if b.service == 0 {
		b.service = took
	} else {
		b.service = max(1, b.service+(min(took, 4*b.service+time.Millisecond)-b.service)/8)
	}
	b.progressed, b.stuck = now, false
}

// start notes that a sequence was given to the worker.
func (b *binding) start(now time.Duration, sequence uint64) {
	if sequence > b.started {
		b.started, b.startedAt = sequence, now
	}
}

// job returns the job under a sequence, or nil.
func (b *binding) job(sequence uint64) *Job {
	if sequence <= b.confirmed || sequence > b.dispatched {
		return nil
	}
	return *b.jobs.at(int(sequence - b.confirmed - 1))
}

// first is the oldest job that the binding holds, or nil.
func (b *binding) first() *Job {
	for i := range b.jobs.length {
		if j := *b.jobs.at(i); j != nil {
			return j
		}
	}
	return nil
}

// take empties the place of a sequence and returns the job that was there.
func (b *binding) take(sequence uint64) *Job {
	j := b.job(sequence)
	if j != nil {
		*b.jobs.at(int(sequence - b.confirmed - 1)) = nil
		b.held--
		j.binding = nil
	}
	return j
}

// loaded tells whether a buffered job might be recalled from here. The job
// right above the confirmed ones runs.
func (b *binding) loaded() bool {
	return b.held > 1 && !b.ended && !b.suspended && !b.draining && max(b.recallNext, b.confirmed+2) <= b.dispatched
}

// ring is a queue of jobs in sequence order with constant-time access by
// position. It grows by doubling and keeps its room.
type ring struct {
	buf          []*Job
	head, length int
}

func (r *ring) at(i int) **Job { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

func (r *ring) push(j *Job) {
	if r.length == len(r.buf) {
		grown := make([]*Job, max(4, 2*len(r.buf)))
		for i := range r.length {
			grown[i] = *r.at(i)
		}
		r.buf, r.head = grown, 0
	}
	r.length++
	*r.at(r.length - 1) = j
}

func (r *ring) popFront() *Job {
	p := r.at(0)
	j := *p
	*p = nil
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.length--
	return j
}

func (r *ring) popBack() *Job {
	p := r.at(r.length - 1)
	j := *p
	*p = nil
	r.length--
	return j
}
