// Package scaling decides how many workers each pool of a producer should
// have, and which of them go.
//
// Decide is pure: it has no client, no clock and no I/O. What it has to
// remember it gets as a value and gives back as a value. Who calls it observes
// pods, hears the producer, and carries out what was decided.
package scaling

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

const (
	// StaleAfter is the age from which a snapshot says nothing any more about
	// who is idle. Producers push one at least every second.
	StaleAfter = 10 * time.Second
	// StuckAfter is how long a pod may be unscheduled, failing or not ready
	// until its place counts for nothing and its share goes to another pool.
	StuckAfter = 60 * time.Second
	// GoneAfter is how long a producer that does not exist any more may be
	// silent until its workers hold nothing that could still be confirmed. A
	// worker that drains gives up after the same time.
	GoneAfter = 30 * time.Second
)

// ProducerState is what is known about a producer.
type ProducerState struct {
	// Gone: the Producer does not exist or is being deleted. That is knowledge,
	// unlike a producer that cannot be reached.
	Gone bool
	// Stale: the stream is down, or the producer says that it does not know
	// yet. Snapshot is then the last one that came.
	Stale bool
	// Snapshot is the last one that came, nil if none ever did.
	Snapshot *Snapshot
	// History is what the last decision returned, the zero History at first.
	History History
}

// Snapshot is what a producer's controller knows. Each number is nil when it
// was not on the wire or is not measured yet: that is never a zero (S26).
type Snapshot struct {
	// At is when the operator received it, by the operator's clock.
	At time.Time

	// Waiting jobs are with nobody, buffered ones with a worker that has not
	// started them, running ones are being worked on. Delayed jobs wait for
	// their next attempt and are no demand.
	Waiting, Buffered, Running, Delayed *int64

	// ArrivalRate is accepted jobs a second, ServiceRate confirmed jobs a
	// second and RejectionRate rejected attempts a second, each over the same
	// time. A rejection is no service.
	ArrivalRate, ServiceRate, RejectionRate *float64
	// JobTime is the slot time that a confirmed job costs: what the attempts
	// that ended lately had taken, rejected ones included, for each of them
	// that was confirmed. Nil while none was.
	JobTime *time.Duration
	// Residual is how long a running job holds its slot from now on, in the
	// mean. Nil stands for the mean time of a job, as if jobs had no memory.
	Residual *time.Duration
	// LastArrival is when the last job was accepted, by the operator's clock.
	LastArrival *time.Time
}

// Pool is one WorkerPool and its pods.
type Pool struct {
	Name string
	// Weight orders pools: higher fills first and empties last.
	Weight int32
	// Slots is the number of jobs that one pod works on at once, at least 1.
	Slots int
	// Replicas is spec.replicas, nil when it is absent. Somebody else owns it
	// when Autoscaling is nil.
	Replicas *int32
	// Autoscaling is nil when somebody else decides how many there are.
	Autoscaling *Autoscaling
	// Suspend: let the busy finish, then zero.
	Suspend bool
	// StartupDeadline is how long a scheduled pod may take until it is ready;
	// zero for ever.
	StartupDeadline time.Duration
	Workers         []Worker
}

// Autoscaling is spec.autoscaling.
type Autoscaling struct {
	MinReplicas, MaxReplicas int

	// TargetDrain: what waits is to be done within this time. Zero when
	// TargetJobsPerSlot is the objective instead: so many jobs, waiting and
	// running, for each slot.
	TargetDrain       time.Duration
	TargetJobsPerSlot float64

	// IdleTimeout is how long a worker has to be idle, and surplus, to leave.
	IdleTimeout time.Duration

	// ScaleUp and ScaleDown have the meaning of autoscaling/v2, with other
	// defaults: without policies there is no limit, and without a window there
	// is no stabilization.
	ScaleUp, ScaleDown *autoscalingv2.HPAScalingRules

	Schedules []Schedule
}

// Phase is what a pod is to its pool.
type Phase int

const (
	// Unscheduled pods have no node yet.
	Unscheduled Phase = iota
	// Starting pods have a node and were not ready yet.
	Starting
	// Ready pods are registered with the producer.
	Ready
	// NotReady pods were ready and are not now. They may run jobs.
	NotReady
	// Failing pods crash again and again, ended, or cannot pull their image.
	Failing
	// Lost pods are on a node that does not report. Their places are filled
	// by others at once.
	Lost
	// Terminating pods are being deleted.
	Terminating
)

// Worker is one pod of a pool, together with what the producer says about it.
type Worker struct {
	Name  string
	Phase Phase
	// Since is when it came into this phase; for a starting pod, when it got
	// its node.
	Since time.Time
	// Held is the number of jobs that it runs or has buffered. Nil when the
	// producer does not mention it: a ready worker may then hold any number.
	Held *int
	// IdleSince is when it last came to hold nothing.
	IdleSince *time.Time
	// Retiring: an earlier decision named it, and it was told so. Decide names
	// it again as long as it is to go; one that is not named any more is to be
	// released.
	Retiring bool
	// Leaving: it is being replaced for another reason, such as a newer
	// template, and is no capacity any more.
	Leaving bool
	// Disrupted: its node is about to go, so that it leaves before other idle
	// workers.
	Disrupted bool
}

// knows tells whether the snapshot has every number that demand is made of.
func (s *Snapshot) knows() bool {
	return s != nil && s.Waiting != nil && s.Buffered != nil && s.Running != nil
}

// unknown tells whether the producer's word is too old, or missing, to let
// anybody go.
func (p *ProducerState) unknown(now time.Time) bool {
	return p.Stale || !p.Snapshot.knows() || now.Sub(p.Snapshot.At) > StaleAfter
}

// silent tells whether nothing can come any more from a producer that is gone.
func (p *ProducerState) silent(now time.Time) bool {
	return p.Gone && (p.Snapshot == nil || now.Sub(p.Snapshot.At) >= GoneAfter)
}

func orZero[T any](v *T) (zero T) {
	if v == nil {
		return zero
	}
	return *v
}
