package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// Errors of the model queue that are never tried again (rule 60).
var (
	errFenced   = fmt.Errorf("queue: the epoch is over: %w", core.ErrQueueFenced)
	errConflict = fmt.Errorf("queue: the operation contradicts what is stored: %w", core.ErrQueueConflict)
	// errUnavailable is any other error: nothing was done, or nobody knows.
	errUnavailable = errors.New("queue: unavailable")
)

// stored is a job in the model queue.
type stored struct {
	id                  string
	seq                 uint64
	payload             []byte
	accepted, confirmed bool
	compacted           bool
	doneAt              time.Duration // when it was compacted
	progress            *core.Progress
}

// dropped tells that it was given up (B3).
func (s *stored) dropped() bool { return s.progress != nil && s.progress.Dropped }

// queue is a durable work queue as rules 64 to 71 want it: it outlives every
// incarnation of the producer, and whoever loaded it last owns it.
type queue struct {
	epoch  uint64
	cursor uint64
	jobs   []*stored          // not compacted, in store order
	known  map[string]*stored // those, and the ones compacted in this epoch
	// window is for how long it knows those that were compacted (B9), and now
	// its clock.
	window time.Duration
	now    time.Duration
}

func newQueue(window time.Duration) *queue {
	return &queue{known: map[string]*stored{}, window: window}
}

// load begins an epoch, which fences the older ones, and returns what is
// stored and not done, whether accepted or not (rules 65, 67, B1).
func (q *queue) load() (epoch, cursor uint64, jobs []stored) {
	q.epoch++
	for id, s := range q.known {
		if s.compacted && q.now-s.doneAt >= q.window {
			delete(q.known, id)
		}
	}
	for _, s := range q.jobs {
		if !s.confirmed {
			jobs = append(jobs, *s)
		}
	}
	return q.epoch, q.cursor, jobs
}

// store appends a job under the next sequence, or returns the first write of
// its MessageID (rules 68, 69).
func (q *queue) store(epoch, seq uint64, id string, payload []byte) (first stored, already bool, err error) {
	if !q.owned(epoch) {
		return stored{}, false, errFenced
	}
	if s := q.known[id]; s != nil {
		return *s, true, nil
	}
	if seq != q.cursor+1 {
		return stored{}, false, fmt.Errorf("%s proposes %d after %d: %w", id, seq, q.cursor, errConflict)
	}
	q.cursor++
	s := &stored{id: id, seq: seq, payload: payload}
	q.jobs, q.known[id] = append(q.jobs, s), s
	return *s, false, nil
}

func (q *queue) owned(epoch uint64) bool { return epoch != 0 && epoch == q.epoch }

// accept and confirm mark a job, as often as they are asked to (rule 70).
func (q *queue) accept(epoch uint64, id string) error {
	return q.mark(epoch, id, func(s *stored) { s.accepted = true })
}

func (q *queue) confirm(epoch uint64, id string) error {
	return q.mark(epoch, id, func(s *stored) { s.confirmed = true })
}

func (q *queue) mark(epoch uint64, id string, mark func(*stored)) error {
	if !q.owned(epoch) {
		return errFenced
	}
	s := q.known[id]
	if s == nil {
		return fmt.Errorf("%s was never stored: %w", id, errConflict)
	}
	mark(s)
	if s.accepted && s.confirmed && !s.compacted { // rule 71
		s.compacted, s.doneAt = true, q.now
		for i := range q.jobs {
			if q.jobs[i] == s {
				q.jobs = append(q.jobs[:i], q.jobs[i+1:]...)
				break
			}
		}
	}
	return nil
}

// payloads gives out those of stored jobs that are not compacted (B11).
func (q *queue) payloads(epoch uint64, ids []string) ([]core.Payload, error) {
	if !q.owned(epoch) {
		return nil, errFenced
	}
	out := make([]core.Payload, len(ids))
	for i, id := range ids {
		s := q.known[id]
		if s == nil || s.compacted {
			return nil, fmt.Errorf("the payload of %s, which is not stored: %w", id, errConflict)
		}
		out[i] = core.Payload{TypeURL: "job", Value: s.payload}
	}
	return out, nil
}

// save keeps what befell jobs, all of it or nothing (B3).
func (q *queue) save(epoch uint64, saves []core.SavedProgress) error {
	if !q.owned(epoch) {
		return errFenced
	}
	for i := range saves {
		if q.known[saves[i].ID] == nil {
			return fmt.Errorf("progress of %s, which was never stored: %w", saves[i].ID, errConflict)
		}
	}
	for i := range saves {
		if s := q.known[saves[i].ID]; !s.compacted {
			s.progress = saves[i].Progress
		}
	}
	return nil
}

// befall does one operation, or leaves it, as the fault wants it that strikes,
// and returns what the producer hears of it.
func (q *queue) befall(fate FaultKind, do func() error) error {
	switch fate {
	case OperationNotDone:
		return errUnavailable
	case OperationAnswerLost:
		if err := do(); err != nil {
			return err
		}
		return errUnavailable
	case Fence:
		q.load()
	case FenceUnseen:
		q.load()
		return errUnavailable
	case OperationConflict:
		return errConflict
	}
	return do()
}
