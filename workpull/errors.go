package workpull

import (
	"errors"
	"fmt"
)

// Errors that callers may look for with errors.Is.
var (
	// ErrChunkingRefused: chunking belongs to point-to-point delivery; a job
	// goes whole to one worker.
	ErrChunkingRefused = errors.New("chunking is not part of work pulling")
	// ErrDurableQueueRefused: the point-to-point queue keeps one sequence for
	// one consumer; work pulling needs a queue that knows jobs one by one.
	ErrDurableQueueRefused = errors.New("the point-to-point durable queue cannot serve work pulling")
	// ErrPassivationRefused: an endpoint that passivates loses its jobs.
	ErrPassivationRefused = errors.New("a reliable endpoint cannot be passivated")
	// ErrResolutionConflict: a worker endpoint finds its producer in one way.
	ErrResolutionConflict = errors.New("a worker endpoint follows one way of resolution")
	// ErrReservedName: the name begins with the prefix of the pattern's own
	// actors.
	ErrReservedName = errors.New("name is reserved")
	// ErrNameTaken: another live actor has the name.
	ErrNameTaken = errors.New("name is taken")
	// ErrNotEndpoint: the actor was not spawned as the endpoint that the call
	// is about.
	ErrNotEndpoint = errors.New("actor is not such an endpoint")
	// ErrNoController: the endpoint lives and its controller has ended;
	// ReSpawn makes a new one.
	ErrNoController = errors.New("endpoint has no live controller")
	// ErrProducerNotFound: the node does not host the producer endpoint, or
	// does not answer.
	ErrProducerNotFound = errors.New("producer endpoint not found")
	// ErrUnknownJob: the producer's controller does not hold the job.
	ErrUnknownJob = errors.New("job is not held: it was never accepted, or is done")
	// ErrNoDeadLetter: no dead letter has that MessageID.
	ErrNoDeadLetter = errors.New("no such dead letter")

	// ErrInvalidMessage is what every refusal of a message constructor wraps.
	ErrInvalidMessage = errors.New("invalid message")
	// ErrPayloadTooLarge: the encoded payload does not fit a frame.
	ErrPayloadTooLarge = errors.New("payload is too large")
	// ErrControllerStopped ends up in ReliableDeliveryFailed when a controller
	// was stopped by something other than its endpoint.
	ErrControllerStopped = errors.New("controller was stopped")
)

// OptionError says which option was refused, what it was and what was wanted.
// It wraps one of the sentinel errors where there is one for the case.
type OptionError struct {
	Option string
	Got    string
	Want   string
	Err    error
}

// Error implements error.
func (e *OptionError) Error() string {
	s := e.Option
	if e.Got != "" {
		s += ": is " + e.Got
	}
	if e.Want != "" {
		s += ", wanted " + e.Want
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the sentinel error.
func (e *OptionError) Unwrap() error { return e.Err }

// MessageError says which field of a message was refused and why.
type MessageError struct {
	Message string
	Field   string
	Reason  string
	Err     error
}

// Error implements error.
func (e *MessageError) Error() string {
	s := fmt.Sprintf("%s: %s: %s", e.Message, e.Field, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrInvalidMessage and the cause.
func (e *MessageError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrInvalidMessage}
	}
	return []error{ErrInvalidMessage, e.Err}
}
