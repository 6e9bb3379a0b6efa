package workpull_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/workpull"
)

// troubled is a queue that fails as a test wants it to.
type troubled struct {
	workpull.BatchWorkQueue
	mu     sync.Mutex
	fail   func(operation string) error
	called map[string]int
}

func newTroubled(t *testing.T) *troubled {
	return &troubled{BatchWorkQueue: newQueue(t), called: map[string]int{}}
}

func newQueue(t *testing.T) *memory.Queue {
	q := memory.New(t.Name())
	t.Cleanup(func() { memory.Drop(t.Name()) })
	return q
}

func (q *troubled) set(fail func(operation string) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fail = fail
}

func (q *troubled) count(operation string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.called[operation]
}

func (q *troubled) trouble(operation string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.called[operation]++
	if q.fail == nil {
		return nil
	}
	return q.fail(operation)
}

func (q *troubled) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	if err := q.trouble("load"); err != nil {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, err
	}
	return q.BatchWorkQueue.Load(ctx)
}

func (q *troubled) Commit(ctx context.Context, epoch workpull.QueueEpoch, b workpull.WorkBatch) ([]workpull.StoreResult, error) {
	if err := q.trouble("commit"); err != nil {
		return nil, err
	}
	return q.BatchWorkQueue.Commit(ctx, epoch, b)
}

// plain hides that a queue takes batches.
type plain struct{ workpull.DurableWorkQueue }

func durable(q workpull.DurableWorkQueue, options ...workpull.ProducerOption) []workpull.ProducerOption {
	return append([]workpull.ProducerOption{
		workpull.WithReliableDurableWorkQueue(q), workpull.WithReliableQueueRetry(3, time.Millisecond),
		workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableStoreAhead(20),
	}, options...)
}

// leftIn is how many jobs a queue holds; it fences whoever used it.
func leftIn(t *testing.T, q workpull.DurableWorkQueue) int {
	t.Helper()
	state, _, err := q.Load(context.Background())
	require.NoError(t, err)
	return state.Len()
}

// Jobs that were stored and had no worker are done after a restart of their
// producer, in store order, and "confirmed" is durable (rules 55, 59, B10); the
// same with a queue that has none of the optional interfaces.
func TestJobsOutliveTheirController(t *testing.T) {
	for name, of := range map[string]func(*memory.Queue) workpull.DurableWorkQueue{
		"batches": func(q *memory.Queue) workpull.DurableWorkQueue { return q },
		"plain":   func(q *memory.Queue) workpull.DurableWorkQueue { return &plain{q} },
	} {
		t.Run(name, func(t *testing.T) {
			system := startSystem(t)
			q := of(newQueue(t))
			first := newDispatcher(jobNames(10)...)
			pid := spawnProducer(t, system, first, durable(q)...)
			require.Eventually(t, func() bool { return inspectProducer(t, pid).Waiting == 10 }, patience, glance)
			require.NoError(t, pid.Shutdown(context.Background()))

			second := newDispatcher()
			spawnProducer(t, system, second, durable(q)...)
			var mu sync.Mutex
			var order []string
			spawnWorker(t, system, "w", &worker{handle: func(_ *actor.ReceiveContext, d *workpull.Delivery) bool {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, d.MessageID())
				return true
			}})
			require.Eventually(t, func() bool { return second.confirmations() == 10 }, patience, glance)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, jobNames(10), order)
			require.Zero(t, leftIn(t, q), "all that is done is gone")
		})
	}
}

// A queue that cannot be loaded fails the spawn, after all its attempts, and
// leaves nothing behind (rule 56); a panic in the queue is an error.
func TestALoadThatFailsFailsTheSpawn(t *testing.T) {
	system := startSystem(t)
	q := newTroubled(t)
	missing := errors.New("the disk is not there")
	q.set(func(string) error { return missing })
	spawn := func() error {
		_, err := workpull.Spawn(context.Background(), system, "dispatcher", newDispatcher(), workpull.AsReliableWorkPullingProducer(durable(q)...))
		return err
	}
	require.ErrorIs(t, spawn(), missing)
	require.Equal(t, 3, q.count("load"))
	q.set(func(string) error { panic("a bug of the queue's") })
	require.ErrorContains(t, spawn(), "a bug of the queue's")
	q.set(func(string) error { return workpull.ErrQueueConflict })
	require.ErrorIs(t, spawn(), workpull.ErrQueueConflict)
	require.Equal(t, 7, q.count("load"), "a conflict is not tried again (rule 60)")
	q.set(nil)
	require.NoError(t, spawn())
}

// Who loads a queue fences who had it: one event with the stage, the controller
// ends, its actor lives, and ReSpawn takes the queue back (rules 60, 61, 65).
func TestAFencedControllerEnds(t *testing.T) {
	system := startSystem(t)
	events, err := workpull.Subscribe(context.Background(), system)
	require.NoError(t, err)
	defer events.Close()
	q := newTroubled(t)
	d := newDispatcher("a")
	pid := spawnProducer(t, system, d, durable(q)...)
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Waiting == 1 }, patience, glance)
	commits := q.count("commit")
	require.Equal(t, 1, leftIn(t, q.BatchWorkQueue), "by another writer")

	spawnWorker(t, system, "w", &worker{})
	failed := <-events.C()
	require.Equal(t, workpull.ReliableDeliveryStageConfirm, failed.Stage())
	require.ErrorIs(t, failed.Err(), workpull.ErrQueueFenced)
	require.Equal(t, commits+1, q.count("commit"), "never tried again")
	require.True(t, pid.IsRunning())

	_, err = workpull.ReSpawn(context.Background(), system, "dispatcher")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance, "it runs again: nobody knows that it was done")
	select {
	case again := <-events.C():
		t.Fatalf("a second event: %v", again)
	default:
	}
}

// A queue that fails for a while has the controller begin anew with what the
// queue holds; nothing is lost and nobody is told of a failure (rules 60, 62).
func TestAQueueThatFailsForAWhile(t *testing.T) {
	system := startSystem(t)
	events, err := workpull.Subscribe(context.Background(), system)
	require.NoError(t, err)
	defer events.Close()
	q := newTroubled(t)
	failures := 0
	q.set(func(operation string) error {
		if operation == "commit" && failures < 7 { // three attempts, three more, and one
			failures++
			return errors.New("no space left")
		}
		return nil
	})
	l := newLedger()
	spawnWorker(t, system, "w", &worker{ledger: l}, workpull.WithReliableResendInterval(10*time.Millisecond))
	d := newDispatcher(jobNames(20)...)
	spawnProducer(t, system, d, durable(q)...)
	require.Eventually(t, func() bool { return d.confirmations() == 20 }, patience, glance)
	require.Equal(t, 20, l.distinct())
	require.GreaterOrEqual(t, q.count("load"), 3)
	require.Zero(t, leftIn(t, q.BatchWorkQueue))
	select {
	case f := <-events.C():
		t.Fatalf("told of a failure: %v", f)
	default:
	}
}

// No notice is terminal, whatever MessageID a queue brings (rule 54): the job is
// done, its producer is told, and the next one is, too.
func TestNoNoticeIsTerminal(t *testing.T) {
	system := startSystem(t)
	q := newQueue(t)
	_, epoch, err := q.Load(context.Background())
	require.NoError(t, err)
	hostile := "\xff\x00" + strings.Repeat("x", 100)
	body, err := proto.Marshal(wrapperspb.String(hostile[1:]))
	require.NoError(t, err)
	payload, err := workpull.NewReliablePayload("type.googleapis.com/google.protobuf.StringValue", body)
	require.NoError(t, err)
	request, err := workpull.NewStoreRequest(hostile, 1, payload)
	require.NoError(t, err)
	_, err = q.Store(context.Background(), epoch, request)
	require.NoError(t, err)

	events, err := workpull.Subscribe(context.Background(), system)
	require.NoError(t, err)
	defer events.Close()
	d := newDispatcher("a")
	spawnProducer(t, system, d, durable(q)...)
	spawnWorker(t, system, "w", &confirming{})
	require.Eventually(t, func() bool { return d.confirmations() == 2 }, patience, glance)
	require.Empty(t, events.C())
}

// confirming is a worker that confirms whatever it is given.
type confirming struct{}

func (*confirming) PreStart(*actor.Context) error { return nil }
func (*confirming) PostStop(*actor.Context) error { return nil }
func (*confirming) Receive(ctx *actor.ReceiveContext) {
	if d, ok := ctx.Message().(*workpull.Delivery); ok {
		confirmed, err := workpull.NewConfirmed(d)
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), confirmed)
	}
}

// What is refused at spawn (rules 1, 89).
func TestQueueOptionsRefuse(t *testing.T) {
	system := startSystem(t)
	for name, options := range map[string][]workpull.ProducerOption{
		"no queue":    {workpull.WithReliableDurableWorkQueue(nil)},
		"a value":     {workpull.WithReliableDurableWorkQueue(plain{newQueue(t)})},
		"a nil queue": {workpull.WithReliableDurableWorkQueue((*memory.Queue)(nil))},
		"two queues":  {workpull.WithReliableDurableWorkQueue(newQueue(t)), workpull.WithReliableDurableWorkQueue(newQueue(t))},
		"no attempts": {workpull.WithReliableQueueRetry(0, time.Second)},
		"no pause":    {workpull.WithReliableQueueRetry(1, 0)},
	} {
		_, err := workpull.Spawn(context.Background(), system, "dispatcher", newDispatcher(), workpull.AsReliableWorkPullingProducer(options...))
		var refused *workpull.OptionError
		require.ErrorAs(t, err, &refused, name)
	}
}
