// Package queuetest is the suite that a durable work queue has to pass: rules
// 64 to 72 of the work-pulling pattern, one subtest or more for each. It tests
// any workpull.DurableWorkQueue, and Commit where it is a
// workpull.BatchWorkQueue:
//
//	func TestQueue(t *testing.T) {
//		queuetest.Run(t, func(t *testing.T) queuetest.Open {
//			dir := t.TempDir() // a fresh, empty store
//			return func(t *testing.T) workpull.DurableWorkQueue {
//				queue, err := myqueue.Open(dir) // a writer of it
//				if err != nil {
//					t.Fatal(err)
//				}
//				return queue
//			}
//		})
//	}
//
// What is random follows fixed seeds, but for the property tests, which print
// the seed and a minimised history when they fail; the flags -rapid.checks and
// -rapid.seed are theirs. Beyond the rules it wants that an operation whose
// context is over before it begins returns an error at once.
package queuetest

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/workpull/operator/workpull"
)

// Open returns one more writer of a store: a new queue, as another process or
// another node would have it. Writers opened before may still be in use. A
// queue that is an io.Closer is closed by the suite, once.
type Open func(t *testing.T) workpull.DurableWorkQueue

// Factory makes a fresh, empty store and returns how to open it. What belongs
// to the store is released with t.Cleanup; the suite makes some 240.
type Factory func(t *testing.T) Open

// patience is how long an operation may take before it counts as one that never
// returns: far more than any does on a machine that is busy.
const patience = time.Minute

// Run holds the queues of the factory to every rule, each in a subtest of its
// own.
func Run(t *testing.T, factory Factory) {
	for _, check := range []struct {
		name string
		test func(*store)
	}{
		{"rule 64 concurrent operations are linearizable", linearizable},
		{"rule 65 epochs ascend and fence", epochsFence},
		{"rule 65 only the latest of racing writers writes", racingWriters},
		{"rule 66 a failed load changes no ownership", failedLoad},
		{"rule 67 the state is in order", stateInOrder},
		{"rule 67 reload after every prefix", everyPrefix},
		{"rule 68 a new job proposes the next sequence", nextSequence},
		{"rule 69 a known job returns its first write", firstWrites},
		{"rule 70 marks are idempotent", idempotentMarks},
		{"rule 71 nothing is compacted too early", compaction},
		{"rule 72 the serialized queue holds no jobs", serialized},
		{"B1 jobs that are not accepted come back", unaccepted},
		{"B8 a batch is all or nothing", batchAtomic},
		{"B8 a batch goes in the order of its parts", batchOrder},
		{"B8 rule 68 a batch is given its sequences", batchSequences},
		{"B8 a batch is fenced", batchFenced},
		{"B3 progress is kept", progressKept},
		{"B3 progress is saved of all or none", progressAtomic},
		{"B3 progress of what is compacted changes nothing", progressOfCompacted},
		{"B3 progress is fenced", progressFenced},
		{"B3 a job that was dropped is known as that", droppedKnown},
		{"B9 a completed job is known over loads", completedKept},
		{"B9 a completed job that was dropped is known as that", completedDropped},
		{"B9 without a window the next load forgets", noWindow},
		{"B9 a short window forgets", shortWindow},
		{"B9 completion is told", completedTold},
		{"B9 the window is fenced", windowFenced},
		{"B11 payloads come in the order asked", payloadsAsked},
		{"B11 payloads of unknown jobs are a conflict", payloadsUnknown},
		{"B11 payloads are fenced", payloadsFenced},
		{"B11 a long backlog can be paged", longBacklog},
		{"B16 the owner loads again", ownerReloads},
		{"B16 nobody else loads again", othersDoNotReload},
		{"B16 only the latest of racing reloads writes", racingReloads},
		{"identifiers of any bytes", identifiers},
		{"large values", largeValues},
		{"contexts that are over", contextsOver},
		{"operations that are cut off can be tried again", cutOff},
		{"histories follow the model", histories},
	} {
		t.Run(check.name, func(t *testing.T) { check.test(newStore(t, factory)) })
	}
}

// store is one of the factory's, with the writers that are open.
type store struct {
	*testing.T
	factory Factory
	enter   Open
	closers map[workpull.DurableWorkQueue]io.Closer
}

func newStore(t *testing.T, factory Factory) *store {
	t.Helper()
	s := &store{T: t, factory: factory, enter: factory(t), closers: map[workpull.DurableWorkQueue]io.Closer{}}
	t.Cleanup(s.closeAll)
	return s
}

// another is a fresh store for the same subtest.
func (s *store) another() *store {
	s.Helper()
	return newStore(s.T, s.factory)
}

// open returns one more writer.
func (s *store) open() workpull.DurableWorkQueue {
	s.Helper()
	q := s.enter(s.T)
	s.keep(q)
	return q
}

// keep closes the queue in the end, if it can be closed.
func (s *store) keep(q workpull.DurableWorkQueue) {
	if c, ok := q.(io.Closer); ok {
		s.closers[q] = c
	}
}

// closeAll ends the writers, as the end of their processes would.
func (s *store) closeAll() {
	s.Helper()
	for q, c := range s.closers {
		delete(s.closers, q)
		if err := c.Close(); err != nil {
			s.Errorf("close: %v", err)
		}
	}
}

// begin opens the store and loads it.
func (s *store) begin() *history {
	s.Helper()
	h := &history{tb: s.T, queue: s.open()}
	h.load()
	return h
}

// needs skips the subtest for a queue that does not offer what it is about.
func (s *store) needs(offered bool, what string) {
	s.Helper()
	if !offered {
		s.Skipf("the queue does not offer %s", what)
	}
}

// batches skips the subtest for a queue that takes none.
func (s *store) batches(h *history) {
	s.Helper()
	s.needs(h.model.offers.batches, "batches")
}

// bounded is a context that ends what would never end.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}
