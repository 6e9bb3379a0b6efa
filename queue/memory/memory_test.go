package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/queue/queuetest"
	"github.com/workpull/operator/workpull"
)

// TestQueue: the memory queue is one as the contract wants it (rules 64-72, B1,
// B8).
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
