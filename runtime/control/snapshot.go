package control

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Snapshot is the state of a producer's pool at one moment. It is never changed
// once it was handed out.
type Snapshot struct {
	State
	// Workers in ascending order of identity.
	Workers []Worker
}

// State is what holds for the pool as a whole. The fields are those of the
// message State.
type State struct {
	// At is when it was so, by the producer's clock. All times of a snapshot are
	// by that clock: take ages as differences to it.
	At Known[time.Time]
	// Session of the controller, and Epoch of its queue, 0 without one.
	Session, Epoch Known[uint64]
	// Waiting jobs have no worker; Buffered ones lie at a worker; Running ones are
	// in its handler; Delayed ones wait for their backoff; Dead ones are out of
	// attempts.
	Waiting, Buffered, Running, Delayed, Dead Known[int]
	// ArrivalRate and ServiceRate are jobs accepted and jobs confirmed, a second,
	// over RateWindow.
	ArrivalRate, ServiceRate Known[float64]
	// OldestAge of the waiting jobs, to the millisecond. Not known when none
	// waits.
	OldestAge Known[time.Duration]
	// Totals of the session, in jobs.
	Accepted, Confirmed, Requeued, Rejected, Recalled Known[uint64]
}

// Worker is one worker endpoint that is bound to the controller.
type Worker struct {
	// Identity is pod UID, boot nonce and the endpoint's number, with slashes in
	// between.
	Identity string
	// Pod is the pod's name and Host the host:port of its remoting; empty when
	// not known.
	Pod, Host string
	// Demand is how many more jobs it asks for, Held how many it may hold.
	Demand, Held Known[int]
	// RunningID is the job in its handler, or its first 256 bytes; empty when
	// none is known to be. RunningAttempt counts from 1.
	RunningID      string
	RunningAttempt Known[int]
	RunningSince   Known[time.Time]
	// IdleSince is since when it holds nothing; not known while it holds
	// something.
	IdleSince Known[time.Time]
	// BoundSince is when it registered.
	BoundSince Known[time.Time]
	// Suspended: a send failed and it has not answered since. Draining: it will
	// leave. Retired: it gets nothing until Release. Uncertain: something that
	// was sent may not have arrived, or there was news of its end.
	Suspended, Draining, Retired, Uncertain Known[bool]
}

// PodUID is the UID of the worker's pod.
func (w *Worker) PodUID() string {
	uid, _, _ := strings.Cut(w.Identity, "/")
	return uid
}

// HoldsNothing tells that the worker is known to hold no job.
func (w *Worker) HoldsNothing() bool { return w.Held.Is(0) && w.Uncertain.Is(false) }

// Worker returns the worker of an identity.
func (s *Snapshot) Worker(identity string) (Worker, bool) {
	i, ok := slices.BinarySearchFunc(s.Workers, identity, func(w Worker, identity string) int { return cmp.Compare(w.Identity, identity) })
	if !ok {
		return Worker{}, false
	}
	return s.Workers[i], true
}

// Retirement is what a controller knows of a worker that it was told to retire
// (B13).
type Retirement struct {
	Identity string
	// Known is false for a worker that has no binding: it may hold anything.
	Known bool
	// Held is how many jobs it may hold. Not known unless Known.
	Held Known[int]
	// Session of the controller that answered: what one promised, the next may
	// not know.
	Session uint64
}

// Empty tells that the worker is known to the controller and holds nothing: it
// may be taken away.
func (r Retirement) Empty() bool { return r.Known && r.Held.Is(0) }

// FailedAttempt is one charged attempt of a job.
type FailedAttempt struct {
	// Attempt counts from 1.
	Attempt Known[int]
	// Worker is the identity of the worker that had it.
	Worker string
	At     Known[time.Time]
	Reason string
}

// Job is where a job is and why.
type Job struct {
	// State is stored, waiting, buffered, running, delayed, dead or confirming.
	State string
	// Worker is the identity of the worker that has it.
	Worker string
	// Attempt is under way or comes next, from 1; Interruptions are attempts that
	// were cut short by what is not the job's fault.
	Attempt, Interruptions Known[int]
	// History has the last 32 charged attempts.
	History []FailedAttempt
	// Due is when a delayed job is given out again.
	Due Known[time.Time]
	// Alone: it goes to a worker that holds nothing else.
	Alone Known[bool]
}

// DeadLetter is a job that is out of attempts, without its payload.
type DeadLetter struct {
	ID                      string
	StoreSequence           Known[uint64]
	Attempts, Interruptions Known[int]
	// History has the last 32 charged attempts.
	History []FailedAttempt
	// TypeURL is the payload's type and PayloadBytes its size; not known where the
	// payload was left with the queue.
	TypeURL      string
	PayloadBytes Known[uint64]
}
