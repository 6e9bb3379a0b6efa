package workpull_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// B12: what is needed to decide who comes and who goes is told when it changes,
// and an inspection then shows it: the first job that waits, the first worker
// that is idle, what runs and what only lies at a worker.
func TestChangesAreToldAndSeen(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher()
	finish := make(chan struct{})
	producer := spawnProducer(t, system, d, workpull.WithReliableStoreAhead(10))
	changes := make(chan struct{}, 1)
	stop, err := workpull.Notify(producer, changes)
	require.NoError(t, err)
	// until the state is as wanted, look at it after each change only.
	until := func(what string, wanted func(workpull.Snapshot) bool) workpull.Snapshot {
		t.Helper()
		deadline := time.After(patience)
		for {
			if s := inspectProducer(t, producer); wanted(s) {
				return s
			}
			select {
			case <-changes:
			case <-deadline:
				t.Fatalf("no change was told that led to: %s; %+v", what, inspectProducer(t, producer))
			}
		}
	}
	for _, job := range []string{"a", "b"} {
		require.NoError(t, system.NoSender().Tell(context.Background(), producer, wrapperspb.String(job)))
	}
	until("a job waits", func(s workpull.Snapshot) bool { return s.Waiting > 0 })
	require.Eventually(t, func() bool { return inspectProducer(t, producer).Waiting == 2 }, patience, glance)

	before := time.Now()
	spawnWorker(t, system, "w1", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
		<-finish
		return true
	}})
	until("nothing waits", func(s workpull.Snapshot) bool { return s.Waiting == 0 })
	require.Eventually(t, func() bool { return inspectProducer(t, producer).Running == 1 }, patience, glance)
	s := inspectProducer(t, producer)
	require.Equal(t, 1, s.Buffered)
	require.Zero(t, s.OldestAge)
	require.True(t, s.Workers[0].Running)
	require.Equal(t, "a", s.Workers[0].RunningID)
	require.WithinRange(t, s.Workers[0].RunningSince, before, s.At)
	require.Zero(t, s.Workers[0].IdleSince)

	busy := time.Now()
	close(finish)
	s = until("the worker is idle", func(s workpull.Snapshot) bool { return s.InFlight == 0 && s.Confirmed == 2 })
	require.WithinRange(t, s.Workers[0].IdleSince, busy, s.At)
	require.False(t, s.Workers[0].Running)

	totals, err := workpull.Count(context.Background(), producer)
	require.NoError(t, err)
	require.Equal(t, workpull.Totals{Session: s.Session, Accepted: 2, Confirmed: 2}, totals)

	stop()
	for len(changes) > 0 {
		<-changes
	}
	require.NoError(t, system.NoSender().Tell(context.Background(), producer, wrapperspb.String("c")))
	require.Eventually(t, func() bool { return inspectProducer(t, producer).Confirmed == 3 }, patience, glance)
	require.Empty(t, changes)
}

func TestChangesOfWhatIsNoProducer(t *testing.T) {
	system := startSystem(t)
	pid := spawnWorker(t, system, "w1", &worker{})
	_, err := workpull.Notify(pid, make(chan struct{}, 1))
	require.ErrorIs(t, err, workpull.ErrNotEndpoint)
	_, err = workpull.Count(context.Background(), pid)
	require.ErrorIs(t, err, workpull.ErrNotEndpoint)
}
