package workpull

import (
	"context"
	"fmt"
	"time"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/workpull/internal/core"
)

// FailedAttempt is one charged attempt of a job.
type FailedAttempt struct {
	Attempt int `json:"attempt"`
	// Worker is the identity of the worker that had it.
	Worker string    `json:"worker,omitempty"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason,omitempty"`
}

// DeadLetter is a job that is out of attempts.
type DeadLetter struct {
	MessageID string
	// StoreSequence is the number that Stored carried.
	StoreSequence uint64
	// Attempts counts those that were charged, Interruptions those that were
	// cut short by a lost node or a worker that had to leave.
	Attempts, Interruptions int
	// History has the last 32 charged attempts.
	History []FailedAttempt
	// TypeURL and Payload are the job as it was produced. Payload must not be
	// changed.
	TypeURL string
	Payload []byte
}

// maxDeadLetters bounds one answer of DeadLetters.
const maxDeadLetters = 10_000

func (n *node) history(failures []core.Failure) []FailedAttempt {
	history := make([]FailedAttempt, len(failures))
	for i, f := range failures {
		history[i] = FailedAttempt{Attempt: int(f.Attempt), Worker: f.Worker, Time: n.origin.Add(f.At), Reason: f.Reason}
	}
	return history
}

func (n *node) deadLetter(j *core.Job) DeadLetter {
	return DeadLetter{
		MessageID: j.ID, StoreSequence: j.StoreSequence, Attempts: int(j.Attempt - 1), Interruptions: int(j.Interruptions()),
		History: n.history(j.Failures()), TypeURL: j.Body().TypeURL, Payload: j.Body().Value,
	}
}

// bury tells subscribers and the log of a job that is out of attempts.
func (n *node) bury(e *endpoint, j *core.Job) {
	letter := n.deadLetter(j)
	last := ""
	if len(letter.History) > 0 {
		last = letter.History[len(letter.History)-1].Reason
	}
	n.system.Logger().Warnf("%s: job %s is a dead letter after %d attempts: %s", e.spec.name, j.ID, letter.Attempts, last)
	n.events.bury(DeadLettered{endpoint: e.spec.name, job: letter})
}

// order carries a command out on the turn of a producer endpoint's controller.
func order(ctx context.Context, producer *actor.PID, do func(p *core.Producer, now time.Duration)) error {
	done := make(chan struct{})
	_, err := ask(ctx, producer, producerRole, &command{do: do, done: done}, done)
	return err
}

// DeadLetters lists the dead letters of a producer endpoint, the oldest first,
// at most limit or 10,000.
func DeadLetters(ctx context.Context, producer *actor.PID, limit int) ([]DeadLetter, error) {
	letters, epoch, err := deadLetters(ctx, producer, limit)
	if err == nil {
		e, _ := endpointOf(producer)
		letters, err = e.node.laneOf(e.spec).withPayloads(ctx, epoch, letters)
	}
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return letters, nil
}

// DeadLetterHistories lists them as DeadLetters does, but reads nothing from the
// queue: TypeURL and Payload are empty where they were left with it.
func DeadLetterHistories(ctx context.Context, producer *actor.PID, limit int) ([]DeadLetter, error) {
	letters, _, err := deadLetters(ctx, producer, limit)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return letters, nil
}

// deadLetters lists those that the controller holds, of which epoch.
func deadLetters(ctx context.Context, producer *actor.PID, limit int) ([]DeadLetter, uint64, error) {
	e, ok := endpointOf(producer)
	if !ok {
		return nil, 0, ErrNotEndpoint
	}
	var letters []DeadLetter
	var epoch uint64
	err := order(ctx, producer, func(p *core.Producer, _ time.Duration) {
		jobs := p.DeadLetters(max(0, min(limit, maxDeadLetters)))
		list := make([]DeadLetter, len(jobs))
		for i, j := range jobs {
			list[i] = e.node.deadLetter(j)
		}
		letters, epoch = list, p.Epoch()
	})
	if err != nil { // the order may still be under way
		return nil, 0, err
	}
	return letters, epoch, nil
}

// Redrive gives a dead letter all its attempts again and puts it at the end of
// the pool. It returns ErrNoDeadLetter when there is none under that id.
func Redrive(ctx context.Context, producer *actor.PID, messageID string) error {
	return orderDead(ctx, "redrive", producer, messageID, func(p *core.Producer, now time.Duration) bool { return p.Redrive(now, messageID) })
}

// Drop forgets a dead letter. It returns ErrNoDeadLetter when there is none
// under that id.
func Drop(ctx context.Context, producer *actor.PID, messageID string) error {
	return orderDead(ctx, "drop", producer, messageID, func(p *core.Producer, now time.Duration) bool { return p.Drop(now, messageID) })
}

func orderDead(ctx context.Context, what string, producer *actor.PID, id string, do func(*core.Producer, time.Duration) bool) error {
	found := false // not to be read after an error: the order may still be under way
	err := order(ctx, producer, func(p *core.Producer, now time.Duration) { found = do(p, now) })
	if err == nil && !found {
		err = ErrNoDeadLetter
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, id, err)
	}
	return nil
}

// JobState is where a job is and why (B12).
type JobState struct {
	// State is stored, waiting, buffered, running, delayed or dead.
	State string
	// Worker is the identity of the worker that has it.
	Worker string
	// Attempt is the attempt under way, or the next one.
	Attempt, Interruptions int
	History                []FailedAttempt
	// Due is when a delayed job is given out again.
	Due time.Time
	// Alone tells that the job goes to a worker that holds nothing else,
	// because several workers died while they held it.
	Alone bool
}

// Explain tells where a job of a producer endpoint is. It returns
// ErrUnknownJob for one that the controller does not hold: it was never
// accepted, or is done.
func Explain(ctx context.Context, producer *actor.PID, messageID string) (JobState, error) {
	e, ok := endpointOf(producer)
	if !ok {
		return JobState{}, fmt.Errorf("explain %s: %w", messageID, ErrNotEndpoint)
	}
	var state JobState
	found := false
	err := order(ctx, producer, func(p *core.Producer, _ time.Duration) {
		s, held := p.Explain(messageID)
		found = held
		state = JobState{
			State: s.State, Worker: s.Worker, Attempt: int(s.Attempt), Interruptions: int(s.Interruptions),
			History: e.node.history(s.Failures), Alone: s.Alone,
		}
		if s.State == core.StateDelayed {
			state.Due = e.node.origin.Add(s.Due)
		}
	})
	if err == nil && !found {
		err = ErrUnknownJob
	}
	if err != nil {
		return JobState{}, fmt.Errorf("explain %s: %w", messageID, err)
	}
	return state, nil
}

// Retirement is what a producer's controller knows of a worker that it was
// told to retire.
type Retirement struct {
	// Session of the controller that answers: one after a restart may know
	// less than the one before.
	Session uint64
	// Known is false for a worker that is not registered: it may hold
	// anything.
	Known bool
	// Held counts the jobs that the worker may hold, those on their way to it
	// among them.
	Held int
}

// Retire gives the worker of that identity nothing from here on, until
// Release, however often it registers again; what it holds it may finish
// (B13). A worker remembers its retirement for a producer that restarts.
func Retire(ctx context.Context, producer *actor.PID, identity string) (Retirement, error) {
	var retirement Retirement
	err := order(ctx, producer, func(p *core.Producer, _ time.Duration) { retirement = Retirement(p.Retire(identity)) })
	if err != nil {
		return Retirement{}, fmt.Errorf("retire %s: %w", identity, err)
	}
	return retirement, nil
}

// Release ends a worker's retirement.
func Release(ctx context.Context, producer *actor.PID, identity string) error {
	err := order(ctx, producer, func(p *core.Producer, now time.Duration) { p.Release(now, identity) })
	if err != nil {
		return fmt.Errorf("release %s: %w", identity, err)
	}
	return nil
}
