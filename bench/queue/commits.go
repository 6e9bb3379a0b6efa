package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/workpull/operator/workpull"
)

// wholeQueue is what the queues of the project offer.
type wholeQueue interface {
	workpull.BatchWorkQueue
	workpull.PagingWorkQueue
	workpull.AttemptWorkQueue
	workpull.DeduplicatingWorkQueue
	workpull.ConditionalWorkQueue
}

// commit is how much one commit held, and when it was over.
type commit struct {
	stores, accepts, confirms int
	took                      time.Duration
	ended                     time.Time
}

// watched is a queue of which every commit is noted.
type watched struct {
	wholeQueue

	mu      sync.Mutex
	commits []commit
}

// Commit implements workpull.BatchWorkQueue.
func (w *watched) Commit(ctx context.Context, epoch workpull.QueueEpoch, batch workpull.WorkBatch) ([]workpull.StoreResult, error) {
	begun := time.Now()
	results, err := w.wholeQueue.Commit(ctx, epoch, batch)
	if err == nil {
		now := time.Now()
		w.mu.Lock()
		w.commits = append(w.commits, commit{len(results), len(batch.Accepts()), len(batch.Confirms()), now.Sub(begun), now})
		w.mu.Unlock()
	}
	return results, err
}

// between are the commits that ended in a span of time.
func (w *watched) between(from, to time.Time) []commit {
	w.mu.Lock()
	defer w.mu.Unlock()
	var some []commit
	for _, c := range w.commits {
		if c.ended.After(from) && !c.ended.After(to) {
			some = append(some, c)
		}
	}
	return some
}

// describe tells what commits were like, and for what part of the time one was
// under way.
func describe(commits []commit, over time.Duration) string {
	if len(commits) == 0 {
		return "no commits"
	}
	var sum commit
	for _, c := range commits {
		sum.stores += c.stores
		sum.accepts += c.accepts
		sum.confirms += c.confirms
		sum.took += c.took
	}
	n := float64(len(commits))
	return fmt.Sprintf("%.0f commits a second, each of %.1f stores, %.1f accepts and %.1f confirmations on average and %.2f ms, under way for %.0f%% of the time",
		n/over.Seconds(), float64(sum.stores)/n, float64(sum.accepts)/n, float64(sum.confirms)/n,
		sum.took.Seconds()*1000/n, 100*sum.took.Seconds()/over.Seconds())
}

// fill stores and accepts jobs, as if a producer actor had submitted them and
// nobody had worked.
func fill(ctx context.Context, queue workpull.BatchWorkQueue, count int) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("fill the queue: %w", err)
		}
	}()
	_, epoch, err := queue.Load(ctx)
	if err != nil {
		return err
	}
	const most = 4096
	made := newJobs()
	for count > 0 {
		n := min(count, most)
		count -= n
		stores, accepts := make([]workpull.StoreRequest, n), make([]string, n)
		for i := range stores {
			if stores[i], err = made.request(); err != nil {
				return err
			}
			accepts[i] = stores[i].MessageID()
		}
		if _, err := queue.Commit(ctx, epoch, workpull.NewWorkBatch(stores, accepts, nil)); err != nil {
			return err
		}
	}
	return nil
}
