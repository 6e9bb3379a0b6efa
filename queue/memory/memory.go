// Package memory keeps a durable work queue in the memory of the process, for
// tests and examples. What it stores outlives controllers, endpoints and actor
// systems, and dies with the process.
//
// A store has a name. All queues of one name in one process are writers of one
// store, also those that were made of another's MarshalBinary, so that a
// restart or a relocation between two systems of one process can be tried:
//
//	queue := memory.New("jobs")
//	defer memory.Drop("jobs")
//	dispatcher, err := workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{},
//		workpull.AsReliableWorkPullingProducer(
//			workpull.WithReliableDurableWorkQueue(queue)))
//
// It offers all that a queue may: batches, paging, attempts, deduplication and
// conditional reload. The identities of what is compacted are kept until the
// next Load, or for as long as the window of KeepCompleted wants: a queue for
// production has to do better than to keep all of them in memory.
package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/workpull/operator/workpull"
)

// Errors of this package.
var (
	// ErrNoName: the queue has no name, as the zero value has none, so that
	// there is no store that it belongs to.
	ErrNoName = errors.New("memory queue has no name")
	// ErrNotMemory: the bytes are not what MarshalBinary of a Queue returned.
	ErrNotMemory = errors.New("not a memory queue")
)

// magic begins the serialized form; the name follows.
const magic = "workpull memory queue 1\n"

// Queue is a writer of a store. It holds nothing but the store's name. It is
// safe for concurrent use, but for UnmarshalBinary.
type Queue struct{ name string }

// New returns a writer of the store of that name, which is made, empty, when it
// is first used. An empty name is refused with ErrNoName by whatever is done
// with the queue.
func New(name string) *Queue { return &Queue{name} }

// Drop forgets the store of that name and all jobs in it. A queue that is used
// afterwards finds a new, empty store.
func Drop(name string) {
	stores.Lock()
	defer stores.Unlock()
	delete(stores.named, name)
}

// ID names the queue among its endpoint's dependencies: "memory-" and a digest
// of the store's name, which may hold what an ID may not.
func (q *Queue) ID() string {
	digest := sha256.Sum256([]byte(q.name))
	return fmt.Sprintf("memory-%x", digest[:12])
}

// MarshalBinary returns the store's name, and nothing of what is stored (rule
// 72).
func (q *Queue) MarshalBinary() ([]byte, error) {
	if q.name == "" {
		return nil, ErrNoName
	}
	return []byte(magic + q.name), nil
}

// UnmarshalBinary makes q a writer of the store that the bytes name. The error
// is ErrNotMemory for any other bytes, and q stays what it was.
func (q *Queue) UnmarshalBinary(data []byte) error {
	name, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(name) == 0 {
		return fmt.Errorf("read %d bytes: %w", len(data), ErrNotMemory)
	}
	q.name = string(name)
	return nil
}

// Load implements workpull.DurableWorkQueue.
func (q *Queue) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	s, err := q.lock(ctx)
	if err != nil {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, fmt.Errorf("load queue %q: %w", q.name, err)
	}
	defer s.Unlock()
	return s.load()
}

// Store implements workpull.DurableWorkQueue.
func (q *Queue) Store(ctx context.Context, epoch workpull.QueueEpoch, request workpull.StoreRequest) (workpull.StoreResult, error) {
	results, err := q.commit(ctx, epoch, workpull.NewWorkBatch([]workpull.StoreRequest{request}, nil, nil), true)
	if err != nil {
		return workpull.StoreResult{}, fmt.Errorf("store in queue %q: %w", q.name, err)
	}
	return results[0], nil
}

// Accept implements workpull.DurableWorkQueue.
func (q *Queue) Accept(ctx context.Context, epoch workpull.QueueEpoch, messageID string) error {
	if _, err := q.commit(ctx, epoch, workpull.NewWorkBatch(nil, []string{messageID}, nil), false); err != nil {
		return fmt.Errorf("accept in queue %q: %w", q.name, err)
	}
	return nil
}

// ConfirmMessage implements workpull.DurableWorkQueue.
func (q *Queue) ConfirmMessage(ctx context.Context, epoch workpull.QueueEpoch, messageID string) error {
	if _, err := q.commit(ctx, epoch, workpull.NewWorkBatch(nil, nil, []string{messageID}), false); err != nil {
		return fmt.Errorf("confirm in queue %q: %w", q.name, err)
	}
	return nil
}

func (q *Queue) commit(ctx context.Context, epoch workpull.QueueEpoch, batch workpull.WorkBatch, proposed bool) ([]workpull.StoreResult, error) {
	s, err := q.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Unlock()
	return s.commit(epoch, batch, proposed)
}

// lock returns the store of the queue's name, locked. Nobody holds that lock
// for longer than an operation, which waits for nothing.
func (q *Queue) lock(ctx context.Context) (*store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.name == "" {
		return nil, ErrNoName
	}
	s := find(q.name)
	s.Lock()
	return s, nil
}
