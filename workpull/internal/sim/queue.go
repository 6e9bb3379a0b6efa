package sim

import (
	"errors"
	"fmt"
	"time"
)

// Errors of the model queue that are never tried again (rule 60).
var (
	errFenced   = errors.New("queue: the epoch is over")
	errConflict = errors.New("queue: the operation contradicts what is stored")
	// errUnavailable is any other error: nothing was done, or nobody knows.
	errUnavailable = errors.New("queue: unavailable")
)

// stored is a job in the model queue.
type stored struct {
	id                  string
	seq                 uint64
	payload             []byte
	accepted, confirmed bool
}

// queue is a durable work queue as rules 64 to 71 want it: it outlives every
// incarnation of the producer, and whoever loaded it last owns it.
type queue struct {
	epoch  uint64
	cursor uint64
	jobs   []*stored          // not compacted, in store order
	known  map[string]*stored // those, and the ones compacted in this epoch
}

func newQueue() *queue { return &queue{known: map[string]*stored{}} }

// load begins an epoch, which fences the older ones, and returns what is
// stored and not done, whether accepted or not (rules 65, 67, B1).
func (q *queue) load() (epoch, cursor uint64, jobs []stored) {
	q.epoch++
	clear(q.known)
	for _, s := range q.jobs {
		q.known[s.id] = s
		jobs = append(jobs, *s)
	}
	return q.epoch, q.cursor, jobs
}

// store appends a job under the next sequence, or returns the first write of
// its MessageID (rules 68, 69).
func (q *queue) store(epoch, seq uint64, id string, payload []byte) (first stored, already bool, err error) {
	if epoch == 0 || epoch != q.epoch {
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

// accept and confirm mark a job, as often as they are asked to (rule 70).
func (q *queue) accept(epoch uint64, id string) error {
	return q.mark(epoch, id, func(s *stored) { s.accepted = true })
}

func (q *queue) confirm(epoch uint64, id string) error {
	return q.mark(epoch, id, func(s *stored) { s.confirmed = true })
}

func (q *queue) mark(epoch uint64, id string, mark func(*stored)) error {
	if epoch == 0 || epoch != q.epoch {
		return errFenced
	}
	s := q.known[id]
	if s == nil {
		return fmt.Errorf("%s was never stored: %w", id, errConflict)
	}
	mark(s)
	if s.accepted && s.confirmed { // rule 71
		for i := range q.jobs {
			if q.jobs[i] == s {
				q.jobs = append(q.jobs[:i], q.jobs[i+1:]...)
				break
			}
		}
	}
	return nil
}

// mishap is what befalls an operation on the queue.
type mishap uint8

const (
	asAsked    mishap = iota
	notDone           // an error, and nothing was done
	lostAnswer        // an error, and it was done
	fenced            // another writer loaded the queue before it
	conflicting
	mishaps
)

// mishapRates are in ten thousands.
var mishapRates = [mishaps]uint64{notDone: 200, lostAnswer: 200, fenced: 10, conflicting: 5}

// operate does one operation as the dice have it, and tells what the producer
// hears of it and after how long.
func (q *queue) operate(d *dice, faulty bool, do func(*queue) error) (mishap, time.Duration, error) {
	after := d.between(100*time.Microsecond, 5*time.Millisecond)
	fate, x := asAsked, d.below(10_000)
	for m := notDone; faulty && m < mishaps; m++ {
		if x < mishapRates[m] {
			fate = m
			break
		}
		x -= mishapRates[m]
	}
	switch fate {
	case notDone:
		return fate, after, errUnavailable
	case lostAnswer:
		if err := do(q); err != nil {
			return fate, after, err
		}
		return fate, after + time.Second, errUnavailable
	case fenced:
		q.load()
	case conflicting:
		return fate, after, errConflict
	}
	return fate, after, do(q)
}
