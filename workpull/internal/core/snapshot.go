package core

import "time"

// Snapshot is the state of a producer controller at one moment (B12). It costs
// time in proportion to the workers, not to the jobs.
type Snapshot struct {
	// Session of the controller, and Epoch of its queue, 0 without one.
	Session, Epoch uint64
	// Waiting jobs have no worker, InFlight jobs are at one, Delayed jobs
	// wait for their backoff, Dead jobs are out of attempts.
	Waiting, InFlight, Delayed, Dead int
	// Running jobs are those in flight that are known to have started, the
	// others are Buffered. A worker says within FlushDelay what has started.
	Running, Buffered int
	// OldestAge is about how long ago the oldest of the waiting jobs that are
	// next was accepted, or loaded; 0 when none waits.
	OldestAge time.Duration
	// Totals of this incarnation, in jobs.
	Accepted, Confirmed, Requeued, Rejected, Recalled, Adopted uint64
	Workers                                                    []WorkerSnapshot
}

// WorkerSnapshot is one binding in a Snapshot.
type WorkerSnapshot struct {
	Identity, Endpoint, Host string
	Peer                     Peer
	Binding                  uint64
	// Demand is free demand, InFlight what the worker holds, in jobs.
	Demand, InFlight int
	// Confirmed is the highest sequence of the binding that is done.
	Confirmed uint64
	// RunningID is the oldest job that the worker holds, the one that runs or
	// is the next to, and RunningAttempt its attempt.
	RunningID      string
	RunningAttempt uint32
	// Running tells that it is known to have started, and RunningSince when
	// the controller learned that.
	Running      bool
	RunningSince time.Duration
	// IdleSince is since when the worker holds nothing, while that is so.
	IdleSince time.Duration
	// Since is when the binding began.
	Since               time.Duration
	Suspended, Draining bool
	Retired             bool
	// Uncertain: something may not have reached it, or there was news of its
	// end, and it has not spoken since. What it holds it may never have got.
	Uncertain bool
}

// Totals are what a session has counted, in jobs.
type Totals struct {
	Session                                                    uint64
	Accepted, Confirmed, Requeued, Rejected, Recalled, Adopted uint64
}

// Totals is constant work.
func (p *Producer) Totals() Totals {
	return Totals{
		Session: p.session, Accepted: p.accepted, Confirmed: p.confirmed, Requeued: p.requeued,
		Rejected: p.rejected, Recalled: p.recalled, Adopted: p.adopted,
	}
}

// Pulse is what a pool is woken up and put to sleep by.
type Pulse struct {
	// Waiting: some job has no worker. Idle: some worker holds nothing and asks
	// for a job.
	Waiting, Idle bool
}

// Pulse is constant work.
func (p *Producer) Pulse() Pulse {
	return Pulse{Waiting: p.oldest() != 0, Idle: !p.vacant.empty()}
}

// Snapshot tells what waits, what is where, and what each worker holds.
func (p *Producer) Snapshot(now time.Duration) Snapshot {
	s := Snapshot{
		Session: p.session, Epoch: p.lane.epoch, Waiting: p.waiting.length + p.loaded.length + p.solos.length, Delayed: len(p.delayed), Dead: p.dead.length,
		Accepted: p.accepted, Confirmed: p.confirmed, Requeued: p.requeued, Rejected: p.rejected, Recalled: p.recalled, Adopted: p.adopted,
		Workers: make([]WorkerSnapshot, 0, len(p.bindings)),
	}
	if sequence := p.oldest(); sequence != 0 {
		s.OldestAge = p.ages.of(now, sequence)
	}
	for _, b := range p.slots {
		if b == nil {
			continue
		}
		w := WorkerSnapshot{
			Identity: b.reg.Identity, Endpoint: b.reg.Endpoint, Host: b.reg.Host, Peer: b.peer, Binding: b.id,
			Demand: b.free(), InFlight: b.held, Confirmed: b.confirmed, Since: b.since,
			Suspended: b.suspended, Draining: b.draining, Retired: b.retired, Uncertain: b.suspended || b.doubted,
		}
		if j := b.first(); j == nil {
			w.IdleSince = b.emptied
		} else {
			w.RunningID, w.RunningAttempt = j.ID, j.Attempt
			if w.Running = j.sequence <= b.started; w.Running {
				w.RunningSince = b.startedAt
				s.Running++
			}
		}
		s.InFlight += w.InFlight
		s.Workers = append(s.Workers, w)
	}
	s.Buffered = s.InFlight - s.Running
	return s
}

// JobState is where a job is and why (B12).
type JobState struct {
	// State is one of the constants below.
	State string
	// Worker is the identity of the worker that has it, Binding and Sequence
	// under what number.
	Worker            string
	Binding, Sequence uint64
	// Attempt is the attempt under way, or the next one.
	Attempt       uint32
	Interruptions uint32
	Failures      []Failure
	// Due is when its backoff is over.
	Due time.Duration
	// Alone tells that it goes to a worker that holds nothing else, since
	// workers died while they held it.
	Alone bool
}

// States of a job.
const (
	StateStored   = "stored"   // told Stored, not acknowledged
	StateWaiting  = "waiting"  // for a worker with free demand
	StateBuffered = "buffered" // at a worker, not known to have started
	StateRunning  = "running"  // given to the worker actor
	StateDelayed  = "delayed"  // for its backoff
	StateDead     = "dead"     // out of attempts
	// StateConfirming: done, and the queue is to be told.
	StateConfirming = "confirming"
)

// Explain tells where a job is. It is constant work.
func (p *Producer) Explain(id string) (JobState, bool) {
	j := p.jobs[id]
	if j == nil {
		return JobState{}, false
	}
	t := j.record()
	s := JobState{Attempt: j.Attempt, Interruptions: t.interruptions, Failures: t.failures, Alone: j.solo}
	switch j.state {
	case jobStored:
		s.State = StateStored
	case jobWaiting:
		s.State = StateWaiting
	case jobDelayed:
		s.State, s.Due = StateDelayed, t.due
	case jobDead:
		s.State = StateDead
	case jobConfirming, jobDropping:
		s.State = StateConfirming
	case jobDispatched:
		s.State = StateBuffered
		if j.sequence <= j.binding.started {
			s.State = StateRunning
		}
		s.Worker, s.Binding, s.Sequence = j.binding.reg.Identity, j.binding.id, j.sequence
	}
	return s, true
}
