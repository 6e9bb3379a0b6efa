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

// blockOn is a worker that holds the named job until released is closed.
func blockOn(l *ledger, job string, started chan<- struct{}, released <-chan struct{}) *worker {
	return &worker{ledger: l, handle: func(_ *actor.ReceiveContext, d *workpull.Delivery) bool {
		if d.MessageID() == job {
			started <- struct{}{}
			<-released
		}
		return true
	}}
}

// Jobs that are buffered behind a slow one are done by a worker that comes
// later and holds nothing, each once (B4, S30); on the same node and on others.
func TestBufferedJobsAreRecalledForAnIdleWorker(t *testing.T) {
	home, port := startRemote(t)
	d := newDispatcher(jobNames(10)...)
	pid := spawnProducer(t, home, d, workpull.WithReliableStoreAhead(10), workpull.WithReliableDeliveryConfirmation())
	for name, place := range map[string]func() (actor.ActorSystem, []workpull.WorkerOption){
		"local": func() (actor.ActorSystem, []workpull.WorkerOption) { return home, nil },
		"by address": func() (actor.ActorSystem, []workpull.WorkerOption) {
			system, _ := startRemote(t)
			return system, []workpull.WorkerOption{workpull.WithReliableRemoteProducer("127.0.0.1", port)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			started, released := make(chan struct{}, 1), make(chan struct{})
			before := d.confirmations()
			if before > 0 { // the second round has the same jobs under new names
				for _, job := range jobNames(10) {
					require.NoError(t, home.NoSender().Tell(context.Background(), pid, wrapperspb.String(name+job)))
				}
			}
			prefix := ""
			if before > 0 {
				prefix = name
			}
			system, options := place()
			slow := spawnWorker(t, system, "slow-"+name[:2], blockOn(l, prefix+"job-0", started, released), append(options, workpull.WithReliableFlowControlWindow(20))...)
			<-started
			require.Eventually(t, func() bool { return inspectProducer(t, pid).InFlight == 10 }, patience, glance, "all ten lie at the slow worker")
			system, options = place()
			quick := spawnWorker(t, system, "quick-"+name[:2], &worker{ledger: l}, options...)
			require.Eventually(t, func() bool { return d.confirmations() == before+9 }, patience, glance, "the nine behind it are done elsewhere")
			close(released)
			require.Eventually(t, func() bool { return d.confirmations() == before+10 }, patience, glance)
			for _, job := range jobNames(10) {
				require.Equal(t, 1, l.ran(prefix+job), job)
			}
			require.Zero(t, inspectProducer(t, pid).Requeued)
			require.NoError(t, slow.Shutdown(context.Background()))
			require.NoError(t, quick.Shutdown(context.Background()))
			require.Eventually(t, func() bool { return len(inspectProducer(t, pid).Workers) == 0 }, patience, glance)
		})
	}
}

// reject is a worker that rejects every job until it is told otherwise.
type reject struct{ after int }

func (*reject) PreStart(*actor.Context) error { return nil }
func (*reject) PostStop(*actor.Context) error { return nil }

func (r *reject) Receive(ctx *actor.ReceiveContext) {
	d, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	if r.after--; r.after < 0 {
		confirmed, err := workpull.NewConfirmed(d)
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), confirmed)
		return
	}
	rejected, err := workpull.NewRejected(d, "no such printer")
	if err != nil {
		panic(err)
	}
	ctx.Tell(ctx.Sender(), rejected)
}

// A job out of attempts is a dead letter with its history; it can be listed,
// explained, redriven and dropped (B3, B12).
func TestDeadLetters(t *testing.T) {
	ctx := context.Background()
	system := startSystem(t)
	events, err := workpull.Subscribe(ctx, system)
	require.NoError(t, err)
	d := newDispatcher("job-0")
	pid := spawnProducer(t, system, d, workpull.WithReliableRetryPolicy(2, time.Millisecond), workpull.WithReliableDeliveryConfirmation())
	spawnWorker(t, system, "w", &reject{after: 2})

	dead := <-events.DeadLetters()
	require.Equal(t, "dispatcher", dead.Endpoint())
	require.Equal(t, "job-0", dead.Job().MessageID)
	require.Len(t, dead.Job().History, 2)
	require.Equal(t, 2, dead.Job().Attempts)
	require.Equal(t, "no such printer", dead.Job().History[1].Reason)

	letters, err := workpull.DeadLetters(ctx, pid, 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, dead.Job(), letters[0])
	state, err := workpull.Explain(ctx, pid, "job-0")
	require.NoError(t, err)
	require.Equal(t, "dead", state.State)
	require.Len(t, state.History, 2)
	require.Equal(t, 1, inspectProducer(t, pid).Dead)

	require.ErrorIs(t, workpull.Redrive(ctx, pid, "nobody"), workpull.ErrNoDeadLetter)
	require.ErrorIs(t, workpull.Drop(ctx, pid, "nobody"), workpull.ErrNoDeadLetter)
	require.NoError(t, workpull.Redrive(ctx, pid, "job-0"))
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance, "the third attempt is confirmed")
	_, err = workpull.Explain(ctx, pid, "job-0")
	require.ErrorIs(t, err, workpull.ErrUnknownJob)

	_, err = workpull.DeadLetters(ctx, nil, 1)
	require.ErrorIs(t, err, workpull.ErrNotEndpoint)
}

// A dropped dead letter is gone for good (B3).
func TestDrop(t *testing.T) {
	ctx := context.Background()
	system := startSystem(t)
	pid := spawnProducer(t, system, newDispatcher("job-0"), workpull.WithReliableRetryPolicy(1, time.Millisecond))
	spawnWorker(t, system, "w", &reject{after: 1})
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Dead == 1 }, patience, glance)
	require.NoError(t, workpull.Drop(ctx, pid, "job-0"))
	require.Zero(t, inspectProducer(t, pid).Dead)
}

// A retired worker is given nothing until it is released; it is unknown, not
// empty, without a registration (B13).
func TestRetireAndRelease(t *testing.T) {
	ctx := context.Background()
	home, port := startRemote(t)
	d := newDispatcher()
	pid := spawnProducer(t, home, d, workpull.WithReliableStoreAhead(10), workpull.WithReliableDeliveryConfirmation())
	away, _ := startRemote(t)
	spawnWorker(t, away, "w", &worker{}, workpull.WithReliableRemoteProducer("127.0.0.1", port), workpull.WithReliableIdentity("pod-1"))
	require.Eventually(t, func() bool { return len(inspectProducer(t, pid).Workers) == 1 }, patience, glance)

	r, err := workpull.Retire(ctx, pid, "pod-2")
	require.NoError(t, err)
	require.False(t, r.Known)
	r, err = workpull.Retire(ctx, pid, "pod-1")
	require.NoError(t, err)
	require.True(t, r.Known)
	require.Zero(t, r.Held)
	require.NotZero(t, r.Session)

	require.NoError(t, home.NoSender().Tell(ctx, pid, wrapperspb.String("job-0")))
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Waiting == 1 }, patience, glance)
	require.True(t, inspectProducer(t, pid).Workers[0].Retired)
	require.Never(t, func() bool { return d.confirmations() > 0 }, 300*time.Millisecond, 20*time.Millisecond)
	require.NoError(t, workpull.Release(ctx, pid, "pod-1"))
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
}

// Packed dispatch keeps to the worker that was used last.
func TestPackedDispatchLetsWorkersIdle(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher()
	l := newLedger()
	pid := spawnProducer(t, system, d, workpull.WithReliablePackedDispatch(), workpull.WithReliableDeliveryConfirmation())
	for _, name := range []string{"w1", "w2", "w3", "w4"} {
		spawnWorker(t, system, name, &worker{ledger: l})
	}
	require.Eventually(t, func() bool {
		s := inspectProducer(t, pid)
		return len(s.Workers) == 4 && s.Workers[3].Demand > 0 && s.Workers[0].Demand > 0
	}, patience, glance)
	for i, job := range jobNames(20) {
		require.NoError(t, system.NoSender().Tell(context.Background(), pid, wrapperspb.String(job)))
		require.Eventually(t, func() bool {
			return d.confirmations() == i+1 && inspectProducer(t, pid).InFlight == 0
		}, patience, time.Millisecond)
	}
	used := 0
	for _, name := range []string{"w1", "w2", "w3", "w4"} {
		if l.count(name) > 0 {
			used++
		}
	}
	require.Equal(t, 1, used, "one worker does one job after the other")
}

// An attempt's token tells a later delivery of a job from an earlier one (B6).
func TestAttemptTokensRise(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher("job-0")
	spawnProducer(t, system, d, workpull.WithReliableRetryPolicy(5, time.Millisecond), workpull.WithReliableDeliveryConfirmation())
	tokens := make(chan uint64, 10)
	spawnWorker(t, system, "w", &worker{handle: func(ctx *actor.ReceiveContext, d *workpull.Delivery) bool {
		tokens <- d.AttemptToken()
		if d.Attempt() == 2 {
			return true
		}
		rejected, err := workpull.NewRejected(d, "again")
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), rejected)
		return false
	}})
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	first, second := <-tokens, <-tokens
	require.Greater(t, second, first)
}
