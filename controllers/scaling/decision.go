package scaling

import "time"

// Limit says what bound a decision.
type Limit string

// All limits there are. When several apply, the decision names the one that
// had the last word.
const (
	// Unlimited: the pool gets what the rule asks for.
	Unlimited Limit = ""
	// Suspended: spec.suspend; the busy finish, then zero.
	Suspended Limit = "Suspended"
	// ProducerNotFound: the producer does not exist any more or is being
	// deleted; the busy finish, then zero.
	ProducerNotFound Limit = "ProducerNotFound"
	// ProducerUnknown: nothing recent is known, so nobody leaves.
	ProducerUnknown Limit = "ProducerUnknown"
	// ExternalOwner: somebody else owns spec.replicas.
	ExternalOwner Limit = "ExternalOwner"
	// MaxReplicas and MinReplicas: the bounds of the pool.
	MaxReplicas Limit = "MaxReplicas"
	MinReplicas Limit = "MinReplicas"
	// ScheduleMax and ScheduleMin: the bounds of a schedule that is active.
	ScheduleMax Limit = "ScheduleMax"
	ScheduleMin Limit = "ScheduleMin"
	// Jobs: there would be more slots than jobs.
	Jobs Limit = "Jobs"
	// Busy: more workers are busy than the rule asks for.
	Busy Limit = "Busy"
	// StuckPods: pods of the pool cannot be scheduled, fail or are not ready.
	StuckPods Limit = "StuckPods"
	// NoProgress: the last growth brought no more throughput.
	NoProgress Limit = "NoProgress"
	// ScaleUpPolicy and ScaleDownPolicy: spec.autoscaling.behavior.
	ScaleUpPolicy   Limit = "ScaleUpPolicy"
	ScaleDownPolicy Limit = "ScaleDownPolicy"
	// Stabilized: an earlier decision within a stabilization window.
	Stabilized Limit = "Stabilized"
	// IdleTime: nobody has been idle, and surplus, for long enough.
	IdleTime Limit = "IdleTime"
	// RecentArrival: a job came within the idle time (S10).
	RecentArrival Limit = "RecentArrival"
)

// Decision is what is to become of one pool.
type Decision struct {
	Pool string
	// Desired is the number of pods to work towards.
	Desired int
	// Owned: Desired is to be written to spec.replicas. False when somebody
	// else owns that (S17).
	Owned bool
	// Create is how many pods are missing.
	Create int
	// Victims are the workers that go, in this order: retire each, and delete
	// it once the producer confirms that it holds nothing. Those that retire
	// already are among them.
	Victims []string
	// Drain are busy workers to retire and not to delete: each is named as a
	// victim when it holds nothing. Only suspend, maxReplicas, an external
	// owner or a missing producer lead to that, never the scaling rule.
	Drain []string
	// LimitedBy is what had the last word.
	LimitedBy Limit
	// Reason is a sentence for a person.
	Reason string
	// Numbers are what the decision was made from.
	Numbers Numbers
}

// Numbers are those behind a decision. Nil is unknown.
type Numbers struct {
	Waiting, Buffered, Running, Delayed *int64
	// ArrivalRate and ServiceRate are in jobs a second.
	ArrivalRate, ServiceRate *float64
	// JobTime is the slot time that one job was taken to cost, Residual that of
	// a running one from now on; Measured tells whether that was measured.
	JobTime, Residual time.Duration
	Measured          bool
	// Slots is how many the producer's jobs need, were all of them this pool's.
	Slots float64
	// Wanted is the number of pods that the rule asks for, before the idle
	// time, stabilization and policies.
	Wanted int
	// Min and Max are the bounds in force.
	Min, Max int
	// The pods, each counted once. Present are the first six together.
	Busy, Idle, Starting, Unscheduled, NotReady, Failing int
	Lost, Terminating, Leaving, Present                  int
	// Stuck are those of the present that are no capacity.
	Stuck int
}
