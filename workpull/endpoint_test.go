package workpull_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	gerrors "github.com/tochemey/goakt/v3/errors"
	"github.com/tochemey/goakt/v3/goaktpb"
	"github.com/tochemey/goakt/v3/supervisor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

func TestAPanicIsRedeliveredAndTheWorkerLives(t *testing.T) { // B2, part 5 trap 2
	system := startSystem(t)
	d := newDispatcher(jobNames(20)...)
	l := newLedger()
	w := &worker{ledger: l, starts: make(chan struct{}, 100)}
	w.handle = func(_ *actor.ReceiveContext, d *workpull.Delivery) bool {
		if d.MessageID() == "job-7" && l.ran("job-7") < 3 {
			panic("poison")
		}
		return true
	}
	pid := spawnWorker(t, system, "w", w)
	spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	require.Eventually(t, func() bool { return d.confirmations() == 20 }, patience, glance)
	require.Equal(t, 3, l.ran("job-7"))
	require.True(t, pid.IsRunning())
	require.Len(t, w.starts, 3, "one start and two restarts")
	for _, job := range jobNames(20) {
		if job != "job-7" {
			require.Equal(t, 1, l.ran(job), "what waits behind it is not run again")
		}
	}
}

// A restarted actor sees PreStart and PostStart before anything that waited.
func TestARestartedActorStartsBeforeItGoesOn(t *testing.T) {
	system := startSystem(t)
	a := &order{}
	pid, err := workpull.Spawn(context.Background(), system, "o", a, workpull.AsReliableWorkPullingWorker("nobody"))
	require.NoError(t, err)
	for _, s := range []string{"a", "panic", "b", "c"} {
		require.NoError(t, actor.Tell(context.Background(), pid, wrapperspb.String(s)))
	}
	require.Eventually(t, func() bool { return len(a.seen()) >= 10 }, patience, glance)
	require.Equal(t, []string{"PreStart", "PostStart", "a", "panic", "PostStop", "PreStart", "PostStart", "b", "c", "done"}, append(a.seen()[:9], "done"))
}

type order struct {
	mu   sync.Mutex
	list []string
}

func (o *order) note(s string) { o.mu.Lock(); o.list = append(o.list, s); o.mu.Unlock() }
func (o *order) seen() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.list...)
}
func (o *order) PreStart(*actor.Context) error { o.note("PreStart"); return nil }
func (o *order) PostStop(*actor.Context) error { o.note("PostStop"); return nil }
func (o *order) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *goaktpb.PostStart:
		o.note("PostStart")
	case *wrapperspb.StringValue:
		o.note(m.GetValue())
		if m.GetValue() == "panic" {
			panic("ordered")
		}
		if m.GetValue() == "c" {
			o.note("done")
		}
	}
}

// A panic on another message does not run a delivery twice that still waits
// in the mailbox (B2).
func TestAPanicBeforeADeliveryDoesNotRepeatIt(t *testing.T) {
	system := startSystem(t)
	l := newLedger()
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	w := &panicky{worker: worker{ledger: l}, hold: hold, held: held}
	pid := spawnWorker(t, system, "w", w)
	require.NoError(t, actor.Tell(context.Background(), pid, wrapperspb.String("hold, then panic")))
	<-held
	d := newDispatcher("job-0")
	spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	require.Eventually(t, func() bool { // told, and behind the message that is being handled
		s, err := workpull.WorkerStatus(context.Background(), pid)
		return err == nil && s.InFlightID == "job-0"
	}, patience, glance)
	close(hold)
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	require.Equal(t, 1, l.ran("job-0"))
}

type panicky struct {
	worker
	hold, held chan struct{}
}

func (p *panicky) Receive(ctx *actor.ReceiveContext) {
	if _, ok := ctx.Message().(*wrapperspb.StringValue); ok {
		p.held <- struct{}{}
		<-p.hold
		panic("as told")
	}
	p.worker.Receive(ctx)
}

// The worker's stop requeues at once, even while its handler runs (rule 46),
// and the survivor gets the same MessageID (rule 48).
func TestStoppingAWorkerRequeuesWhatItRuns(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher(jobNames(10)...)
	producer := spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	l := newLedger()
	running, release := make(chan struct{}, 10), make(chan struct{})
	defer close(release)
	pid := spawnWorker(t, system, "stuck", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
		running <- struct{}{}
		<-release
		return true
	}}, workpull.WithReliableFlowControlWindow(10))
	<-running
	require.Eventually(t, func() bool { return inspectProducer(t, producer).InFlight == 10 }, patience, glance)
	require.NoError(t, pid.Shutdown(context.Background()))
	spawnWorker(t, system, "survivor", &worker{ledger: l})
	require.Eventually(t, func() bool { return d.confirmations() == 10 }, patience, glance)
	require.Equal(t, 10, l.distinct())
	require.EqualValues(t, 10, inspectProducer(t, producer).Requeued)
}

// An error that the actor reports suspends it by GoAkt's default: its jobs go
// elsewhere until it is reinstated (rule 88).
func TestASuspendedWorkerHandsItsJobsBack(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher(jobNames(5)...)
	producer := spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	l := newLedger()
	var once atomic.Bool
	pid := spawnWorker(t, system, "w", &worker{ledger: l, handle: func(ctx *actor.ReceiveContext, _ *workpull.Delivery) bool {
		if once.CompareAndSwap(false, true) {
			ctx.Err(errors.New("out of order"))
			return false
		}
		return true
	}})
	require.Eventually(t, pid.IsSuspended, patience, glance)
	survivor := spawnWorker(t, system, "survivor", &worker{ledger: l})
	require.Eventually(t, func() bool { return d.confirmations() == 5 }, patience, glance)
	require.Equal(t, 5, l.count("survivor"))

	require.NoError(t, survivor.Reinstate(pid))
	require.Eventually(t, func() bool {
		s, err := workpull.WorkerStatus(context.Background(), pid)
		return err == nil && s.Registered && !s.Draining
	}, patience, glance)
	require.NoError(t, survivor.Shutdown(context.Background()))
	require.NoError(t, actor.Tell(context.Background(), producer, wrapperspb.String("later")))
	require.Eventually(t, func() bool { return d.confirmations() == 6 }, patience, glance)
}

// A restart by supervision is followed: the endpoint gets a new controller
// (rule 88).
func TestARestartBySupervisionIsFollowed(t *testing.T) {
	system := startSystem(t)
	var failed atomic.Bool
	w := &worker{starts: make(chan struct{}, 10), handle: func(ctx *actor.ReceiveContext, _ *workpull.Delivery) bool {
		if failed.CompareAndSwap(false, true) {
			ctx.Err(errors.New("once"))
			return false
		}
		return true
	}}
	restart := supervisor.NewSupervisor(supervisor.WithAnyErrorDirective(supervisor.RestartDirective))
	pid, err := workpull.Spawn(context.Background(), system, "w", w,
		workpull.AsReliableWorkPullingWorker("dispatcher", workpull.WithReliableResendInterval(50*time.Millisecond)),
		workpull.WithActorOptions(actor.WithSupervisor(restart)))
	require.NoError(t, err)
	d := newDispatcher(jobNames(5)...)
	spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	require.Eventually(t, func() bool { return d.confirmations() == 5 }, patience, glance)
	require.Len(t, w.starts, 2)
	require.True(t, pid.IsRunning())
	// The five may be done before GoAkt is through with the restart, and it may
	// lose the new controller from its tree while it sweeps the old one out.
	require.Eventually(t, func() bool {
		s, err := workpull.WorkerStatus(context.Background(), pid)
		return err == nil && s.Registered && len(pid.Children()) <= 1
	}, patience, glance, "one controller lives")
}

// A violation by the producer actor ends its controller with one event; the
// actor lives, and ReSpawn makes a new controller (rules 9, 61, 88, 91).
func TestATerminalFailureIsOneEventAndReSpawnRecovers(t *testing.T) {
	system := startSystem(t)
	events, err := workpull.Subscribe(context.Background(), system)
	require.NoError(t, err)
	defer events.Close()
	d := newDispatcher()
	var violate atomic.Bool
	violate.Store(true)
	d.onMessage = func(ctx *actor.ReceiveContext) bool {
		m, ok := ctx.Message().(*workpull.RequestNext)
		if !ok || !violate.Load() {
			return false
		}
		for _, id := range []string{"first", "second"} { // rule 9
			p, err := workpull.NewProduced(m, id, wrapperspb.String(id))
			if err != nil {
				panic(err)
			}
			ctx.Tell(ctx.Sender(), p)
		}
		return true
	}
	pid := spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	spawnWorker(t, system, "w", &worker{})
	select {
	case e := <-events.C():
		require.Equal(t, "dispatcher", e.Endpoint())
		require.Equal(t, "producer", e.Role())
		require.Equal(t, workpull.ReliableDeliveryStageProtocol, e.Stage())
		require.ErrorContains(t, e.Err(), "second")
		require.WithinDuration(t, time.Now(), e.Time(), time.Minute)
	case <-time.After(patience):
		t.Fatal("no event")
	}
	require.Eventually(t, func() bool {
		_, err := workpull.Inspect(context.Background(), pid)
		return errors.Is(err, workpull.ErrNoController)
	}, patience, glance)
	require.True(t, pid.IsRunning(), "rule 61: the producer lives")

	violate.Store(false)
	again, err := workpull.ReSpawn(context.Background(), system, "dispatcher")
	require.NoError(t, err)
	require.Same(t, pid, again)
	require.NoError(t, actor.Tell(context.Background(), pid, wrapperspb.String("third")))
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	require.Empty(t, events.C(), "rule 91: exactly one event")
}

// A controller that something else stops is a terminal stop too (rule 91).
func TestAControllerThatIsKilledIsOneEvent(t *testing.T) {
	system := startSystem(t)
	events, err := workpull.Subscribe(context.Background(), system)
	require.NoError(t, err)
	pid := spawnWorker(t, system, "w", &worker{})
	require.NoError(t, pid.Children()[0].Shutdown(context.Background()))
	select {
	case e := <-events.C():
		require.Equal(t, "worker", e.Role())
		require.ErrorIs(t, e.Err(), workpull.ErrControllerStopped)
	case <-time.After(patience):
		t.Fatal("no event")
	}
	require.True(t, pid.IsRunning())
	_, err = workpull.ReSpawn(context.Background(), system, "w")
	require.NoError(t, err)
	require.Len(t, pid.Children(), 1)
	require.NoError(t, pid.Shutdown(context.Background()))
	require.Empty(t, events.C(), "the endpoint's own stop is no failure")
}

func TestReSpawn(t *testing.T) { // rule 88
	system := startSystem(t)
	ctx := context.Background()
	_, err := workpull.ReSpawn(ctx, system, "w")
	require.ErrorIs(t, err, workpull.ErrNotEndpoint)

	w := &worker{starts: make(chan struct{}, 10)}
	pid := spawnWorker(t, system, "w", w)
	controller := pid.Children()[0]
	again, err := workpull.ReSpawn(ctx, system, "w")
	require.NoError(t, err)
	require.Same(t, pid, again)
	require.Len(t, w.starts, 2)
	require.Same(t, controller, pid.Children()[0], "a live controller is kept")

	require.NoError(t, pid.Shutdown(ctx))
	fresh, err := workpull.ReSpawn(ctx, system, "w")
	require.NoError(t, err)
	require.NotSame(t, pid, fresh)
	require.Len(t, fresh.Children(), 1)
	found, err := system.LocalActor("w")
	require.NoError(t, err)
	require.Same(t, fresh, found, "the new one is in the tree though the old one may still have been there")
}

// A job whose type the worker does not know is rejected and waits for its
// backoff; the next jobs are done (rule 85, B3).
func TestAnUndecodablePayloadIsRejected(t *testing.T) {
	system := startSystem(t)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("stranger.proto"), Package: proto.String("stranger"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Unknown")}},
	}, nil)
	require.NoError(t, err)
	d := newDispatcher(jobNames(3)...)
	var sent atomic.Bool
	d.onMessage = func(ctx *actor.ReceiveContext) bool {
		m, ok := ctx.Message().(*workpull.RequestNext)
		if !ok || sent.Swap(true) {
			return false
		}
		p, err := workpull.NewProduced(m, "strange", dynamicpb.NewMessage(file.Messages().Get(0)))
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), p)
		d.mu.Lock()
		d.answered = p
		d.mu.Unlock()
		return true
	}
	pid := spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	w := spawnWorker(t, system, "w", &worker{})
	require.Eventually(t, func() bool { return d.confirmations() == 3 }, patience, glance)
	s := inspectProducer(t, pid)
	require.EqualValues(t, 1, s.Rejected)
	require.Equal(t, 1, s.Delayed)
	require.True(t, w.IsRunning())
}

// A rejected job comes back as another attempt (B3).
func TestARejectedJobComesBack(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher("job-0")
	spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	attempts := make(chan int, 10)
	spawnWorker(t, system, "w", &worker{handle: func(ctx *actor.ReceiveContext, d *workpull.Delivery) bool {
		attempts <- d.Attempt()
		if d.Attempt() > 1 {
			return true
		}
		r, err := workpull.NewRejected(d, "not now")
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), r)
		return false
	}})
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
	require.Equal(t, 1, <-attempts)
	require.Equal(t, 2, <-attempts)
}

// Jobs are accepted with no worker present (B7).
func TestStoreAheadTakesJobsBeforeThereIsAWorker(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher(jobNames(20)...)
	pid := spawnProducer(t, system, d, workpull.WithReliableStoreAhead(10), workpull.WithReliableCredits(4), workpull.WithReliableDeliveryConfirmation())
	require.Eventually(t, func() bool { return inspectProducer(t, pid).Waiting == 10 }, patience, glance)
	spawnWorker(t, system, "w", &worker{})
	require.Eventually(t, func() bool { return d.confirmations() == 20 }, patience, glance)
}

// Drain hands back what has not started and returns when what runs is done
// (B13).
func TestDrain(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher(jobNames(5)...)
	producer := spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	l := newLedger()
	running, release := make(chan struct{}, 10), make(chan struct{})
	pid := spawnWorker(t, system, "leaving", &worker{ledger: l, handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
		running <- struct{}{}
		<-release
		return true
	}})
	<-running
	require.Eventually(t, func() bool { return inspectProducer(t, producer).InFlight == 5 }, patience, glance)
	done := make(chan error, 1)
	go func() { done <- workpull.Drain(context.Background(), pid) }()
	require.Eventually(t, func() bool { return inspectProducer(t, producer).Waiting == 4 }, patience, glance, "handed back at once")
	require.Empty(t, done)
	close(release)
	require.NoError(t, <-done)
	require.Equal(t, 1, l.count("leaving"))
	s, err := workpull.WorkerStatus(context.Background(), pid)
	require.NoError(t, err)
	require.True(t, s.Draining)
	require.Empty(t, s.InFlightID)
	require.NoError(t, workpull.Drain(context.Background(), pid), "a second time")

	spawnWorker(t, system, "staying", &worker{ledger: l})
	require.Eventually(t, func() bool { return d.confirmations() == 5 }, patience, glance)
	require.Equal(t, 4, l.count("staying"))

	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	stuck := make(chan struct{})
	defer close(stuck)
	busy := spawnWorker(t, system, "busy", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool { <-stuck; return true }})
	require.NoError(t, workpull.Drain(context.Background(), mustLocal(t, system, "staying")))
	require.NoError(t, actor.Tell(context.Background(), producer, wrapperspb.String("last")))
	require.Eventually(t, func() bool { s, _ := workpull.WorkerStatus(context.Background(), busy); return s.InFlightID == "last" }, patience, glance)
	require.ErrorIs(t, workpull.Drain(short, busy), context.DeadlineExceeded)
}

func mustLocal(t *testing.T, system actor.ActorSystem, name string) *actor.PID {
	pid, err := system.LocalActor(name)
	require.NoError(t, err)
	return pid
}

func TestQuestionsToTheWrongActor(t *testing.T) {
	system := startSystem(t)
	w := spawnWorker(t, system, "w", &worker{})
	_, err := workpull.Inspect(context.Background(), w)
	require.ErrorIs(t, err, workpull.ErrNotEndpoint)
	_, err = workpull.Inspect(context.Background(), nil)
	require.ErrorIs(t, err, workpull.ErrNotEndpoint)
	_, err = workpull.WorkerStatus(context.Background(), w.Children()[0])
	require.ErrorIs(t, err, workpull.ErrNotEndpoint)
	require.NoError(t, w.Shutdown(context.Background()))
	_, err = workpull.WorkerStatus(context.Background(), w)
	require.ErrorIs(t, err, workpull.ErrNoController)
}

// The producer's death clears the worker's session; a new producer of that
// name takes over (rules 21, 86).
func TestAProducerThatIsReplaced(t *testing.T) {
	system := startSystem(t)
	first := newDispatcher(jobNames(3)...)
	pid := spawnProducer(t, system, first, workpull.WithReliableDeliveryConfirmation())
	w := spawnWorker(t, system, "w", &worker{})
	require.Eventually(t, func() bool { return first.confirmations() == 3 }, patience, glance)
	require.NoError(t, pid.Shutdown(context.Background()))
	require.Eventually(t, func() bool {
		s, err := workpull.WorkerStatus(context.Background(), w)
		return err == nil && !s.Registered
	}, patience, glance)
	second := newDispatcher(jobNames(3)...)
	spawnProducer(t, system, second, workpull.WithReliableDeliveryConfirmation())
	require.Eventually(t, func() bool { return second.confirmations() == 3 }, patience, glance)
}

// A message from another actor is nobody's answer (rules 6, 15, 81).
func TestStrangersAreIgnored(t *testing.T) {
	system := startSystem(t)
	d := newDispatcher("job-0")
	producer := spawnProducer(t, system, d, workpull.WithReliableDeliveryConfirmation())
	deliveries, release := make(chan *workpull.Delivery, 1), make(chan struct{})
	w := spawnWorker(t, system, "w", &worker{handle: func(_ *actor.ReceiveContext, d *workpull.Delivery) bool {
		deliveries <- d
		<-release
		return true
	}})
	delivery := <-deliveries
	forged, err := workpull.NewConfirmed(delivery)
	require.NoError(t, err)
	stranger, err := system.Spawn(context.Background(), "stranger", &worker1{})
	require.NoError(t, err)
	require.NoError(t, stranger.Tell(context.Background(), w.Children()[0], forged))
	s, err := workpull.WorkerStatus(context.Background(), w) // after the forged one, from the same mailbox
	require.NoError(t, err)
	require.Equal(t, "job-0", s.InFlightID, "rule 81")
	require.Zero(t, inspectProducer(t, producer).Confirmed)
	close(release)
	require.Eventually(t, func() bool { return d.confirmations() == 1 }, patience, glance)
}

func TestStoppedSystem(t *testing.T) {
	system := startSystem(t)
	require.NoError(t, workpull.Stop(context.Background(), system))
	_, err := workpull.Spawn(context.Background(), system, "w", &worker{}, workpull.AsReliableWorkPullingWorker("dispatcher"))
	require.ErrorIs(t, err, gerrors.ErrActorSystemNotStarted)
}
