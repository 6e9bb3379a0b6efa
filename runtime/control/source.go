package control

import (
	"context"
	"errors"
)

// Errors of a Source, which the client returns too.
var (
	// ErrUnknownJob: the controller does not hold the job.
	ErrUnknownJob = errors.New("the controller does not hold the job")
	// ErrNoDeadLetter: there is no dead letter under that id.
	ErrNoDeadLetter = errors.New("there is no such dead letter")
)

// Source is a producer's controller as the server asks it. All of it may be
// called by several goroutines at once; an error means that the controller does
// not answer, unless it is one of the above.
type Source interface {
	// Inspect returns the state without rates, the workers in any order. Its cost
	// goes with the number of workers. The caller owns what it gets.
	Inspect(ctx context.Context) (*Snapshot, error)
	// Count returns what the controller has counted, at constant cost.
	Count(ctx context.Context) (Counts, error)
	// Notify sends to a channel, without waiting for room in it, when waiting
	// jobs or idle workers come to be or cease, until stop is called.
	Notify(changes chan<- struct{}) (stop func(), err error)

	// Retire and Release are for one worker each.
	Retire(ctx context.Context, identity string) (Retirement, error)
	Release(ctx context.Context, identity string) error
	// Gone has the workers of a process probed and tells how many there are. An
	// empty nonce stands for every process of the pod.
	Gone(ctx context.Context, podUID, nonce string) (workers int, err error)

	// Explain tells where a job is, or returns ErrUnknownJob.
	Explain(ctx context.Context, id string) (Job, error)
	// DeadLetters lists at most limit, the oldest first.
	DeadLetters(ctx context.Context, limit int) ([]DeadLetter, error)
	// Redrive and Drop return ErrNoDeadLetter where there is none.
	Redrive(ctx context.Context, id string) error
	Drop(ctx context.Context, id string) error
}

// Counts are totals of a controller's session, in jobs.
type Counts struct {
	Session             uint64
	Accepted, Confirmed uint64
}
