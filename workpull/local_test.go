package workpull_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/workpull"
)

// One system, one producer, three workers: every job runs once and is
// confirmed (rules 3, 42, 44, 52).
func TestLocalJobsAreDoneOnceAndSpread(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher(jobNames(300)...)
	l := newLedger()
	var all sync.WaitGroup // nobody goes on before everybody has a job
	all.Add(3)
	for _, name := range []string{"w1", "w2", "w3"} {
		var first sync.Once
		spawnWorker(t, system, name, &worker{ledger: l, handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
			first.Do(func() { all.Done(); all.Wait() })
			return true
		}}, workpull.WithReliableFlowControlWindow(10))
	}
	producer := spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	require.Eventually(t, func() bool { return d.confirmations() == 300 }, patience, glance)
	for _, job := range jobNames(300) {
		require.Equal(t, 1, l.ran(job), job)
	}
	for _, name := range []string{"w1", "w2", "w3"} {
		require.Positive(t, l.count(name), "rule 42: no worker is left out")
	}
	s := inspectProducer(t, producer)
	require.EqualValues(t, 300, s.Confirmed)
	require.EqualValues(t, 300, s.Accepted)
	require.Zero(t, s.Requeued)
	require.Len(t, s.Workers, 3)
}
