package endpoint_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/runtime/control"
	"github.com/workpull/operator/runtime/control/endpoint"
	"github.com/workpull/operator/workpull"
)

const (
	patience = 30 * time.Second
	glance   = 5 * time.Millisecond
	// asWorker makes this test program a worker's process that never finishes a
	// job; its value is the producer's remoting port.
	asWorker = "WORKPULL_TEST_PRODUCER_PORT"
)

func TestMain(m *testing.M) {
	if port := os.Getenv(asWorker); port != "" {
		hang(port)
	}
	os.Exit(m.Run())
}

// hang is a worker's process.
func hang(producerPort string) {
	ctx := context.Background()
	port, _ := strconv.Atoi(producerPort)
	own, _ := strconv.Atoi(os.Getenv(asWorker + "_OWN"))
	system, err := startSystem(ctx, own)
	if err == nil {
		_, err = spawnWorker(ctx, system, "uid-h/boot/0", port, func(*workpull.Delivery) bool { select {} })
	}
	if err != nil {
		panic(err)
	}
	select {}
}

func startSystem(ctx context.Context, port int) (actor.ActorSystem, error) {
	system, err := actor.NewActorSystem("control-test", actor.WithLogger(log.DiscardLogger), actor.WithRemote(remote.NewConfig("127.0.0.1", port)))
	if err != nil {
		return nil, err
	}
	return system, system.Start(ctx)
}

// intake is a producer actor that offers jobs from outside.
type intake struct {
	jobs []string
	open *workpull.RequestNext
	from *actor.PID
	done uint64 // the last token that was answered: repeats may have crossed the answer
}

func (*intake) PreStart(*actor.Context) error { return nil }
func (*intake) PostStop(*actor.Context) error { return nil }

func (i *intake) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		if m.Token() > i.done {
			i.open, i.from = m, ctx.Sender()
		}
	case *wrapperspb.StringValue:
		i.jobs = append(i.jobs, m.GetValue())
	case *workpull.Stored:
		ack, err := workpull.NewStoredAck(m)
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), ack)
	}
	if len(i.jobs) == 0 || i.open == nil {
		return
	}
	produced, err := workpull.NewProduced(i.open, i.jobs[0], wrapperspb.String(i.jobs[0]))
	if err != nil {
		panic(err)
	}
	i.done, i.open, i.jobs = i.open.Token(), nil, i.jobs[1:]
	ctx.Tell(i.from, produced)
}

// hand is a worker actor that confirms what do says is done, and rejects the
// rest.
type hand struct {
	do func(*workpull.Delivery) bool
}

func (*hand) PreStart(*actor.Context) error { return nil }
func (*hand) PostStop(*actor.Context) error { return nil }

func (h *hand) Receive(ctx *actor.ReceiveContext) {
	d, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	if h.do(d) {
		confirmed, err := workpull.NewConfirmed(d)
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), confirmed)
		return
	}
	rejected, err := workpull.NewRejected(d, "a bolt is missing")
	if err != nil {
		panic(err)
	}
	ctx.Tell(ctx.Sender(), rejected)
}

func spawnWorker(ctx context.Context, system actor.ActorSystem, identity string, producerPort int, do func(*workpull.Delivery) bool) (*actor.PID, error) {
	return workpull.Spawn(ctx, system, "worker", &hand{do: do}, workpull.AsReliableWorkPullingWorker("jobs",
		workpull.WithReliableIdentity(identity), workpull.WithReliableRemoteProducer("127.0.0.1", producerPort),
		workpull.WithReliableFlowControlWindow(4), workpull.WithReliableResendInterval(100*time.Millisecond)))
}

// producer is a producer's pod with its control service, and the operator's
// client of it.
type producer struct {
	t      *testing.T
	pid    *actor.PID
	system actor.ActorSystem
	port   int // of its remoting
	client *control.Client
	views  <-chan control.View
}

func startProducer(t *testing.T) *producer {
	t.Helper()
	ctx := context.Background()
	p := &producer{t: t, port: testport.Free(t, 1)[0]}
	p.system = p.start(p.port)
	pid, err := workpull.Spawn(ctx, p.system, "jobs", &intake{}, workpull.AsReliableWorkPullingProducer(
		workpull.WithReliableStoreAhead(100), workpull.WithReliableRetryPolicy(1, time.Millisecond),
		workpull.WithReliableRetryInterval(50*time.Millisecond), workpull.WithReliableLease(10*time.Minute)))
	require.NoError(t, err)
	p.pid = pid

	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(testport.Free(t, 1)[0])))
	require.NoError(t, err)
	serving, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- control.Serve(serving, listener, endpoint.New(pid, func() map[string]string { return map[string]string{"uid-1/boot": "pod-1"} }))
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-served)
	})
	p.client, err = control.Dial("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	views, watched := make(chan control.View), make(chan struct{})
	go func() {
		defer close(watched)
		p.client.Watch(serving, func(v control.View) {
			select {
			case views <- v:
			case <-serving.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-watched
		_ = p.client.Close()
	})
	p.views = views
	return p
}

// start starts an actor system that is stopped with the test.
func (p *producer) start(port int) actor.ActorSystem {
	p.t.Helper()
	system, err := startSystem(context.Background(), port)
	require.NoError(p.t, err)
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = workpull.Stop(ctx, system)
	})
	return system
}

func (p *producer) submit(jobs ...string) {
	p.t.Helper()
	for _, job := range jobs {
		require.NoError(p.t, p.system.NoSender().Tell(context.Background(), p.pid, wrapperspb.String(job)))
	}
}

// await reads what the operator is told until it is as wanted.
func (p *producer) await(what string, wanted func(*control.Snapshot) bool) *control.Snapshot {
	p.t.Helper()
	deadline := time.After(patience)
	var last control.View
	for {
		select {
		case v := <-p.views:
			if last = v; v.Snapshot != nil && wanted(v.Snapshot) {
				return v.Snapshot
			}
		case <-deadline:
			p.t.Fatalf("the operator was never told that %s; last: %+v", what, last)
		}
	}
}

// The operator sees what the controller knows, from no worker at all to one that
// has done everything; it retires that one and has it back (B12, B13).
func TestTheOperatorSeesAndRetires(t *testing.T) {
	ctx := context.Background()
	p := startProducer(t)
	p.submit("a", "b", "c")
	s := p.await("three jobs wait", func(s *control.Snapshot) bool { return s.Waiting.Is(3) })
	require.Empty(t, s.Workers)
	require.True(t, s.Running.Is(0))
	_, known := s.OldestAge.Get()
	require.True(t, known)

	finish := make(chan struct{})
	_, err := spawnWorker(ctx, p.start(testport.Free(t, 1)[0]), "uid-1/boot/0", p.port, func(d *workpull.Delivery) bool {
		<-finish
		return true
	})
	require.NoError(t, err)
	s = p.await("a job runs", func(s *control.Snapshot) bool { return s.Running.Is(1) && s.Buffered.Is(2) })
	require.Len(t, s.Workers, 1)
	w := s.Workers[0]
	require.Equal(t, "uid-1/boot/0", w.Identity)
	require.Equal(t, "uid-1", w.PodUID())
	require.Equal(t, "pod-1", w.Pod)
	require.Contains(t, w.Host, "127.0.0.1:")
	require.Equal(t, "a", w.RunningID)
	require.True(t, w.RunningAttempt.Is(1))
	require.True(t, w.Held.Is(3))
	require.False(t, w.HoldsNothing())
	since, known := w.RunningSince.Get()
	require.True(t, known)
	at, _ := s.At.Get()
	require.False(t, since.After(at))
	_, known = w.IdleSince.Get()
	require.False(t, known)
	_, known = s.OldestAge.Get()
	require.False(t, known, "none waits")

	retired, err := p.client.Retire(ctx, w.Identity, "uid-2/boot/0")
	require.NoError(t, err)
	session, _ := s.Session.Get()
	require.Equal(t, []control.Retirement{
		{Identity: w.Identity, Known: true, Held: control.Some(3), Session: session},
		{Identity: "uid-2/boot/0", Session: session}, // unknown: it may hold anything
	}, retired)
	require.False(t, retired[0].Empty())
	require.False(t, retired[1].Empty())

	p.submit("d")
	close(finish)
	s = p.await("the retired one holds nothing", func(s *control.Snapshot) bool {
		return len(s.Workers) == 1 && s.Workers[0].HoldsNothing() && s.Workers[0].Retired.Is(true)
	})
	require.True(t, s.Waiting.Is(1), "it was given nothing more")
	require.True(t, s.Confirmed.Is(3))
	idle, known := s.Workers[0].IdleSince.Get()
	require.True(t, known)
	require.False(t, idle.Before(since))
	retired, err = p.client.Retire(ctx, w.Identity)
	require.NoError(t, err)
	require.True(t, retired[0].Empty())

	require.NoError(t, p.client.Release(ctx, w.Identity))
	p.await("all is done", func(s *control.Snapshot) bool { return s.Confirmed.Is(4) && s.Waiting.Is(0) })

	// A report that is wrong does no harm.
	n, err := p.client.WorkerGone(ctx, "uid-1", "")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = p.client.WorkerGone(ctx, "uid-1", "another-boot")
	require.NoError(t, err)
	require.Zero(t, n)
	p.submit("e")
	s = p.await("the next job is done", func(s *control.Snapshot) bool { return s.Confirmed.Is(5) })
	require.True(t, s.Requeued.Is(0))
	require.Len(t, s.Workers, 1)
}

// A job is explained wherever it is, and a dead letter is listed, driven again
// and dropped (B3, B12).
func TestTheOperatorAsksForJobs(t *testing.T) {
	ctx := context.Background()
	p := startProducer(t)
	p.submit("broken")
	p.await("the job waits", func(s *control.Snapshot) bool { return s.Waiting.Is(1) })
	job, err := p.client.Explain(ctx, "broken")
	require.NoError(t, err)
	require.Equal(t, "waiting", job.State)

	_, err = spawnWorker(ctx, p.start(testport.Free(t, 1)[0]), "uid-1/boot/0", p.port, func(*workpull.Delivery) bool { return false })
	require.NoError(t, err)
	s := p.await("the job is dead", func(s *control.Snapshot) bool { return s.Dead.Is(1) })
	require.True(t, s.Confirmed.Is(0))
	job, err = p.client.Explain(ctx, "broken")
	require.NoError(t, err)
	require.Equal(t, "dead", job.State)
	require.Len(t, job.History, 1)
	letters, more, err := p.client.DeadLetters(ctx, 10)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, letters, 1)
	require.Equal(t, "broken", letters[0].ID)
	require.Equal(t, "a bolt is missing", letters[0].History[0].Reason)
	require.Equal(t, "uid-1/boot/0", letters[0].History[0].Worker)
	require.Contains(t, letters[0].TypeURL, "StringValue")

	require.NoError(t, p.client.Redrive(ctx, "broken"))
	p.await("it was rejected once more", func(s *control.Snapshot) bool { return s.Rejected.Is(2) && s.Dead.Is(1) })
	require.NoError(t, p.client.Drop(ctx, "broken"))
	require.ErrorIs(t, p.client.Drop(ctx, "broken"), control.ErrNoDeadLetter)
	_, err = p.client.Explain(ctx, "broken")
	require.ErrorIs(t, err, control.ErrUnknownJob)
}

// A worker's process that was killed while nothing is sent to it is found out by
// the operator's report, long before its lease ends; its job goes elsewhere
// (S27, S28).
func TestTheOperatorReportsADeath(t *testing.T) {
	ctx := context.Background()
	p := startProducer(t)
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), asWorker+"="+strconv.Itoa(p.port), asWorker+"_OWN="+strconv.Itoa(testport.Free(t, 1)[0]))
	process.Stderr = os.Stderr
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	p.submit("a")
	p.await("the job runs", func(s *control.Snapshot) bool { return s.Running.Is(1) })
	require.NoError(t, process.Process.Kill())
	_ = process.Wait()

	n, err := p.client.WorkerGone(ctx, "uid-h", "boot")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	s := p.await("the worker is gone", func(s *control.Snapshot) bool { return len(s.Workers) == 0 })
	require.True(t, s.Requeued.Is(1))
	require.Eventually(t, func() bool {
		job, err := p.client.Explain(ctx, "a")
		return err == nil && len(job.History) == 1
	}, patience, glance)
}

// A producer whose endpoint ended is told to be in trouble, and what was known is
// kept no longer than it is good for.
func TestTheEndpointEnds(t *testing.T) {
	p := startProducer(t)
	p.await("there is a state", func(s *control.Snapshot) bool { return s.Waiting.Is(0) })
	require.NoError(t, p.pid.Shutdown(context.Background()))
	require.Eventually(t, func() bool {
		v := <-p.views
		return v.Err != nil && !v.Stale(v.Heard)
	}, patience, glance)
	_, err := p.client.Retire(context.Background(), "a")
	require.Error(t, err)
}
