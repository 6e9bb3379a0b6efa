package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/queue/queuetest"
	"github.com/workpull/operator/workpull"
)

// TestQueue: the memory queue is one as the contract wants it (rules 64-72), and
// offers all that a queue may.
func TestQueue(t *testing.T) {
	var stores atomic.Int64
	queuetest.Run(t, func(t *testing.T) queuetest.Open {
		name := fmt.Sprintf("%s %d", t.Name(), stores.Add(1))
		t.Cleanup(func() { memory.Drop(name) })
		return func(*testing.T) workpull.DurableWorkQueue { return memory.New(name) }
	})
}

// TestStores: a store is found by its name, and by no other; a dropped one is
// gone with its jobs and its epochs.
func TestStores(t *testing.T) {
	ctx := t.Context()
	t.Cleanup(func() { memory.Drop("one"); memory.Drop("two") })
	one, two := memory.New("one"), memory.New("two")
	payload, err := workpull.NewReliablePayload("type.test/job", nil)
	if err != nil {
		t.Fatal(err)
	}
	request, err := workpull.NewStoreRequest("job", 1, payload)
	if err != nil {
		t.Fatal(err)
	}
	epoch := holds(t, one, 0)
	if _, err := one.Store(ctx, epoch, request); err != nil {
		t.Fatal(err)
	}
	holds(t, two, 0)
	holds(t, memory.New("one"), 1)
	if one.ID() == two.ID() || one.ID() != memory.New("one").ID() {
		t.Errorf("IDs %s, %s, and %s of another writer", one.ID(), two.ID(), memory.New("one").ID())
	}
	memory.Drop("one")
	holds(t, one, 0)
}

func holds(t *testing.T, q *memory.Queue, jobs int) workpull.QueueEpoch {
	t.Helper()
	state, epoch, err := q.Load(t.Context())
	if err != nil || state.Len() != jobs {
		t.Fatalf("loaded %d jobs: %v, wanted %d", state.Len(), err, jobs)
	}
	return epoch
}

// TestRefusals: a queue without a name, bytes that are no queue and requests
// without content are refused.
func TestRefusals(t *testing.T) {
	ctx := context.Background()
	nameless := memory.New("")
	if _, _, err := nameless.Load(ctx); !errors.Is(err, memory.ErrNoName) {
		t.Errorf("load without a name: %v", err)
	}
	if _, err := nameless.MarshalBinary(); !errors.Is(err, memory.ErrNoName) {
		t.Errorf("marshal without a name: %v", err)
	}
	q := memory.New("refusals")
	t.Cleanup(func() { memory.Drop("refusals") })
	data, err := q.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{nil, data[:len(data)-len("refusals")], data[1:], []byte("refusals")} {
		if err := q.UnmarshalBinary(bad); !errors.Is(err, memory.ErrNotMemory) {
			t.Errorf("unmarshal %q: %v", bad, err)
		}
	}
	epoch := holds(t, q, 0) // it is still the one of its name
	if _, err := q.Store(ctx, epoch, workpull.StoreRequest{}); !errors.Is(err, workpull.ErrQueueConflict) {
		t.Errorf("store of the zero request: %v", err)
	}
	if _, err := q.Commit(ctx, epoch, workpull.NewWorkBatch([]workpull.StoreRequest{{}}, nil, nil)); !errors.Is(err, workpull.ErrQueueConflict) {
		t.Errorf("commit of the zero request: %v", err)
	}
	holds(t, memory.New("refusals"), 0)
}

// TestWindow: a completed job is known until its window is over by the queue's
// clock, from whenever it became both accepted and confirmed: sooner by as much
// as the clock jumps forward, later by as much as it jumps back (B9).
func TestWindow(t *testing.T) {
	ctx, name := t.Context(), t.Name()
	t.Cleanup(func() { memory.Drop(name) })
	q := memory.New(name)
	start := time.Date(2031, 7, 14, 12, 0, 0, 0, time.UTC)
	now := start
	memory.SetClock(name, func() time.Time { return now })
	epoch := holds(t, q, 0)
	payload, err := workpull.NewReliablePayload("type.test/job", []byte("job"))
	if err != nil {
		t.Fatal(err)
	}
	store := func(sequence uint64, already bool) {
		t.Helper()
		request, err := workpull.NewStoreRequest("job", sequence, payload)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := q.Store(ctx, epoch, request); err != nil || r.AlreadyStored() != already {
			t.Fatalf("store: already %t: %v, wanted %t", r.AlreadyStored(), err, already)
		}
	}
	if err := q.KeepCompleted(ctx, epoch, time.Hour); err != nil {
		t.Fatal(err)
	}
	store(1, false)
	if err := q.ConfirmMessage(ctx, epoch, "job"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(30 * time.Minute) // the window begins with the accept
	if err := q.Accept(ctx, epoch, "job"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		at    time.Duration // after the start
		known bool
	}{
		{30 * time.Minute, true},
		{90*time.Minute - 1, true},
		{-24 * time.Hour, true}, // a jump back
		{89 * time.Minute, true},
		{90 * time.Minute, false},
		{89 * time.Minute, false}, // it was forgotten
	} {
		now = start.Add(step.at)
		epoch = holds(t, q, 0)
		m, known, err := q.Completed(ctx, "job")
		if err != nil || known != step.known || known && !m.Time().Equal(start) {
			t.Fatalf("%s after the start: known %t, confirmed at %s: %v, wanted %t", step.at, known, m.Time(), err, step.known)
		}
		if step.known {
			store(0, true)
		}
	}
	store(2, false)
	// In the epoch of its completion it is known whatever the clock says (rule
	// 70), in a later one until the window is over, load or no load.
	for _, mark := range []func(context.Context, workpull.QueueEpoch, string) error{q.Accept, q.ConfirmMessage} {
		if err := mark(ctx, epoch, "job"); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(48 * time.Hour)
	store(0, true)
	now = now.Add(-48 * time.Hour)
	epoch = holds(t, q, 0)
	store(0, true)
	now = now.Add(time.Hour)
	store(3, false)
	holds(t, q, 1)
}
