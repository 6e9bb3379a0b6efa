package workpull_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// Faults that users of similar systems met, and the tests that show them absent
// here, with real actors and processes:
//
//	S27 a dead worker's job stays active    TestAKilledWorkerProcessLosesNothing (watch),
//	                                        TestAKilledWorkerProcessIsFoundByTheNextSend (refusal),
//	                                        TestTheLeaseEndsASilentWorker (lease)
//	S28 redelivery waits for a time-out     TestAJobIsRequeuedAtTheEndOfItsProcess
//	S29 a long job outlasts a time-out      TestALongJobOutlastsManyLeases, TestTheLeaseEndsASilentWorker
//	S30 jobs wait behind a busy worker      TestBufferedJobsAreRecalledForAnIdleWorker
//	S31 a job kills its workers for ever    TestAJobThatKillsItsWorkersIsADeadLetter
//	S32 a rescue overwrites a completion    TestTheFirstConfirmationWins
//	S36 a stop drops what has not started   TestDrain
//	S37 a stop ignores its time-out         TestADrainEndsWithItsTimeout
//	S39 dispatch to an unreachable worker   TestAFrozenWorkerProcessSlowsNobody

// workerOf returns what the producer knows of a worker endpoint.
func workerOf(t *testing.T, producer *actor.PID, endpoint string) (workpull.WorkerSnapshot, bool) {
	t.Helper()
	for _, w := range inspectProducer(t, producer).Workers {
		if w.Endpoint == endpoint {
			return w, true
		}
	}
	return workpull.WorkerSnapshot{}, false
}

func submit(t *testing.T, producer *actor.PID, jobs ...string) {
	t.Helper()
	for _, job := range jobs {
		require.NoError(t, actor.Tell(context.Background(), producer, wrapperspb.String(job)))
	}
}

// The end of a worker's process requeues its job; no time-out has to pass: the
// lease is an hour, and so are all others (S28).
func TestAJobIsRequeuedAtTheEndOfItsProcess(t *testing.T) {
	home, port := startRemote(t)
	d := newDispatcher("job-0")
	producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableLease(time.Hour),
		workpull.WithReliableRetryPolicy(10, time.Hour))
	victim := startProcess(t, "victim", port, time.Hour)
	require.Equal(t, "job-0", <-victim.starts)
	require.NoError(t, victim.cmd.Process.Kill())
	_ = victim.cmd.Wait()
	ended := time.Now()
	require.NoError(t, workpull.PeerLost(context.Background(), home, "127.0.0.1", victim.port))
	require.Eventually(t, func() bool { return inspectProducer(t, producer).Waiting == 1 }, patience, time.Millisecond)
	t.Logf("process ended → requeued: %v", time.Since(ended))
	spawnWorker(t, home, "survivor", &worker{})
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
}

// A job that runs for many leases is not given to anybody else: the controller
// of its worker gives signs of life, whatever the handler does (S29, B5).
func TestALongJobOutlastsManyLeases(t *testing.T) {
	const lease, leases = 500 * time.Millisecond, 5
	system := startSystem(t)
	d := newDispatcher("long")
	producer := spawnProducer(t, system, d, workpull.WithReliableLease(lease), workpull.WithReliableDeliveryConfirmation())
	l := newLedger()
	running, finish := make(chan struct{}, 10), make(chan struct{})
	spawnWorker(t, system, "busy", &worker{ledger: l, handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
		running <- struct{}{}
		<-finish
		return true
	}}, workpull.WithReliableResendInterval(time.Hour))
	<-running
	spawnWorker(t, system, "idle", &worker{ledger: l})
	require.Never(t, func() bool { return inspectProducer(t, producer).Requeued > 0 }, leases*lease, 20*time.Millisecond)
	close(finish)
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	require.Equal(t, 1, l.ran("long"))
	require.Equal(t, 1, l.count("busy"))
}

// A job that ends the process of each of its workers, as one does that takes
// more memory than there is, is charged an attempt for each, and put aside
// after the last (S31, B3).
func TestAJobThatKillsItsWorkersIsADeadLetter(t *testing.T) {
	const attempts = 3
	home, port := startRemote(t)
	ctx := context.Background()
	events, err := workpull.Subscribe(ctx, home)
	require.NoError(t, err)
	d := newDispatcher("poison")
	producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableLease(time.Hour),
		workpull.WithReliableRetryPolicy(attempts, time.Millisecond))
	for attempt := 1; attempt <= attempts; attempt++ {
		require.Zero(t, inspectProducer(t, producer).Dead)
		p := startProcess(t, fmt.Sprintf("victim-%d", attempt), port, time.Hour)
		require.Eventually(t, func() bool {
			s, err := workpull.Explain(ctx, producer, "poison")
			return err == nil && s.State == "running" && s.Attempt == attempt
		}, patience, glance)
		require.NoError(t, p.cmd.Process.Kill())
		_ = p.cmd.Wait()
		require.NoError(t, workpull.PeerLost(ctx, home, "127.0.0.1", p.port))
		require.Eventually(t, func() bool { return len(inspectProducer(t, producer).Workers) == 0 }, patience, glance)
	}
	letter := (<-events.DeadLetters()).Job()
	require.Equal(t, "poison", letter.MessageID)
	require.Equal(t, attempts, letter.Attempts)
	require.Len(t, letter.History, attempts)
	for i, failed := range letter.History {
		require.Contains(t, failed.Worker, fmt.Sprintf("victim-%d", i+1))
		require.Contains(t, failed.Reason, "while it ran")
	}
	spawnWorker(t, home, "survivor", &worker{})
	submit(t, producer, "innocent")
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	require.Equal(t, 1, inspectProducer(t, producer).Dead)
}

// A worker that is cut off loses its job to the lease and finishes it all the
// same. Whoever confirms first completes the job; the other confirmation
// changes nothing (S32, B6).
func TestTheFirstConfirmationWins(t *testing.T) {
	for name, survivorFirst := range map[string]bool{"the survivor's": true, "the late one's": false} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			home, port := startRemote(t)
			d := newDispatcher("job-0")
			producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableLease(500*time.Millisecond))
			frozen := startProcess(t, "frozen", port, 4*time.Second)
			require.Equal(t, "job-0", <-frozen.starts)
			require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGSTOP))
			w, bound := workerOf(t, producer, "frozen")
			require.True(t, bound)
			_, err := workpull.Retire(ctx, producer, w.Identity) // it does not get the job a second time
			require.NoError(t, err)
			require.Eventually(t, func() bool { return inspectProducer(t, producer).Waiting == 1 }, patience, glance, "the lease ends")
			l := newLedger()
			if survivorFirst {
				spawnWorker(t, home, "survivor", &worker{ledger: l})
				require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
			}
			require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGCONT))
			require.Eventually(t, func() bool { _, bound := workerOf(t, producer, "frozen"); return bound }, patience, glance)
			// It knows by now that it was cut off, unless the machine is so busy
			// that the job has ended before.
			knows := frozen.ended.Load() == 0
			require.Eventually(t, func() bool { return frozen.ended.Load() == 1 }, patience, glance)
			if !survivorFirst {
				if knows {
					require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance, "the late confirmation completes it")
				}
				spawnWorker(t, home, "survivor", &worker{ledger: l})
			}
			submit(t, producer, "job-1") // by the survivor, after all that came before
			require.Eventually(t, func() bool { return d.confirmations() == 2 }, patience, glance)
			d.mu.Lock()
			defer d.mu.Unlock()
			require.Equal(t, map[string]int{"job-0": 1, "job-1": 1}, d.confirmed)
			if !survivorFirst && knows {
				require.Zero(t, l.ran("job-0"))
			}
			require.Empty(t, frozen.starts, "it was not given the job again")
		})
	}
}

// A drain that is not done when its time is over says so; the worker may be
// stopped then, and what it ran goes to others (S37, B13).
func TestADrainEndsWithItsTimeout(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher("long")
	spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	running, release := make(chan struct{}, 10), make(chan struct{})
	defer close(release)
	busy := spawnWorker(t, system, "busy", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
		running <- struct{}{}
		<-release
		return true
	}})
	<-running
	timeout, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := workpull.Drain(timeout, busy)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond, "not before")
	t.Logf("a drain of 50 ms ended after %v", time.Since(began))
	l := newLedger()
	spawnWorker(t, system, "survivor", &worker{ledger: l})
	require.Zero(t, l.distinct(), "its job is still its own")
	require.NoError(t, busy.Shutdown(context.Background()))
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	require.Equal(t, 1, l.count("survivor"))
}
