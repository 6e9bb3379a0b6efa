package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a Send whose first call waits, so that what follows gathers.
type gate struct {
	mu      sync.Mutex
	sends   [][]proto.Message
	entered chan struct{}
	open    chan struct{}
	err     error
	running int
	peak    int
}

func newGate() *gate { return &gate{entered: make(chan struct{}, 1000), open: make(chan struct{})} }

func (g *gate) send(_ context.Context, messages []proto.Message) error {
	g.mu.Lock()
	g.sends = append(g.sends, messages)
	g.running++
	g.peak = max(g.peak, g.running)
	g.mu.Unlock()
	g.entered <- struct{}{}
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	return g.err
}

func job(sequence uint64, bytes int) *wire.Job {
	return &wire.Job{Sequence: sequence, MessageId: fmt.Sprint("job-", sequence), Payload: make([]byte, bytes), Attempt: 1}
}

func (g *gate) count() int { g.mu.Lock(); defer g.mu.Unlock(); return len(g.sends) }

func wait(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 5*time.Second, time.Millisecond)
}

func idle(o *Outbox) func() bool {
	return func() bool { o.mu.Lock(); defer o.mu.Unlock(); return !o.sending && len(o.queue) == 0 }
}

func TestManyJobsGoInOneMessage(t *testing.T) {
	g := newGate()
	o := New(Config{Send: g.send})
	o.Job(1, 2, job(1, 10))
	<-g.entered
	for s := uint64(2); s <= 101; s++ {
		o.Job(1, 2, job(s, 10))
	}
	close(g.open)
	wait(t, idle(o))
	require.Len(t, g.sends, 2)
	require.Len(t, g.sends[1], 1)
	batch := g.sends[1][0].(*wire.Batch)
	require.EqualValues(t, 1, batch.GetSession())
	require.EqualValues(t, 2, batch.GetBinding())
	require.Len(t, batch.GetJobs(), 100)
	for i, j := range batch.GetJobs() {
		require.EqualValues(t, i+2, j.GetSequence(), "in order")
	}
	require.Equal(t, 1, g.peak, "one send at a time")
}

func TestASendIsBoundedByBytesAndByCount(t *testing.T) {
	g := newGate()
	o := New(Config{Send: g.send, MaxBytes: 1000, MaxJobs: 4})
	o.Job(1, 1, job(1, 1))
	<-g.entered
	for s := uint64(2); s <= 5; s++ {
		o.Job(1, 1, job(s, 300)) // three fit
	}
	o.Job(1, 1, job(6, 5000)) // larger than the bound: alone
	for s := uint64(7); s <= 12; s++ {
		o.Job(1, 1, job(s, 1))
	}
	close(g.open)
	wait(t, idle(o))
	var sizes []int
	for _, messages := range g.sends {
		n := 0
		for _, m := range messages {
			n += len(m.(*wire.Batch).GetJobs())
		}
		sizes = append(sizes, n)
	}
	require.Equal(t, []int{1, 2, 2, 1, 4, 2}, sizes)
}

func TestOrderIsKeptBetweenJobsAndOtherMessages(t *testing.T) {
	g := newGate()
	o := New(Config{Send: g.send})
	o.Message(0, wrapperspb.String("first"))
	<-g.entered
	o.Message(7, wrapperspb.String("ack"))
	o.Job(1, 7, job(1, 1))
	o.Job(1, 7, job(2, 1))
	o.Message(7, wrapperspb.String("between"))
	o.Job(1, 7, job(3, 1))
	o.Job(1, 8, job(1, 1)) // another binding
	close(g.open)
	wait(t, idle(o))
	require.Len(t, g.sends, 2)
	var shape []string
	for _, m := range g.sends[1] {
		switch m := m.(type) {
		case *wire.Batch:
			shape = append(shape, fmt.Sprintf("%d jobs of %d", len(m.GetJobs()), m.GetBinding()))
		case *wrapperspb.StringValue:
			shape = append(shape, m.GetValue())
		}
	}
	require.Equal(t, []string{"ack", "2 jobs of 7", "between", "1 jobs of 7", "1 jobs of 8"}, shape)
}

// A failure reports every binding whose messages may be lost, sent or waiting,
// and throws the rest away; what is put in later is sent again (rule 45).
func TestAFailureThrowsAwayWhatWaits(t *testing.T) {
	g := newGate()
	g.err = errors.New("refused")
	failed := make(chan []uint64, 10)
	o := New(Config{Send: g.send, Failed: func(b []uint64) { failed <- b }})
	o.Job(1, 5, job(1, 1))
	<-g.entered
	o.Job(1, 5, job(2, 1))
	o.Job(1, 6, job(1, 1))
	o.Message(0, wrapperspb.String("of no binding"))
	close(g.open)
	require.Equal(t, []uint64{5, 6}, <-failed)
	wait(t, idle(o))
	require.Equal(t, 1, g.count())

	g.mu.Lock()
	g.err = nil
	g.mu.Unlock()
	o.Job(1, 5, job(3, 1))
	wait(t, func() bool { return g.count() == 2 && idle(o)() })
	require.Empty(t, failed)
}

func TestASendHasADeadline(t *testing.T) {
	failed := make(chan []uint64, 1)
	o := New(Config{Timeout: 10 * time.Millisecond, Failed: func(b []uint64) { failed <- b },
		Send: func(ctx context.Context, _ []proto.Message) error { <-ctx.Done(); return ctx.Err() }})
	o.Job(1, 5, job(1, 1))
	require.Equal(t, []uint64{5}, <-failed)
}

func TestCloseThrowsAwayAndReleasesOnce(t *testing.T) {
	g := newGate()
	g.err = errors.New("late")
	released, failed := make(chan struct{}, 2), make(chan []uint64, 1)
	o := New(Config{Send: g.send, Closed: func() { released <- struct{}{} }, Failed: func(b []uint64) { failed <- b }})
	o.Job(1, 5, job(1, 1))
	<-g.entered
	o.Job(1, 5, job(2, 1))
	o.Close()
	o.Close()
	require.Empty(t, released, "a send is under way")
	close(g.open)
	<-released
	o.Job(1, 5, job(3, 1))
	require.Equal(t, 1, g.count())
	require.Empty(t, failed, "nobody is concerned any more")

	unused := New(Config{Send: g.send, Closed: func() { released <- struct{}{} }})
	unused.Close()
	<-released
	require.Empty(t, released)
}

func TestFinishSendsWhatWaits(t *testing.T) {
	g := newGate()
	released := make(chan struct{}, 2)
	o := New(Config{Send: g.send, Closed: func() { released <- struct{}{} }})
	o.Job(1, 5, job(1, 1))
	<-g.entered
	o.Job(1, 5, job(2, 1))
	o.Finish()
	o.Job(1, 5, job(3, 1))
	require.Empty(t, released, "a job waits")
	close(g.open)
	<-released
	o.Close()
	o.Finish()
	require.Equal(t, 2, g.count())
	require.Empty(t, released)

	unused := New(Config{Send: g.send, Closed: func() { released <- struct{}{} }})
	unused.Finish()
	<-released
}

func BenchmarkPacking(b *testing.B) {
	o := New(Config{Send: func(context.Context, []proto.Message) error { return nil }})
	defer o.Close()
	j := job(1, 200)
	b.ReportAllocs()
	for b.Loop() {
		o.Job(1, 1, j)
	}
}
