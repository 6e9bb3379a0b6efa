package workpull_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/passivation"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// GoAkt's traps, and the tests that hold the way round each:
//
//	trap 1   messages have to marshal          TestEveryMessageCanBeMarshalled
//	trap 2   a restart in place forgets        TestAPanicIsRedeliveredAndTheWorkerLives, TestARestartBySupervisionIsFollowed
//	trap 3   options cannot be looked into     TestEndpointsAreNeverPassivated, TestReservedAndTakenNames
//	trap 4   names are global                  TestControllerNamesAreNeverUsedTwice
//	trap 5   the registry knows no children    TestTheDirectoryKnowsWhatALookUpDoesNot
//	trap 6   any stop closes the shared client TestStoppingActorsDoesNotDisturbTheOutboxes
//	trap 7   addresses are compared as text    TestJobsByAddress
//	trap 8   no events on the system's stream  TestSubscriptionsNeitherBlockNorUseTheSystemsStream
//	trap 9   PreStart runs up to five times    TestAStartThatNeedsSeveralAttemptsIsOneStart
//	trap 10  a bounded mailbox loses or blocks TestABoundedMailboxIsNotUsed
//	trap 11  Watch misses who is gone          TestAWorkerThatIsGoneBeforeItIsWatched, TestPeerLostProbes
//	trap 12  errors vanish on their way        TestTheAddressIsResolvedAnew
//	trap 13  a panic stops, frames end         TestTheLargestJobTravels, TestAPanicIsRedeliveredAndTheWorkerLives

// An endpoint is long-lived without being told, and refuses what is not (trap 3).
func TestEndpointsAreNeverPassivated(t *testing.T) {
	system := startSystem(t)
	for _, pid := range []*actor.PID{spawnProducer(t, system, newDispatcher()), spawnWorker(t, system, "w", &worker{})} {
		require.IsType(t, &passivation.LongLivedStrategy{}, pid.PassivationStrategy())
		require.IsType(t, &passivation.LongLivedStrategy{}, pid.Children()[0].PassivationStrategy(), "nor is its controller")
	}
	plain, err := system.Spawn(context.Background(), "plain", &worker1{})
	require.NoError(t, err)
	require.IsType(t, &passivation.TimeBasedStrategy{}, plain.PassivationStrategy(), "GoAkt's own default")
}

// The index of names is the system's, not the parent's: a controller that
// follows another has a name of its own (trap 4).
func TestControllerNamesAreNeverUsedTwice(t *testing.T) {
	system := startSystem(t)
	pid := spawnWorker(t, system, "w", &worker{})
	names := map[string]bool{}
	for range 20 {
		name := pid.Children()[0].Name()
		require.False(t, names[name], name)
		require.True(t, strings.HasPrefix(name, "Workpull-"))
		names[name] = true
		require.NoError(t, pid.Children()[0].Shutdown(context.Background()))
		_, err := workpull.ReSpawn(context.Background(), system, "w")
		require.NoError(t, err)
		require.Len(t, pid.Children(), 1)
	}
	_, err := system.Spawn(context.Background(), "GoAktMine", &worker1{})
	require.Error(t, err, "GoAkt keeps its own prefix to itself")
}

// GoAkt finds endpoints on another node, and no children. The node's directory
// tells of the controller (trap 5).
func TestTheDirectoryKnowsWhatALookUpDoesNot(t *testing.T) {
	home, port := startRemote(t)
	away, _ := startRemote(t)
	producer := spawnProducer(t, home, newDispatcher())
	client := remote.NewRemoting()
	defer client.Close()
	_, err := client.RemoteLookup(context.Background(), "127.0.0.1", port, "dispatcher")
	require.NoError(t, err)
	a, err := client.RemoteLookup(context.Background(), "127.0.0.1", port, producer.Children()[0].Name())
	require.True(t, err != nil || a.Parent() == nil, "the controller is not found as a child of its endpoint")

	require.Eventually(t, func() bool { // a look-up has half a second, which a busy machine may not have
		return workpull.Locate(context.Background(), away, "127.0.0.1", port, "dispatcher") == nil
	}, patience, glance)
	require.NoError(t, producer.Children()[0].Shutdown(context.Background()))
	require.ErrorIs(t, workpull.Locate(context.Background(), away, "127.0.0.1", port, "dispatcher"), workpull.ErrProducerNotFound,
		"the endpoint lives, its controller does not")
	_, err = client.RemoteLookup(context.Background(), "127.0.0.1", port, "dispatcher")
	require.NoError(t, err)
}

// Events have a stream of their own. A subscriber that does not read loses
// events, which are counted, and holds nobody up (trap 8).
func TestSubscriptionsNeitherBlockNorUseTheSystemsStream(t *testing.T) {
	system := startSystem(t)
	foreign, err := system.Subscribe()
	require.NoError(t, err)
	defer foreign.Shutdown()
	slow, err := workpull.Subscribe(context.Background(), system)
	require.NoError(t, err)
	const letters = 70
	producer := spawnProducer(t, system, newDispatcher(jobNames(letters)...), workpull.WithReliableRetryPolicy(1, time.Millisecond))
	spawnWorker(t, system, "w", &reject{after: letters})
	require.Eventually(t, func() bool { return inspectProducer(t, producer).Dead == letters }, patience, glance)
	require.EqualValues(t, letters-64, slow.Dropped())
	slow.Close()
	read := 0
	for range slow.DeadLetters() {
		read++
	}
	require.Equal(t, 64, read)
	for event := range foreign.Iterator() {
		_, ours := event.Payload().(workpull.DeadLettered)
		require.False(t, ours)
	}
}

// reluctant fails its first starts.
type reluctant struct {
	worker
	attempts atomic.Int32
}

func (r *reluctant) PreStart(*actor.Context) error {
	if r.attempts.Add(1) < 4 {
		return errors.New("not yet")
	}
	return nil
}

// GoAkt calls PreStart up to five times until it succeeds: the endpoint starts
// once all the same, with one controller and one registration (trap 9).
func TestAStartThatNeedsSeveralAttemptsIsOneStart(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher(jobNames(10)...)
	producer := spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	l := newLedger()
	w := &reluctant{worker: worker{ledger: l}}
	pid := spawnWorker(t, system, "w", w)
	require.EqualValues(t, 4, w.attempts.Load())
	require.Len(t, pid.Children(), 1)
	require.Eventually(t, func() bool { return d.confirmations() == 10 }, patience, glance)
	for _, job := range jobNames(10) {
		require.Equal(t, 1, l.ran(job), job)
	}
	require.Len(t, inspectProducer(t, producer).Workers, 1)
}

// A bounded mailbox would hold its senders up, or refuse messages for which
// Tell returned nil. An endpoint does not take one: its controller never waits
// for it (trap 10).
func TestABoundedMailboxIsNotUsed(t *testing.T) {
	system := startSystem(t)
	bounded := func() workpull.SpawnOption {
		return workpull.WithActorOptions(actor.WithMailbox(actor.NewBoundedMailbox(1)))
	}
	d := newDispatcher()
	producer, err := workpull.Spawn(context.Background(), system, "dispatcher", d, bounded(),
		workpull.AsReliableWorkPullingProducer(workpull.WithReliableRetryInterval(time.Millisecond), workpull.WithReliableDeliveryConfirmation()))
	require.NoError(t, err)
	running, release := make(chan struct{}, 100), make(chan struct{})
	w, err := workpull.Spawn(context.Background(), system, "w", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
		running <- struct{}{}
		<-release
		return true
	}}, bounded(), workpull.AsReliableWorkPullingWorker("dispatcher"))
	require.NoError(t, err)
	for _, job := range jobNames(20) {
		require.NoError(t, actor.Tell(context.Background(), producer, wrapperspb.String(job)))
	}
	<-running
	told := make(chan error, 1)
	go func() { // while the handler is at its job
		for range 100 {
			if err := actor.Tell(context.Background(), w, wrapperspb.String("a message for the actor")); err != nil {
				told <- err
				return
			}
		}
		told <- nil
	}()
	select {
	case err := <-told:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("the sender is held up")
	}
	s, err := workpull.WorkerStatus(context.Background(), w)
	require.NoError(t, err, "its controller answers")
	require.Equal(t, "job-0", s.InFlightID)
	close(release)
	require.Eventually(t, func() bool { return d.confirmations() == 20 }, patience, glance)
}

// A worker that ends before the producer watches it leaves no binding, though
// nothing tells of its end and its lease is long (rule 32, trap 11).
func TestAWorkerThatIsGoneBeforeItIsWatched(t *testing.T) {
	system := startSystem(t)
	producer := spawnProducer(t, system, newDispatcher(), workpull.WithReliableLease(time.Hour))
	for range 100 {
		require.NoError(t, spawnWorker(t, system, "brief", &worker{}).Shutdown(context.Background()))
	}
	spawnWorker(t, system, "lasting", &worker{})
	require.Eventually(t, func() bool {
		workers := inspectProducer(t, producer).Workers
		return len(workers) == 1 && workers[0].Endpoint == "lasting"
	}, patience, glance)
}

// bulky is a worker that tells how long a payload is.
type bulky struct{ lengths chan int }

func (*bulky) PreStart(*actor.Context) error { return nil }
func (*bulky) PostStop(*actor.Context) error { return nil }

func (b *bulky) Receive(ctx *actor.ReceiveContext) {
	if d, ok := ctx.Message().(*workpull.Delivery); ok {
		b.lengths <- len(d.Payload().(*wrapperspb.BytesValue).GetValue())
		ctx.Tell(ctx.Sender(), must(workpull.NewConfirmed(d)))
	}
}

// The largest job fits a frame of GoAkt's between two nodes, and a larger one
// is refused before it is a job (rule 10, trap 13).
func TestTheLargestJobTravels(t *testing.T) {
	var systems []actor.ActorSystem
	for range 2 {
		system, err := startOn("127.0.0.1")
		require.NoError(t, err)
		t.Cleanup(func() { _ = workpull.Stop(context.Background(), system) })
		systems = append(systems, system)
	}
	const header = 64 // of the payload's message and the name of its type
	payload := wrapperspb.Bytes(make([]byte, workpull.MaxPayloadBytes-header))
	d := newDispatcher()
	refused := make(chan error, 1)
	d.onMessage = func(ctx *actor.ReceiveContext) bool {
		m, ok := ctx.Message().(*workpull.RequestNext)
		if !ok || d.answered != nil {
			return ok
		}
		_, err := workpull.NewProduced(m, "larger", wrapperspb.Bytes(make([]byte, workpull.MaxPayloadBytes)))
		refused <- err
		d.mu.Lock()
		defer d.mu.Unlock()
		d.answered = must(workpull.NewProduced(m, strings.Repeat("i", workpull.MaxMessageIDBytes), payload))
		ctx.Tell(ctx.Sender(), d.answered)
		return true
	}
	producer, err := workpull.Spawn(context.Background(), systems[0], "dispatcher", d, uncompressed(),
		workpull.AsReliableWorkPullingProducer(workpull.WithReliableDeliveryConfirmation()))
	require.NoError(t, err)
	lengths := make(chan int, 10)
	_, err = workpull.Spawn(context.Background(), systems[1], "w", &bulky{lengths: lengths}, uncompressed(),
		workpull.AsReliableWorkPullingWorker("dispatcher", workpull.WithReliableRemoteProducer("127.0.0.1", systems[0].Port())))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	require.ErrorIs(t, <-refused, workpull.ErrPayloadTooLarge)
	require.Equal(t, len(payload.GetValue()), <-lengths)
	require.Zero(t, inspectProducer(t, producer).Requeued)
}
