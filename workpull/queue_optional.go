package workpull

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// What a queue may offer beyond DurableWorkQueue. Each interface stands alone;
// a controller uses those that its queue has, and docs/concepts/queues.md tells
// what is missing without each.

// BatchWorkQueue is a DurableWorkQueue that carries out many operations in one
// commit (B8). A controller uses neither Store, Accept nor ConfirmMessage of it
// then.
type BatchWorkQueue interface {
	DurableWorkQueue

	// Commit carries out all of the batch or nothing, in the order of its
	// parts. The requests propose no sequence: the queue gives a new MessageID
	// the cursor and one, so that one that is known shifts none (rule 68). The
	// results are those of the stores, in their order.
	Commit(ctx context.Context, epoch QueueEpoch, batch WorkBatch) ([]StoreResult, error)
}

// PagingWorkQueue is a DurableWorkQueue that keeps the payloads of a long
// backlog, so that a controller holds only the identities (B11).
//
// The messages of its Load may come without payloads (NewPagedMessage), once
// the first of them make up what is worth loading at once.
type PagingWorkQueue interface {
	DurableWorkQueue

	// Payloads returns the payloads of stored jobs that are not compacted, in
	// the order of the MessageIDs, of which there are at most MaxPage. One that
	// is not stored is ErrQueueConflict, an older epoch ErrQueueFenced.
	Payloads(ctx context.Context, epoch QueueEpoch, messageIDs []string) ([]ReliablePayload, error)
}

// MaxPage is how many payloads a controller asks for at once.
const MaxPage = 1024

// AttemptWorkQueue is a DurableWorkQueue that keeps what happened to a job, so
// that charged attempts, the backoff and dead letters outlive the controller
// (B3).
type AttemptWorkQueue interface {
	DurableWorkQueue

	// SaveProgress keeps the progress of each of the jobs in place of what was
	// kept of it before, all of them or none. The messages of the next Load
	// carry it. One of a MessageID that is not stored is ErrQueueConflict, one
	// of a job that was compacted in this epoch changes nothing.
	SaveProgress(ctx context.Context, epoch QueueEpoch, progress []JobProgress) error
}

// DeduplicatingWorkQueue is a DurableWorkQueue that knows a completed MessageID
// for a while, whatever restarts in between (B9).
//
// Time is the wall time of the queue. Where its clock jumps forward, MessageIDs
// are forgotten sooner by the jump; where it jumps back, later.
type DeduplicatingWorkQueue interface {
	DurableWorkQueue

	// KeepCompleted sets for how long a job that is both accepted and confirmed
	// stays known to Store, from the moment that it became so; zero, the
	// default, is no longer than rule 70 wants. The window is kept with the
	// jobs, and holds for those that completed before as well.
	KeepCompleted(ctx context.Context, epoch QueueEpoch, window time.Duration) error

	// Completed tells of a job whether it is confirmed and still known. It
	// needs no epoch: whoever waits for a job may ask (B10).
	Completed(ctx context.Context, messageID string) (CompletedMessage, bool, error)
}

// ConditionalWorkQueue is a DurableWorkQueue that can be loaded again by its
// owner alone, so that a controller that begins anew takes it from nobody
// (B16).
type ConditionalWorkQueue interface {
	DurableWorkQueue

	// Reload is Load for the writer that owns the epoch, and ErrQueueFenced for
	// every other.
	Reload(ctx context.Context, epoch QueueEpoch) (WorkQueueState, QueueEpoch, error)
}

// NewPagedMessage returns a job as it is stored, but for its payload, which the
// queue gives out when it is asked for Payloads. The error is a *MessageError
// for an empty MessageID or sequence zero.
func NewPagedMessage(messageID string, sequence uint64, accepted bool) (UnconfirmedMessage, error) {
	switch {
	case messageID == "":
		return UnconfirmedMessage{}, &MessageError{Message: "UnconfirmedMessage", Field: "messageID", Reason: "is empty"}
	case sequence == 0:
		return UnconfirmedMessage{}, &MessageError{Message: "UnconfirmedMessage", Field: "sequence", Reason: "is zero"}
	}
	return UnconfirmedMessage{id: messageID, sequence: sequence, accepted: accepted, paged: true}, nil
}

// WithProgress is the same job with what is kept of its attempts. The error is
// a *MessageError where that is another job's.
func (m UnconfirmedMessage) WithProgress(progress JobProgress) (UnconfirmedMessage, error) {
	if progress.id != m.id {
		return m, &MessageError{Message: "UnconfirmedMessage", Field: "progress", Reason: fmt.Sprintf("is that of %q, wanted that of %q", progress.id, m.id)}
	}
	m.progress = &progress
	return m, nil
}

// Paged tells that the payload was left with the queue (B11).
func (m UnconfirmedMessage) Paged() bool { return m.paged }

// Progress is what is kept of the job's attempts, if anything is.
func (m UnconfirmedMessage) Progress() (progress JobProgress, ok bool) {
	if m.progress == nil {
		return JobProgress{}, false
	}
	return *m.progress, true
}

// AsDropped is the same result for a job that was given up before it was
// confirmed, so that nobody is told that it was done.
func (r StoreResult) AsDropped() StoreResult {
	r.dropped = true
	return r
}

// Dropped tells that the job is completed, and was given up.
func (r StoreResult) Dropped() bool { return r.dropped }

// JobFate is what became of a job that is not simply waiting for a worker.
type JobFate string

// Fates of a job.
const (
	// FateNone: it waits, now or after its backoff, or is at a worker.
	FateNone JobFate = ""
	// FateDead: it is out of attempts, a dead letter.
	FateDead JobFate = "dead"
	// FateDropped: it was a dead letter and was given up. It is confirmed next.
	FateDropped JobFate = "dropped"
)

// JobProgress is what happened to a job so far (B3). A queue keeps it whole, in
// the form of MarshalJSON or another, and looks into nothing but the fate.
type JobProgress struct {
	id     string
	values progressValues
}

// progressValues are the JSON form.
type progressValues struct {
	Attempt       uint32          `json:"attempt"`
	Interruptions uint32          `json:"interruptions,omitempty"`
	Deaths        uint32          `json:"deaths,omitempty"`
	Failures      []FailedAttempt `json:"failures,omitempty"`
	RetryAt       *time.Time      `json:"retryAt,omitempty"`
	Fate          JobFate         `json:"fate,omitempty"`
}

// ProgressCounts are the numbers of a JobProgress.
type ProgressCounts struct {
	// Attempt is the number of the attempt that comes next, from 1.
	Attempt uint32
	// Interruptions counts attempts that were cut short by what is not the
	// job's fault, Deaths the workers that died while they held it.
	Interruptions, Deaths uint32
}

// NewJobProgress returns the progress of a job. RetryAt is the wall time before
// which it is not given out, the zero time for none; a job that has a fate has
// none. The error is a *MessageError for an empty MessageID, an attempt zero,
// or a fate that there is not. The slice is copied.
func NewJobProgress(messageID string, counts ProgressCounts, failures []FailedAttempt, retryAt time.Time, fate JobFate) (JobProgress, error) {
	p := JobProgress{id: messageID, values: progressValues{
		Attempt: counts.Attempt, Interruptions: counts.Interruptions, Deaths: counts.Deaths,
		Failures: append([]FailedAttempt(nil), failures...), Fate: fate,
	}}
	if !retryAt.IsZero() {
		utc := retryAt.UTC().Round(0)
		p.values.RetryAt = &utc
	}
	for i := range p.values.Failures { // as they come back
		f := &p.values.Failures[i]
		f.Time = f.Time.UTC().Round(0)
	}
	return p, p.check()
}

func (p *JobProgress) check() error {
	refuse := func(field, reason string) error {
		return &MessageError{Message: "JobProgress", Field: field, Reason: reason}
	}
	switch {
	case p.id == "":
		return refuse("messageID", "is empty")
	case p.values.Attempt == 0:
		return refuse("attempt", "is zero, wanted one or more")
	}
	switch p.values.Fate {
	case FateNone:
		return nil
	case FateDead, FateDropped:
		if p.values.RetryAt != nil {
			return refuse("retryAt", fmt.Sprintf("is set, wanted none of a job that is %s", p.values.Fate))
		}
		return nil
	}
	return refuse("fate", fmt.Sprintf("is %q, wanted none, %q or %q", p.values.Fate, FateDead, FateDropped))
}

// DecodeJobProgress returns the progress of a job from what MarshalJSON of it
// returned.
func DecodeJobProgress(messageID string, data []byte) (JobProgress, error) {
	p := JobProgress{id: messageID}
	if err := json.Unmarshal(data, &p.values); err != nil {
		return JobProgress{}, fmt.Errorf("progress of job %q: %w", messageID, err)
	}
	if err := p.check(); err != nil {
		return JobProgress{}, err
	}
	return p, nil
}

// MarshalJSON returns all but the MessageID. It never fails.
func (p JobProgress) MarshalJSON() ([]byte, error) { return json.Marshal(p.values) }

// MessageID of the job.
func (p JobProgress) MessageID() string { return p.id }

// Counts are its attempts.
func (p JobProgress) Counts() ProgressCounts {
	return ProgressCounts{p.values.Attempt, p.values.Interruptions, p.values.Deaths}
}

// Failures is a copy of the last charged attempts, the oldest first.
func (p JobProgress) Failures() []FailedAttempt {
	return append([]FailedAttempt(nil), p.values.Failures...)
}

// RetryAt is the wall time before which the job is not given out, the zero time
// for none.
func (p JobProgress) RetryAt() time.Time {
	if p.values.RetryAt == nil {
		return time.Time{}
	}
	return *p.values.RetryAt
}

// Fate of the job.
func (p JobProgress) Fate() JobFate { return p.values.Fate }

// CompletedMessage is a job that a queue knows as confirmed.
type CompletedMessage struct {
	sequence uint64
	time     time.Time
	dropped  bool
}

// NewCompletedMessage returns a job that was confirmed at that wall time, or
// given up. The error is a *MessageError for sequence zero.
func NewCompletedMessage(sequence uint64, at time.Time, dropped bool) (CompletedMessage, error) {
	if sequence == 0 {
		return CompletedMessage{}, &MessageError{Message: "CompletedMessage", Field: "sequence", Reason: "is zero"}
	}
	return CompletedMessage{sequence, at, dropped}, nil
}

// Sequence of its first write.
func (m CompletedMessage) Sequence() uint64 { return m.sequence }

// Time at which it was confirmed.
func (m CompletedMessage) Time() time.Time { return m.time }

// Dropped tells that it was given up.
func (m CompletedMessage) Dropped() bool { return m.dropped }
