package core

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a queue that are never tried again and end the controller
// (rules 60, 61).
var (
	// ErrQueueFenced: another writer owns the queue by now.
	ErrQueueFenced = errors.New("the queue is fenced: another writer loaded it later")
	// ErrQueueConflict: the operation contradicts what is stored.
	ErrQueueConflict = errors.New("the operation conflicts with what the queue has stored")
)

// StoredJob is a job as its queue has it.
type StoredJob struct {
	ID       string
	Sequence uint64
	Payload  Payload
	// Accepted tells whether the producer actor acknowledged Stored (B1).
	Accepted bool
	// Paged tells that the payload is left with the queue (B11).
	Paged bool
	// Progress is what the queue kept of its attempts, if anything (B3).
	Progress *Progress
}

// Progress is what a queue keeps of a job's attempts (B3).
type Progress struct {
	// Attempt, Interruptions and Failures are those of the job; Deaths counts
	// the workers that died while they held it.
	Attempt, Interruptions, Deaths uint32
	Failures                       []Failure
	// Due is when its backoff is over, on the controller's clock.
	Due time.Duration
	// Delayed waits for that, Dead is out of attempts, Dropped was given up then.
	Delayed, Dead, Dropped bool
}

// QueueState is what a queue holds when it is loaded.
type QueueState struct {
	// Jobs that are not confirmed, in ascending order of their sequence.
	Jobs []StoredJob
	// Cursor is the last sequence that was given.
	Cursor uint64
	// Valid tells that Validate was called, which of a long backlog takes a
	// while.
	Valid bool
}

// Validate holds a state to rule 67.
func (s *QueueState) Validate() error {
	check := NewStateCheck(s.Cursor, len(s.Jobs))
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if err := check.Next(j.ID, j.Sequence, j.Paged || j.Payload.TypeURL != ""); err != nil {
			return err
		}
	}
	return nil
}

// StateCheck holds the jobs of a state to rule 67, one after the other.
type StateCheck struct {
	cursor, last uint64
	seen         map[string]struct{}
}

// NewStateCheck begins with a state of that cursor and about so many jobs.
func NewStateCheck(cursor uint64, jobs int) *StateCheck {
	return &StateCheck{cursor: cursor, seen: make(map[string]struct{}, jobs)}
}

// Next is why the rule does not allow the next job. Payload tells that it has
// one, or has left it with the queue.
func (c *StateCheck) Next(id string, sequence uint64, payload bool) error {
	switch {
	case id == "":
		return fmt.Errorf("job %d has no MessageID: %w", sequence, ErrQueueConflict)
	case sequence <= c.last || sequence > c.cursor:
		return fmt.Errorf("sequence %d of %q comes after %d, the cursor is %d: %w", sequence, id, c.last, c.cursor, ErrQueueConflict)
	case !payload:
		return fmt.Errorf("job %q has no payload: %w", id, ErrQueueConflict)
	}
	before := len(c.seen)
	c.seen[id] = struct{}{}
	c.last = sequence
	if len(c.seen) == before {
		return fmt.Errorf("MessageID %q is there twice: %w", id, ErrQueueConflict)
	}
	return nil
}

// LoadedQueue is a queue that was loaded before the controller starts, so that
// a load that fails fails its spawn (rule 56). Its state is valid.
type LoadedQueue struct {
	State QueueState
	Epoch uint64
}

// NewLoadedQueue holds what a queue returned to rules 65 and 67.
func NewLoadedQueue(state QueueState, epoch uint64) (*LoadedQueue, error) {
	if epoch == 0 {
		return nil, fmt.Errorf("epoch 0, wanted one above all before: %w", ErrQueueConflict)
	}
	if !state.Valid {
		if err := state.Validate(); err != nil {
			return nil, err
		}
	}
	return &LoadedQueue{State: state, Epoch: epoch}, nil
}

// QueueOperation is one commit. A plain queue gets one store, one accept or one
// confirmation; the order within a commit is that of the fields.
type QueueOperation struct {
	// Number of the operation within the session, and Epoch that owns it.
	Number, Epoch uint64
	// Stores carry the proposed sequence, the cursor and one, if the queue
	// takes no batches; otherwise the queue gives the sequences (rule 68).
	Stores []StoredJob
	// Accepts and Confirms are MessageIDs, and so are Fetches, those whose
	// payloads are wanted.
	Accepts, Confirms, Fetches []string
	// Saves are what befell jobs.
	Saves []SavedProgress
}

// SavedProgress is what a queue shall keep of a job.
type SavedProgress struct {
	ID string
	*Progress
}

// stage is where a failure of the operation belongs.
func (o *QueueOperation) stage() Stage {
	switch {
	case len(o.Stores) > 0:
		return StageStore
	case len(o.Accepts) > 0:
		return StageAccept
	default:
		return StageConfirm
	}
}

// StoreOutcome is what a queue answers to one store.
type StoreOutcome struct {
	Sequence uint64
	// Payload of the first write; it may be left out when that is the one just
	// stored (rule 12).
	Payload Payload
	// Already tells that the MessageID was stored before (rule 69).
	Already bool
	// Dropped tells that it was given up, and not done.
	Dropped bool
}
