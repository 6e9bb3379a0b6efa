package workpull_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/workpull"
)

// again stops the producer and spawns it anew, as its successor would be.
func again(t *testing.T, pid *actor.PID, d actor.Actor, options ...workpull.ProducerOption) *actor.PID {
	t.Helper()
	system := pid.ActorSystem()
	require.NoError(t, pid.Shutdown(context.Background()))
	return spawnProducer(t, system, d, options...)
}

// Attempts, the backoff that is under way and dead letters outlive their
// controller; without a queue that keeps them every job begins anew (B3).
func TestAttemptsOutliveTheirController(t *testing.T) {
	ctx := context.Background()
	system := startSystem(t)
	q := newQueue(t)
	options := durable(q, workpull.WithReliableRetryPolicy(2, time.Hour))
	pid := spawnProducer(t, system, newDispatcher("late"), options...)
	first := spawnWorker(t, system, "w", &reject{after: 1})
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Delayed == 1 }, patience, glance)
	before, err := workpull.Explain(ctx, pid, "late")
	require.NoError(t, err)
	require.NoError(t, first.Shutdown(ctx))
	saved(t, q, "late", func(p workpull.JobProgress) bool { return p.Counts().Attempt == 2 && !p.RetryAt().IsZero() })

	pid = again(t, pid, newDispatcher(), options...)
	after, err := workpull.Explain(ctx, pid, "late")
	require.NoError(t, err)
	require.Equal(t, "delayed", after.State)
	require.Equal(t, 2, after.Attempt)
	require.Len(t, after.History, 1)
	require.Equal(t, "no such printer", after.History[0].Reason)
	require.WithinDuration(t, before.History[0].Time, after.History[0].Time, time.Millisecond)
	require.WithinDuration(t, before.Due, after.Due, time.Second, "the backoff goes on where it was")

	plainly := durable(&plain{q}, workpull.WithReliableRetryPolicy(2, time.Hour))
	pid = again(t, pid, newDispatcher(), plainly...)
	forgotten, err := workpull.Explain(ctx, pid, "late")
	require.NoError(t, err)
	require.Equal(t, "waiting", forgotten.State)
	require.Equal(t, 1, forgotten.Attempt)
}

// saved waits until a queue keeps a progress of the job that is as it should be.
// It fences whoever used the queue.
func saved(t *testing.T, q *memory.Queue, id string, is func(workpull.JobProgress) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		state, _, err := q.Load(context.Background())
		require.NoError(t, err)
		for _, m := range state.Messages() {
			if p, ok := m.Progress(); ok && m.MessageID() == id && is(p) {
				return true
			}
		}
		return false
	}, patience, glance)
}

// A dead letter can be listed, read, redriven and dropped after a restart (B3).
func TestDeadLettersOutliveTheirController(t *testing.T) {
	ctx := context.Background()
	system := startSystem(t)
	events, err := workpull.Subscribe(ctx, system)
	require.NoError(t, err)
	defer events.Close()
	options := durable(newQueue(t), workpull.WithReliableRetryPolicy(1, time.Millisecond), workpull.WithReliableDeduplicationWindow(time.Hour))
	pid := spawnProducer(t, system, newDispatcher("a", "b"), options...)
	w := spawnWorker(t, system, "w", &reject{after: 2})
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Dead == 2 }, patience, glance)
	<-events.DeadLetters()
	<-events.DeadLetters()
	require.NoError(t, w.Shutdown(ctx))
	settled(t, pid)

	d := newDispatcher()
	pid = again(t, pid, d, options...)
	letters, err := workpull.DeadLetters(ctx, pid, 10)
	require.NoError(t, err)
	require.Len(t, letters, 2)
	require.Equal(t, "a", letters[0].MessageID)
	require.Equal(t, 1, letters[0].Attempts)
	require.Equal(t, "no such printer", letters[0].History[0].Reason)
	require.NotEmpty(t, letters[0].TypeURL)
	require.Contains(t, string(letters[0].Payload), "a")
	histories, err := workpull.DeadLetterHistories(ctx, pid, 1)
	require.NoError(t, err)
	require.Len(t, histories, 1)
	require.Equal(t, letters[0].History, histories[0].History)
	require.NoError(t, workpull.Drop(ctx, pid, "a"))
	require.NoError(t, workpull.Redrive(ctx, pid, "b"))
	settled(t, pid)

	d = newDispatcher("a")
	pid = again(t, pid, d, options...)
	letters, err = workpull.DeadLetters(ctx, pid, 10)
	require.NoError(t, err)
	require.Empty(t, letters)
	l := newLedger()
	spawnWorker(t, system, "w2", &worker{ledger: l})
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	settled(t, pid)
	require.Equal(t, 1, l.ran("b"))
	require.Zero(t, l.ran("a"), "it was given up, and is known")
	require.Zero(t, d.confirmed["a"], "nobody is told that it was done")
}

// settled waits until a controller has told its queue all that there is to tell.
func settled(t *testing.T, pid *actor.PID) {
	t.Helper()
	require.Eventually(t, func() bool {
		ok, err := workpull.QueueSettled(context.Background(), pid)
		require.NoError(t, err)
		return ok
	}, patience, glance)
}

// A MessageID is known for the window after its job was done: across restarts
// with a queue that remembers, and for the life of the controller without one
// (B9, S35).
func TestDeduplicationWindow(t *testing.T) {
	for name, test := range map[string]struct {
		queue    func(*memory.Queue) workpull.DurableWorkQueue
		survives bool
	}{
		"a queue that remembers": {func(q *memory.Queue) workpull.DurableWorkQueue { return q }, true},
		"a plain queue":          {func(q *memory.Queue) workpull.DurableWorkQueue { return &plain{q} }, false},
		"no queue":               {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			system := startSystem(t)
			options := []workpull.ProducerOption{
				workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableStoreAhead(20), workpull.WithReliableDeduplicationWindow(time.Hour),
			}
			if test.queue != nil {
				options = append(options, workpull.WithReliableDurableWorkQueue(test.queue(newQueue(t))))
			}
			l := newLedger()
			spawnWorker(t, system, "w", &worker{ledger: l}, workpull.WithReliableResendInterval(10*time.Millisecond))
			d := newDispatcher("once")
			pid := spawnProducer(t, system, d, options...)
			told := func(times int) {
				t.Helper()
				require.Eventually(t, func() bool {
					d.mu.Lock()
					defer d.mu.Unlock()
					return d.confirmed["once"] == times
				}, patience, glance)
			}
			told(1)
			require.NoError(t, system.NoSender().Tell(context.Background(), pid, wrapperspb.String("once")))
			told(2)
			require.Equal(t, 1, l.ran("once"))

			d = newDispatcher("once")
			again(t, pid, d, options...)
			told(1)
			if test.survives {
				require.Equal(t, 1, l.ran("once"))
			} else if test.queue == nil {
				require.Equal(t, 2, l.ran("once"), "nobody knows it any more")
			}
		})
	}
}

// counting counts what it is asked for.
type counting struct {
	*memory.Queue
	payloads atomic.Int64
}

func (q *counting) Payloads(ctx context.Context, epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	q.payloads.Add(int64(len(ids)))
	return q.Queue.Payloads(ctx, epoch, ids)
}

// The payloads of a long backlog stay in the queue, and every job has its own
// when it is given out, in order; a plain queue's are held in memory (B11).
func TestPayloadsOfALongBacklogStayInTheQueue(t *testing.T) {
	const jobs = 6000
	system := startSystem(t)
	q := &counting{Queue: newQueue(t)}
	options := durable(q, workpull.WithReliableStoreAhead(jobs), workpull.WithReliableCredits(64))
	names := make([]string, jobs)
	for i, name := range jobNames(jobs) {
		names[i] = name + strings.Repeat("x", 2000)
	}
	d := &bulk{jobs: names}
	pid := spawnProducer(t, system, d, options...)
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Waiting == jobs }, patience, glance)
	require.Zero(t, q.payloads.Load(), "nobody took a job yet")

	var mu sync.Mutex
	var order []string
	w := &worker{handle: func(_ *actor.ReceiveContext, d *workpull.Delivery) bool {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, d.MessageID())
		return true
	}}
	spawnWorker(t, system, "w", w)
	require.Eventually(t, func() bool { return d.confirmed.Load() == jobs }, patience, glance)
	require.Equal(t, names, order)
	require.Greater(t, q.payloads.Load(), int64(jobs/4), "some were read again")
	require.Zero(t, leftIn(t, q.Queue))
}

// bulk answers every credit at once.
type bulk struct {
	jobs      []string
	confirmed atomic.Int64
}

func (*bulk) PreStart(*actor.Context) error { return nil }
func (*bulk) PostStop(*actor.Context) error { return nil }

func (b *bulk) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		if int(m.Token()) > len(b.jobs) {
			return
		}
		job := b.jobs[m.Token()-1]
		produced, err := workpull.NewProduced(m, job, wrapperspb.String(job))
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), produced)
	case *workpull.Stored:
		ack, err := workpull.NewStoredAck(m)
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), ack)
	case *workpull.DeliveryConfirmed:
		b.confirmed.Add(1)
	}
}

// miserly is a queue that pages without giving out payloads.
type miserly struct{ workpull.DurableWorkQueue }

func (q *miserly) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	_, epoch, err := q.DurableWorkQueue.Load(ctx)
	if err != nil {
		return workpull.WorkQueueState{}, epoch, err
	}
	m, err := workpull.NewPagedMessage("a", 1, true)
	if err != nil {
		return workpull.WorkQueueState{}, epoch, err
	}
	state, err := workpull.NewWorkQueueState(1, []workpull.UnconfirmedMessage{m})
	return state, epoch, err
}

// A payload that is left with a queue which gives out none is a conflict, not a
// job that never runs (rule 67, B11).
func TestPayloadsThatNobodyGivesOutAreRefused(t *testing.T) {
	_, err := workpull.Spawn(context.Background(), startSystem(t), "dispatcher", newDispatcher(),
		workpull.AsReliableWorkPullingProducer(durable(&miserly{newQueue(t)})...))
	require.ErrorIs(t, err, workpull.ErrQueueConflict)
}

// An attempt that runs goes on under the next controller: the job runs once, and
// nothing else waits for it. Without the option, or with a worker that is gone,
// the job may be given out again (B15).
func TestARestartDoesNotRunAgainWhatIsRunning(t *testing.T) {
	for name, test := range map[string]struct {
		settle time.Duration
		dies   bool
	}{
		"adopted":            {time.Hour, false},
		"without adoption":   {0, false},
		"its worker is gone": {500 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			system := startSystem(t)
			options := durable(newQueue(t))
			if test.settle > 0 {
				options = append(options, workpull.WithReliableAdoption(test.settle))
			}
			l := newLedger()
			finish := make(chan *workpull.Delivery, 2)
			var from *actor.PID
			holding := &worker{ledger: l, handle: func(ctx *actor.ReceiveContext, d *workpull.Delivery) bool {
				if d.MessageID() != "long" {
					return true
				}
				from = ctx.Sender()
				finish <- d
				return false
			}}
			quick := workpull.WithReliableResendInterval(20 * time.Millisecond)
			holder := spawnWorker(t, system, "holder", holding, quick, workpull.WithReliableFlowControlWindow(1))
			pid := spawnProducer(t, system, newDispatcher("long"), options...)
			held := <-finish
			require.Positive(t, held.QueueEpoch())
			other := spawnWorker(t, system, "other", &worker{ledger: l}, quick)
			require.Eventually(t, func() bool { return len(inspectProducer(t, pid).Workers) == 2 }, patience, glance)
			if test.dies {
				require.NoError(t, pid.Shutdown(context.Background()))
				require.NoError(t, holder.Shutdown(context.Background()))
			}

			d := newDispatcher("short")
			if pid.IsRunning() {
				pid = again(t, pid, d, options...)
			} else {
				pid = spawnProducer(t, system, d, options...)
			}
			require.Eventually(t, func() bool { return l.ran("short") == 1 }, patience, glance, "what comes meanwhile is not held back")
			if test.settle == time.Hour {
				require.Eventually(t, func() bool { return inspectProducer(t, pid).Adopted == 1 }, patience, glance)
			}
			if !test.dies {
				confirmed, err := workpull.NewConfirmed(held)
				require.NoError(t, err)
				require.NoError(t, holder.Tell(context.Background(), from, confirmed))
			}
			require.Eventually(t, func() bool { return d.confirmations() == 2 }, patience, glance)
			require.NoError(t, other.Shutdown(context.Background()))
			switch {
			case test.settle == time.Hour:
				require.Equal(t, 1, l.ran("long"))
			case test.dies:
				require.Equal(t, 2, l.ran("long"))
			default: // the first confirmation wins, be it late (B6)
				require.Zero(t, inspectProducer(t, pid).Adopted)
			}
		})
	}
}

// overtaken is a queue that another writer loads while its owner has trouble.
type overtaken struct {
	*memory.Queue
	fail atomic.Bool
}

func (q *overtaken) Commit(ctx context.Context, epoch workpull.QueueEpoch, b workpull.WorkBatch) ([]workpull.StoreResult, error) {
	if q.fail.Load() {
		return nil, errors.New("no space left")
	}
	return q.Queue.Commit(ctx, epoch, b)
}

// A controller that begins anew takes the queue from nobody: another writer that
// loaded it meanwhile keeps it, and the controller ends (rule 62, B16).
func TestAResetTakesTheQueueFromNobody(t *testing.T) {
	system := startSystem(t)
	events, err := workpull.Subscribe(context.Background(), system)
	require.NoError(t, err)
	defer events.Close()
	q := &overtaken{Queue: newQueue(t)}
	pid := spawnProducer(t, system, newDispatcher("a"), durable(q)...)
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Waiting == 1 }, patience, glance)
	settled(t, pid)

	q.fail.Store(true)
	state, epoch, err := q.Load(context.Background()) // the other writer
	require.NoError(t, err)
	require.Equal(t, 1, state.Len())
	spawnWorker(t, system, "w", &worker{})
	failed := <-events.C()
	require.Equal(t, workpull.ReliableDeliveryStageLoad, failed.Stage())
	require.ErrorIs(t, failed.Err(), workpull.ErrQueueFenced)
	require.NoError(t, q.ConfirmMessage(context.Background(), epoch, "a"), "it is still the other writer's")
}
