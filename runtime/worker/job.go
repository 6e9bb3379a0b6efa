package worker

import "context"

// Job is one job, as it was posted to the intake.
type Job struct {
	// ID of the job, the client's or the intake's.
	ID string
	// Attempt counts from 1 and goes up with each rejection. A run that ended
	// with its worker is not counted.
	Attempt int
	// Body as it was posted; the handler may change it.
	Body []byte
	// ContentType as it was posted; may be empty.
	ContentType string
	// Header has the fields that were posted as Workpull-Header-<name>, by
	// name in lower case. It may be nil.
	Header map[string]string
}

// Handler does one job. Calls run side by side where the pool's concurrency is
// above one. The context ends when the worker has to leave and its drain
// time-out is over: the job is then given to another worker.
type Handler func(ctx context.Context, job *Job) error
