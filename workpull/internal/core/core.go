// Package core holds the two controllers of the work-pulling pattern as pure
// state machines: no goroutine, clock, I/O, randomness or actor type inside.
//
// Each event is a method that takes the time and what happened; what is to be
// done about it gathers in a list that the caller takes with Take and carries
// out in order. Random values (sessions, binding ids, incarnations) come in
// with the events. Time is a monotonic duration since an origin that the
// caller chooses. Neither machine is safe for concurrent use.
package core

import (
	"errors"
	"fmt"
	"time"
)

// Limits of the protocol.
const (
	// MaxWindow is the largest flow-control window and the furthest that a
	// worker may ask beyond what it has confirmed, in jobs (rules 35, 73).
	MaxWindow = 10_000
	// FlushDelay is how long a confirmation may wait for company (rule 83).
	FlushDelay = 5 * time.Millisecond
	// RecallDelay is how long a worker holds nothing, and how long the job in
	// front of a buffered one has run, before the buffered one is recalled
	// (B4). It keeps short jobs from being sent to and fro.
	RecallDelay = 2 * time.Millisecond
	// DefaultLease is how long a worker's controller may be silent before it
	// loses its binding (B5).
	DefaultLease = 15 * time.Second
)

// Peer is the address of a controller as its transport writes it. The empty
// Peer is nobody.
type Peer string

// Payload is a job's encoded message: a snapshot that the controller owns and
// nobody changes (rule 10).
type Payload struct {
	TypeURL string
	Value   []byte
}

// Job is one accepted job. The caller may read it and must not change it. It is
// kept small, since a million of them may wait (B11): what befalls few jobs is
// in their trouble.
type Job struct {
	// ID is the MessageID, unique among the jobs that the producer holds.
	ID string
	// StoreSequence is the number that Stored carried.
	StoreSequence uint64
	// Payload is nil while it is left with the queue (B11).
	Payload *Payload
	// Attempt is the number of the attempt that is under way or comes next,
	// from 1: one more than the attempts that were charged (B3).
	Attempt uint32

	state      jobState
	accepted   bool     // durably
	accepting  bool     // its accept waits or is under way
	dropped    bool     // given up: its confirmation is no news
	solo       bool     // goes to a worker that holds nothing else
	loaded     bool     // came from the queue when this session began
	covered    bool     // in its pool
	fetching   bool     // its payload is asked for
	unsaved    bool     // its progress waits to be kept
	binding    *binding // while dispatched
	sequence   uint64   // while dispatched
	token      uint64   // of the last attempt
	trouble    *trouble
	prev, next *Job // while waiting
}

// trouble is what befell a job.
type trouble struct {
	interruptions uint32
	failures      []Failure
	past          []attempt // attempts that may still confirm, the last maxHistory (B6)
	deaths        uint32    // workers that died while they held it
	due           time.Duration
	heapIndex     int
}

// Interruptions counts attempts that were cut short by what is not the job's
// fault: a lost node, a worker that had to leave.
func (j *Job) Interruptions() uint32 { return j.record().interruptions }

// Failures are the charged attempts, the last maxHistory of them.
func (j *Job) Failures() []Failure { return j.record().failures }

// Body is the payload, the zero value while it is left with the queue.
func (j *Job) Body() Payload {
	if j.Payload == nil {
		return Payload{}
	}
	return *j.Payload
}

// record is what befell the job, for reading.
func (j *Job) record() trouble {
	if j.trouble == nil {
		return trouble{}
	}
	return *j.trouble
}

// befallen is what befell the job, for noting more.
func (j *Job) befallen() *trouble {
	if j.trouble == nil {
		j.trouble = &trouble{}
	}
	return j.trouble
}

// Failure is one charged attempt of a job.
type Failure struct {
	Attempt uint32
	// Worker is the identity of the worker that had it.
	Worker string
	// At is when the producer learned of it.
	At     time.Duration
	Reason string
}

// attempt is one that ended without an outcome, at a worker that did not
// violate the protocol: it may run on there.
type attempt struct {
	token uint64
	peer  Peer
}

type jobState uint8

const (
	jobStored     jobState = iota // told Stored, not yet acknowledged
	jobWaiting                    // in the pool
	jobDispatched                 // at a worker
	jobDelayed                    // waits for its backoff
	jobDead                       // out of attempts
	jobDropping                   // given up, the queue does not know yet
	jobConfirming                 // done, the queue does not know yet
	jobFinished                   // done, and resubmitted
)

// Stage names where a terminal failure happened.
type Stage string

// Stages of a terminal failure.
const (
	StageLoad     Stage = "load"
	StageStore    Stage = "store"
	StageAccept   Stage = "accept"
	StageConfirm  Stage = "confirm"
	StageProtocol Stage = "protocol"
)

// Kind tells what an Effect asks for.
type Kind uint8

// Effects of the producer controller.
const (
	// RequestNext: tell the producer actor that a job is wanted
	// (Session, Token).
	RequestNext Kind = iota + 1
	// Stored: tell the producer actor that its job is stored
	// (Session, Token, Job).
	Stored
	// DeliveryConfirmed: tell the producer actor that a worker did Job.
	DeliveryConfirmed
	// Verify: find out whether Registration, sent by Peer, is genuine, and
	// call Verified with the answer (rules 22-26).
	Verify
	// Probe: find out whether the controller at Peer still lives in the
	// incarnation of Registration, and call Probed with Binding and the answer.
	Probe
	// RegisterAck: send the acknowledgement to Peer (Session, Binding, Grant).
	RegisterAck
	// Bound and Unbound: a binding began or ended: watch, or stop watching,
	// the controller at Peer; on Unbound drop its outbox (Binding, Reason).
	Bound
	Unbound
	// Dispatch: send Delivery to Peer as Sequence of Binding.
	Dispatch
	// Recall: ask Peer to give back Sequence of Binding unless it has started
	// (Session, Binding, Sequence).
	Recall
	// SetRecall: call RecallDue after RecallDelay.
	SetRecall
	// ControlAck: send the acknowledgement of control message Control to Peer
	// (Session, Binding, Control).
	ControlAck
	// DeadLettered: tell that Job is out of attempts and was put aside.
	DeadLettered
	// Load: load the queue and call Loaded (Session, Operation.Number); with an
	// Operation.Epoch, only if the queue is still in it (B16).
	Load
	// Commit: have the queue carry Operation out and call Committed.
	Commit
	// Fetch: have the queue give out payloads and call Fetched.
	Fetch
	// Save: have the queue keep the progress of jobs and call Committed.
	Save
	// Restarted: the controller began anew under Session; its timer is over.
	Restarted
	// Failed: publish a terminal failure (Stage, Err) and stop the controller.
	Failed
)

// Effects of the consumer controller.
const (
	// Resolve: find the producer's controller and call Resolved.
	Resolve Kind = iota + 64
	// SendRegister: send Registration to Peer.
	SendRegister
	// SendControl: send Message to Peer.
	SendControl
	// Deliver: hand Delivery to the worker actor (Session, Binding).
	Deliver
	// SetFlush: call Flush after FlushDelay.
	SetFlush
	// SendLate: tell Peer that a job whose binding ended is done all the same
	// (Session, Delivery).
	SendLate
	// Drained: nothing is held any more; the worker may end.
	Drained
)

// Effect is one thing that the caller has to do. Which fields are set depends
// on Kind; it is kept small, since several are made for each job.
type Effect struct {
	Kind     Kind
	Peer     Peer
	Session  uint64
	Binding  uint64
	Token    uint64
	Sequence uint64
	Control  uint64
	Job      *Job
	// Link is set in everything that is sent on a binding.
	Link         *Link
	Delivery     *Delivery
	Message      *Control
	Operation    *QueueOperation
	Registration *Registration
	Reason       Reason
	*Grant
	*Terminal
}

// Link is what the caller keeps of a binding, so that it need not look it up
// for each job. It lives as long as the binding does.
type Link struct{ Carrier any }

// Grant is the answer to a registration.
type Grant struct {
	Confirmed uint64
	Nonce     uint64
	Lease     time.Duration
	Retired   bool
	// Epoch of the producer's queue, 0 without one (B6).
	Epoch uint64
	// Adopted is the attempt that goes on as the binding's first sequence, nil
	// for none (B15).
	Adopted *HeldAttempt
}

// Terminal is a failure that ends the controller.
type Terminal struct {
	Stage Stage
	Err   error
}

// Registration is what a consumer controller says of itself.
type Registration struct {
	// Producer is the name of the producer endpoint it follows.
	Producer string
	// Endpoint is the name of its worker endpoint.
	Endpoint string
	// Identity of the worker endpoint; one binding each (rule 27).
	Identity string
	// Incarnation is drawn at each start of the consumer controller.
	Incarnation string
	// Nonce counts the registrations of one incarnation from 1.
	Nonce uint64
	// Draining workers take no more jobs.
	Draining bool
	// RetiredBy is the session of the producer that retired the worker, which
	// the worker remembers for the sessions that follow (B13); 0 is none.
	RetiredBy uint64
	// Host is the host:port of the worker's actor system; empty when local.
	Host string
	// Held is the attempt that the worker runs, if it runs any (B15).
	Held *HeldAttempt
}

// ControlKind is the kind of a Control message.
type ControlKind uint8

// Kinds of Control messages.
const (
	// Request replaces the granted demand.
	Request ControlKind = iota + 1
	// Ack confirms only.
	Ack
	// Drain hands back what is above KeepUpTo and takes no more.
	Drain
	// Stop ends the binding: the controller ends, whatever the worker runs.
	Stop
)

// Control is a message from a consumer controller to its producer controller.
type Control struct {
	Session   uint64
	Binding   uint64
	Nonce     uint64
	Number    uint64
	Kind      ControlKind
	Confirmed uint64
	// Started is the highest sequence that the worker was given or that is
	// done.
	Started uint64
	// Announce tells that the worker waits for the acknowledgement before it
	// starts the last of those.
	Announce bool
	// RequestedUpTo is set in a Request.
	RequestedUpTo uint64
	// ViaTimeout asks to resend what Received lacks.
	ViaTimeout bool
	// Received lists sequences above Confirmed, as closed intervals.
	Received []Range
	// KeepUpTo is set in a Drain.
	KeepUpTo uint64
	// Exceptions that are not acknowledged yet.
	Exceptions []Exception
}

// Range is the closed interval [First, Last] of sequences.
type Range struct{ First, Last uint64 }

// ExceptionKind tells why a worker did not do a sequence.
type ExceptionKind uint8

// Kinds of exceptions.
const (
	// Rejected: the worker actor refused it, or it could not be decoded (B3).
	Rejected ExceptionKind = iota + 1
	// Recalled: it had not started when it was asked back (B4).
	Recalled
)

// Exception is a sequence that the worker did not do; a cumulative
// confirmation does not cover it (rule 37).
type Exception struct {
	Sequence uint64
	Kind     ExceptionKind
	Reason   string
}

// Delivery is a job under its binding's sequence, as a consumer controller
// receives it. One value may be read by several goroutines.
type Delivery struct {
	Sequence uint64
	ID       string
	// Attempt counts charged attempts, from 1; Token numbers every dispatch of
	// a session, and Epoch the sessions of a queue, 0 without one (B6).
	Attempt uint32
	Token   uint64
	Epoch   uint64
	Payload Payload
	// Skip tells that there is nothing under this sequence (any more).
	Skip bool
	// Announce tells that its start is announced, and acknowledged, before it
	// is handed to the worker: whether it ran must not be a matter of doubt
	// (B3).
	Announce bool
}

// Reason tells why a binding ended (rule 46).
type Reason string

// Reasons for the end of a binding.
const (
	ReasonReplaced Reason = "replaced"
	ReasonIllegal  Reason = "illegal control message"
	ReasonStopped  Reason = "worker stopped"
	ReasonGone     Reason = "worker gone"
	ReasonLease    Reason = "lease expired"
	ReasonDrained  Reason = "drained"
	ReasonProducer Reason = "producer stopped"
)

// ProbeResult is what a probe of a worker's controller found.
type ProbeResult uint8

// Results of a probe.
const (
	// Unknown: no answer within the deadline; the lease decides.
	Unknown ProbeResult = iota
	// Alive: the controller lives in that incarnation.
	Alive
	// Gone: the node refused the connection, or answers that no such
	// controller lives there.
	Gone
)

// ErrExhausted ends a controller whose sequence numbers are used up (rule 19).
var ErrExhausted = errors.New("sequence numbers are exhausted")

// ProtocolError is a violation by the producer actor; it ends the controller
// (rules 9, 15).
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string { return "protocol violation: " + e.What }

func violation(format string, args ...any) error {
	return &ProtocolError{What: fmt.Sprintf(format, args...)}
}
