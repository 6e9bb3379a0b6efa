package pebble

import (
	"context"
	"fmt"
	"time"

	"github.com/workpull/operator/workpull"
)

// use returns the queue's store.
func (q *Queue) use(ctx context.Context) (*store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.dir == "" {
		return nil, ErrNoDirectory
	}
	q.mu.Lock()
	s, closed := q.store, q.closed
	q.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case s != nil:
		return s, nil
	}
	s, err := stores.acquire(ctx, q.dir, q.settings)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	kept := q.store
	if kept == nil && !q.closed {
		q.store, kept = s, s
	}
	q.mu.Unlock()
	if kept == s {
		return s, nil
	}
	// Another operation was faster, or a Close.
	if err := stores.release(s); err != nil {
		return nil, err
	}
	if kept == nil {
		return nil, ErrClosed
	}
	return kept, nil
}

// do runs an operation of the queue in its turn. What says what it was doing.
func do[T any](ctx context.Context, q *Queue, what string, operation func(s *store) (T, error)) (T, error) {
	s, err := q.use(ctx)
	var value T
	if err == nil {
		value, err = inTurn(ctx, s, func() (T, error) { return operation(s) })
	}
	if err != nil {
		return value, fmt.Errorf("%s queue in %s: %w", what, q.dir, err)
	}
	return value, nil
}

// none is the value of an operation that has none.
type none = struct{}

// Load implements workpull.DurableWorkQueue. Beyond DefaultPage bytes of
// payloads the jobs come without.
func (q *Queue) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	l, err := do(ctx, q, "load", func(s *store) (loaded, error) { return s.load(ctx, nil) })
	return l.state, l.epoch, err
}

// Reload implements workpull.ConditionalWorkQueue.
func (q *Queue) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	l, err := do(ctx, q, "reload", func(s *store) (loaded, error) { return s.load(ctx, &epoch) })
	return l.state, l.epoch, err
}

// Store implements workpull.DurableWorkQueue.
func (q *Queue) Store(ctx context.Context, epoch workpull.QueueEpoch, request workpull.StoreRequest) (workpull.StoreResult, error) {
	return do(ctx, q, "store in", func(s *store) (workpull.StoreResult, error) {
		results, err := s.commit(epoch, workpull.NewWorkBatch([]workpull.StoreRequest{request}, nil, nil), true)
		if err != nil {
			return workpull.StoreResult{}, err
		}
		return results[0], nil
	})
}

// Accept implements workpull.DurableWorkQueue.
func (q *Queue) Accept(ctx context.Context, epoch workpull.QueueEpoch, messageID string) error {
	_, err := q.commit(ctx, "accept in", epoch, workpull.NewWorkBatch(nil, []string{messageID}, nil))
	return err
}

// ConfirmMessage implements workpull.DurableWorkQueue.
func (q *Queue) ConfirmMessage(ctx context.Context, epoch workpull.QueueEpoch, messageID string) error {
	_, err := q.commit(ctx, "confirm in", epoch, workpull.NewWorkBatch(nil, nil, []string{messageID}))
	return err
}

// Commit implements workpull.BatchWorkQueue: one sync for all of it. Sequences
// that the requests propose are not looked at.
func (q *Queue) Commit(ctx context.Context, epoch workpull.QueueEpoch, batch workpull.WorkBatch) ([]workpull.StoreResult, error) {
	return q.commit(ctx, "commit to", epoch, batch)
}

func (q *Queue) commit(ctx context.Context, what string, epoch workpull.QueueEpoch, batch workpull.WorkBatch) ([]workpull.StoreResult, error) {
	return do(ctx, q, what, func(s *store) ([]workpull.StoreResult, error) { return s.commit(epoch, batch, false) })
}

// Payloads implements workpull.PagingWorkQueue. It waits for no other operation.
func (q *Queue) Payloads(ctx context.Context, epoch workpull.QueueEpoch, messageIDs []string) ([]workpull.ReliablePayload, error) {
	s, err := q.use(ctx)
	var payloads []workpull.ReliablePayload
	if err == nil && !s.live.known.Load() {
		_, err = inTurn(ctx, s, func() (none, error) { return none{}, s.learn() })
	}
	if err == nil {
		payloads, err = read(ctx, s, func() ([]workpull.ReliablePayload, error) { return s.payloads(epoch, messageIDs) })
	}
	if err != nil {
		return nil, fmt.Errorf("page queue in %s: %w", q.dir, err)
	}
	return payloads, nil
}

// SaveProgress implements workpull.AttemptWorkQueue.
func (q *Queue) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	_, err := do(ctx, q, "save progress in", func(s *store) (none, error) { return none{}, s.saveProgress(epoch, progress) })
	return err
}

// KeepCompleted implements workpull.DeduplicatingWorkQueue. What the window is
// over for is removed by later commits, a few hundred jobs each.
func (q *Queue) KeepCompleted(ctx context.Context, epoch workpull.QueueEpoch, window time.Duration) error {
	_, err := do(ctx, q, "set the window of", func(s *store) (none, error) { return none{}, s.keepCompleted(epoch, window) })
	return err
}

// Completed implements workpull.DeduplicatingWorkQueue. It waits for the commit
// that is on its way: what it tells is on the disk (B10).
func (q *Queue) Completed(ctx context.Context, messageID string) (workpull.CompletedMessage, bool, error) {
	f, err := do(ctx, q, "look into", func(s *store) (found, error) { return s.lookUp(messageID) })
	return f.message, f.ok, err
}
