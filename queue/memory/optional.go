package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/workpull/operator/workpull"
)

var (
	_ workpull.BatchWorkQueue         = (*Queue)(nil)
	_ workpull.PagingWorkQueue        = (*Queue)(nil)
	_ workpull.AttemptWorkQueue       = (*Queue)(nil)
	_ workpull.DeduplicatingWorkQueue = (*Queue)(nil)
	_ workpull.ConditionalWorkQueue   = (*Queue)(nil)
)

// SetClock sets the wall clock of the store of that name, for tests of the
// window of KeepCompleted. Now is called with the store locked.
func SetClock(name string, now func() time.Time) {
	s := find(name)
	s.Lock()
	defer s.Unlock()
	s.now = now
}

// Commit implements workpull.BatchWorkQueue. Sequences that the requests
// propose are not looked at.
func (q *Queue) Commit(ctx context.Context, epoch workpull.QueueEpoch, batch workpull.WorkBatch) ([]workpull.StoreResult, error) {
	results, err := q.commit(ctx, epoch, batch, false)
	if err != nil {
		return nil, fmt.Errorf("commit to queue %q: %w", q.name, err)
	}
	return results, nil
}

// Payloads implements workpull.PagingWorkQueue.
func (q *Queue) Payloads(ctx context.Context, epoch workpull.QueueEpoch, messageIDs []string) ([]workpull.ReliablePayload, error) {
	s, err := q.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("read payloads from queue %q: %w", q.name, err)
	}
	defer s.Unlock()
	payloads, err := s.payloads(epoch, messageIDs)
	if err != nil {
		return nil, fmt.Errorf("read payloads from queue %q: %w", q.name, err)
	}
	return payloads, nil
}

func (s *store) payloads(epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	if err := s.owns(epoch); err != nil {
		return nil, err
	}
	payloads := make([]workpull.ReliablePayload, len(ids))
	for i, id := range ids {
		j := s.known(id)
		if j == nil || j.compacted() {
			return nil, fmt.Errorf("job %q is not stored: %w", id, workpull.ErrQueueConflict)
		}
		payloads[i] = j.payload
	}
	return payloads, nil
}

// SaveProgress implements workpull.AttemptWorkQueue.
func (q *Queue) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	s, err := q.lock(ctx)
	if err != nil {
		return fmt.Errorf("save progress in queue %q: %w", q.name, err)
	}
	defer s.Unlock()
	if err := s.saveProgress(epoch, progress); err != nil {
		return fmt.Errorf("save progress in queue %q: %w", q.name, err)
	}
	return nil
}

func (s *store) saveProgress(epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	if err := s.owns(epoch); err != nil {
		return err
	}
	for _, p := range progress {
		if s.known(p.MessageID()) == nil {
			return fmt.Errorf("job %q was never stored: %w", p.MessageID(), workpull.ErrQueueConflict)
		}
	}
	for _, p := range progress {
		if j := s.jobs[p.MessageID()]; !j.compacted() {
			j.progress, j.dropped = &p, p.Fate() == workpull.FateDropped
		}
	}
	return nil
}

// KeepCompleted implements workpull.DeduplicatingWorkQueue. What is over the
// window is forgotten by the next Load, or when it is asked for.
func (q *Queue) KeepCompleted(ctx context.Context, epoch workpull.QueueEpoch, window time.Duration) error {
	s, err := q.lock(ctx)
	if err != nil {
		return fmt.Errorf("set the window of queue %q: %w", q.name, err)
	}
	defer s.Unlock()
	if err := s.owns(epoch); err != nil {
		return fmt.Errorf("set the window of queue %q: %w", q.name, err)
	}
	s.window = window
	return nil
}

// Completed implements workpull.DeduplicatingWorkQueue.
func (q *Queue) Completed(ctx context.Context, messageID string) (workpull.CompletedMessage, bool, error) {
	s, err := q.lock(ctx)
	if err != nil {
		return workpull.CompletedMessage{}, false, fmt.Errorf("look for a job in queue %q: %w", q.name, err)
	}
	defer s.Unlock()
	j := s.known(messageID)
	if j == nil || !j.confirmed {
		return workpull.CompletedMessage{}, false, nil
	}
	m, err := workpull.NewCompletedMessage(j.sequence, j.confirmedAt, j.dropped)
	return m, err == nil, err
}

// Reload implements workpull.ConditionalWorkQueue.
func (q *Queue) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	s, err := q.lock(ctx)
	if err == nil {
		defer s.Unlock()
		err = s.owns(epoch)
	}
	if err != nil {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, fmt.Errorf("reload queue %q: %w", q.name, err)
	}
	return s.load()
}
