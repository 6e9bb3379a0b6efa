package workpull_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/workpull"
)

// Whoever watches a queue hears of each attempt, and of the one that succeeded.
func TestEachAttemptOfAQueueIsTold(t *testing.T) {
	system := startSystem(t)
	q := newTroubled(t)
	missing := errors.New("the disk is not there")
	failures := 2
	q.set(func(string) error {
		if failures--; failures >= 0 {
			return missing
		}
		return nil
	})
	var mu sync.Mutex
	var told []error
	spawnProducer(t, system, newDispatcher("job"), durable(q, workpull.WithReliableQueueWatch(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}))...)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) >= 4
	}, patience, glance, "two loads that failed, one that did not, and a commit")
	mu.Lock()
	defer mu.Unlock()
	require.ErrorIs(t, told[0], missing)
	require.ErrorIs(t, told[1], missing)
	require.NoError(t, told[2])
	require.NoError(t, told[3])
}

func TestWatchAndMaxBackoffRefuse(t *testing.T) {
	system := startSystem(t)
	for name, options := range map[string][]workpull.ProducerOption{
		"nobody":           {workpull.WithReliableQueueWatch(nil)},
		"no time":          {workpull.WithReliableMaxBackoff(0)},
		"less than first":  {workpull.WithReliableRetryPolicy(2, time.Second), workpull.WithReliableMaxBackoff(time.Millisecond)},
		"negative backoff": {workpull.WithReliableMaxBackoff(-1)},
	} {
		_, err := workpull.Spawn(context.Background(), system, "dispatcher", newDispatcher(), workpull.AsReliableWorkPullingProducer(options...))
		var refused *workpull.OptionError
		require.ErrorAs(t, err, &refused, name)
	}
}

// The backoff doubles up to the longest: without that these attempts take some
// minutes.
func TestBackoffEndsAtItsMaximum(t *testing.T) {
	system := startSystem(t)
	pid := spawnProducer(t, system, newDispatcher("job"), workpull.WithReliableRetryPolicy(16, 20*time.Millisecond),
		workpull.WithReliableMaxBackoff(20*time.Millisecond))
	spawnWorker(t, system, "w", &reject{after: 16})
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Dead == 1 }, patience, glance)
}
