package sim

import (
	"errors"
	"testing"
)

// TestQueueModel: the model queue keeps the rules that a durable queue has to
// keep, so that what the simulation finds is the controller's doing (rules
// 65, 67-71).
func TestQueueModel(t *testing.T) {
	q := newQueue(0)
	if _, _, err := q.store(0, 1, "a", nil); !errors.Is(err, errFenced) {
		t.Errorf("store before any load: %v", err)
	}
	epoch, cursor, jobs := q.load()
	if epoch == 0 || cursor != 0 || len(jobs) != 0 { // rule 65
		t.Fatalf("a new queue loads as epoch %d, cursor %d, %d jobs", epoch, cursor, len(jobs))
	}
	for i, id := range []string{"a", "b", "c"} {
		if s, already, err := q.store(epoch, uint64(i+1), id, []byte(id)); err != nil || already || s.seq != uint64(i+1) {
			t.Fatalf("store %s: %+v, already %v: %v", id, s, already, err)
		}
	}
	if s, already, err := q.store(epoch, 9, "b", []byte("other")); err != nil || !already || s.seq != 2 || string(s.payload) != "b" { // rule 69
		t.Errorf("store b again: %+v, already %v: %v", s, already, err)
	}
	if _, _, err := q.store(epoch, 9, "d", nil); !errors.Is(err, errConflict) { // rule 68
		t.Errorf("store d as 9 after 3: %v", err)
	}
	for range 2 { // rule 70
		if err := errors.Join(q.confirm(epoch, "a"), q.accept(epoch, "a"), q.accept(epoch, "b")); err != nil {
			t.Errorf("mark a and b: %v", err)
		}
	}
	if err := q.confirm(epoch, "never"); !errors.Is(err, errConflict) { // rule 70
		t.Errorf("confirm what was never stored: %v", err)
	}
	later, cursor, jobs := q.load()
	if later <= epoch || cursor != 3 || len(jobs) != 2 || jobs[0].id != "b" || !jobs[0].accepted || jobs[1].id != "c" || jobs[1].accepted { // rules 67, 71
		t.Errorf("loaded as epoch %d after %d, cursor %d: %+v", later, epoch, cursor, jobs)
	}
	if _, _, err := q.store(epoch, 4, "d", nil); !errors.Is(err, errFenced) { // rule 65
		t.Errorf("store by an older epoch: %v", err)
	}
	if err := q.accept(epoch, "c"); !errors.Is(err, errFenced) {
		t.Errorf("accept by an older epoch: %v", err)
	}
}

// TestQueueFaults: each kind of fault does to the queue what its name says.
func TestQueueFaults(t *testing.T) {
	for fate, want := range map[FaultKind]struct {
		err    error
		stored bool
	}{
		Drop:             {nil, true}, // none of the queue's
		OperationNotDone: {errUnavailable, false}, OperationAnswerLost: {errUnavailable, true},
		Fence: {errFenced, false}, OperationConflict: {errConflict, false},
	} {
		q := newQueue(0)
		epoch, _, _ := q.load()
		err := q.befall(fate, func() error {
			_, _, err := q.store(epoch, 1, "a", nil)
			return err
		})
		if !errors.Is(err, want.err) || (q.known["a"] != nil) != want.stored {
			t.Errorf("%s: %v, stored: %v", fate, err, q.known["a"] != nil)
		}
	}
}
