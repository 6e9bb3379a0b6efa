package workpull_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/workpull"
)

const (
	systemName = "workpull-test"
	patience   = 30 * time.Second // of Eventually; nothing here takes that long
	glance     = 5 * time.Millisecond
)

// startSystem starts an actor system that is stopped with the test.
func startSystem(t testing.TB, options ...actor.Option) actor.ActorSystem {
	t.Helper()
	system, err := actor.NewActorSystem(systemName, append([]actor.Option{actor.WithLogger(testLogger())}, options...)...)
	require.NoError(t, err)
	require.NoError(t, system.Start(context.Background()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if system.Running() {
			_ = workpull.Stop(ctx, system)
		}
	})
	return system
}

// startRemote starts a system with remoting on a port of its own.
func startRemote(t testing.TB) (actor.ActorSystem, int) {
	port := testport.Free(t, 1)[0]
	return startSystem(t, actor.WithRemote(remote.NewConfig("127.0.0.1", port))), port
}

// dispatcher is a producer actor that offers the jobs it was given, one per
// request, and notes what becomes of them.
type dispatcher struct {
	mu        sync.Mutex
	jobs      []string
	waiting   *workpull.RequestNext
	answered  *workpull.Produced // a repeat of its request crossed it
	from      *actor.PID
	stored    map[string]uint64
	confirmed map[string]int
	requests  int
	starts    int
	unsaved   string // produced, and not Stored yet
	onMessage func(ctx *actor.ReceiveContext) bool
}

func newDispatcher(jobs ...string) *dispatcher {
	return &dispatcher{jobs: jobs, stored: map[string]uint64{}, confirmed: map[string]int{}}
}

func jobNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("job-%d", i)
	}
	return names
}

func (d *dispatcher) PreStart(*actor.Context) error {
	d.mu.Lock()
	d.starts++
	d.mu.Unlock()
	return nil
}
func (d *dispatcher) PostStop(*actor.Context) error { return nil }

func (d *dispatcher) Receive(ctx *actor.ReceiveContext) {
	if d.onMessage != nil && d.onMessage(ctx) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		if !m.IsAuthorizedFor(ctx.Self(), ctx.Sender()) {
			panic("RequestNext from a stranger")
		}
		d.requests++
		if d.answered != nil && d.answered.Session() == m.Session() && m.Token() <= d.answered.Token() {
			return
		}
		if d.unsaved != "" && d.answered.Session() != m.Session() {
			d.jobs = append([]string{d.unsaved}, d.jobs...) // who asked for it ended before it was stored
		}
		d.waiting, d.from = m, ctx.Sender()
		d.offer(ctx.Self())
	case *wrapperspb.StringValue: // a job from outside
		d.jobs = append(d.jobs, m.GetValue())
		d.offer(ctx.Self())
	case *workpull.Stored:
		d.stored[m.MessageID()] = m.StoreSequence()
		if d.unsaved == m.MessageID() {
			d.unsaved = ""
		}
		ack, err := workpull.NewStoredAck(m)
		if err != nil {
			panic(err)
		}
		ctx.Tell(ctx.Sender(), ack)
	case *workpull.DeliveryConfirmed:
		d.confirmed[m.MessageID()]++
	}
}

func (d *dispatcher) offer(self *actor.PID) {
	if d.waiting == nil || len(d.jobs) == 0 {
		return
	}
	produced, err := workpull.NewProduced(d.waiting, d.jobs[0], wrapperspb.String(d.jobs[0]))
	if err != nil {
		panic(err)
	}
	d.unsaved, d.jobs, d.waiting, d.answered = d.jobs[0], d.jobs[1:], nil, produced
	if err := self.Tell(context.Background(), d.from, produced); err != nil {
		panic(err)
	}
}

func (d *dispatcher) confirmations() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.confirmed)
}

// ledger counts how often each job ran, over all workers.
type ledger struct {
	mu   sync.Mutex
	runs map[string]int
	by   map[string]int
}

func newLedger() *ledger { return &ledger{runs: map[string]int{}, by: map[string]int{}} }

func (l *ledger) note(worker, job string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[job]++
	l.by[worker]++
	return l.runs[job]
}

func (l *ledger) distinct() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

func (l *ledger) count(worker string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[worker]
}

func (l *ledger) ran(job string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[job]
}

// worker is a worker actor that notes each job and confirms it, unless handle
// says otherwise.
type worker struct {
	ledger *ledger
	starts chan struct{}
	handle func(ctx *actor.ReceiveContext, d *workpull.Delivery) (confirm bool)
}

func (w *worker) PreStart(*actor.Context) error {
	if w.starts != nil {
		w.starts <- struct{}{}
	}
	return nil
}
func (w *worker) PostStop(*actor.Context) error { return nil }

func (w *worker) Receive(ctx *actor.ReceiveContext) {
	d, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	if !d.IsAuthorizedFor(ctx.Self(), ctx.Sender()) {
		panic("Delivery from a stranger")
	}
	if d.Payload().(*wrapperspb.StringValue).GetValue() != d.MessageID() {
		panic("payload and MessageID differ")
	}
	if w.ledger != nil {
		w.ledger.note(ctx.Self().Name(), d.MessageID())
	}
	if w.handle != nil && !w.handle(ctx, d) {
		return
	}
	confirmed, err := workpull.NewConfirmed(d)
	if err != nil {
		panic(err)
	}
	ctx.Tell(ctx.Sender(), confirmed)
}

func spawnProducer(t testing.TB, system actor.ActorSystem, d actor.Actor, options ...workpull.ProducerOption) *actor.PID {
	t.Helper()
	options = append([]workpull.ProducerOption{workpull.WithReliableRetryInterval(50 * time.Millisecond)}, options...)
	pid, err := workpull.Spawn(context.Background(), system, "dispatcher", d, workpull.AsReliableWorkPullingProducer(options...))
	require.NoError(t, err)
	return pid
}

func spawnWorker(t testing.TB, system actor.ActorSystem, name string, w actor.Actor, options ...workpull.WorkerOption) *actor.PID {
	t.Helper()
	options = append([]workpull.WorkerOption{workpull.WithReliableResendInterval(100 * time.Millisecond)}, options...)
	pid, err := workpull.Spawn(context.Background(), system, name, w, workpull.AsReliableWorkPullingWorker("dispatcher", options...))
	require.NoError(t, err)
	return pid
}

func inspectProducer(t testing.TB, pid *actor.PID) workpull.Snapshot {
	t.Helper()
	s, err := workpull.Inspect(context.Background(), pid)
	require.NoError(t, err)
	return s
}

// testLogger discards, unless WORKPULL_TEST_LOG is set to debug a test.
func testLogger() log.Logger {
	if os.Getenv("WORKPULL_TEST_LOG") == "" {
		return log.DiscardLogger
	}
	return log.New(log.InfoLevel, os.Stderr)
}

func hostPort(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
