package queuetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/queue/queuetest"
	"github.com/workpull/operator/workpull"
)

// factory makes stores in memory that are opened as told.
func factory(open func(name string) workpull.DurableWorkQueue) queuetest.Factory {
	var stores atomic.Int64
	return func(t *testing.T) queuetest.Open {
		name := fmt.Sprintf("%s %d", t.Name(), stores.Add(1))
		t.Cleanup(func() { memory.Drop(name) })
		return func(*testing.T) workpull.DurableWorkQueue { return open(name) }
	}
}

// plain is a queue that offers nothing beyond the contract.
type plain struct{ workpull.DurableWorkQueue }

func (q *plain) UnmarshalBinary(data []byte) error {
	inner := new(memory.Queue)
	if err := inner.UnmarshalBinary(data); err != nil {
		return err
	}
	q.DurableWorkQueue = inner
	return nil
}

// all is the same queue with all that it offers.
func (q *plain) all() *memory.Queue { return q.DurableWorkQueue.(*memory.Queue) }

// Load leaves nothing with the queue, which pages.
func (q *plain) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.all().Load(ctx)
	if err == nil {
		state, err = q.filled(ctx, state, epoch)
	}
	return state, epoch, err
}

func (q *plain) filled(ctx context.Context, state workpull.WorkQueueState, epoch workpull.QueueEpoch) (workpull.WorkQueueState, error) {
	messages := state.Messages()
	for i, m := range messages {
		if !m.Paged() {
			continue
		}
		page, err := q.all().Payloads(ctx, epoch, []string{m.MessageID()})
		if err != nil {
			return state, err
		}
		filled, err := workpull.NewUnconfirmedMessage(m.MessageID(), m.Sequence(), page[0], m.Accepted())
		if p, ok := m.Progress(); ok && err == nil {
			filled, err = filled.WithProgress(p)
		}
		if err != nil {
			return state, err
		}
		messages[i] = filled
	}
	return workpull.NewWorkQueueState(state.Cursor(), messages)
}

// Queues that offer one thing each.
type (
	paging        struct{ plain }
	attempts      struct{ plain }
	deduplicating struct{ plain }
	conditional   struct{ plain }
)

func (q *paging) Payloads(ctx context.Context, epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	return q.all().Payloads(ctx, epoch, ids)
}

func (q *attempts) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	return q.all().SaveProgress(ctx, epoch, progress)
}

func (q *deduplicating) KeepCompleted(ctx context.Context, epoch workpull.QueueEpoch, window time.Duration) error {
	return q.all().KeepCompleted(ctx, epoch, window)
}

func (q *deduplicating) Completed(ctx context.Context, id string) (workpull.CompletedMessage, bool, error) {
	return q.all().Completed(ctx, id)
}

func (q *conditional) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.all().Reload(ctx, epoch)
	if err == nil {
		state, err = q.filled(ctx, state, epoch)
	}
	return state, epoch, err
}

// frugal leaves every payload with the queue.
type frugal struct{ memory.Queue }

func (q *frugal) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.Queue.Load(ctx)
	if err == nil {
		state, err = left(state)
	}
	return state, epoch, err
}

func (q *frugal) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.Queue.Reload(ctx, epoch)
	if err == nil {
		state, err = left(state)
	}
	return state, epoch, err
}

func left(state workpull.WorkQueueState) (workpull.WorkQueueState, error) {
	messages := state.Messages()
	for i, m := range messages {
		paged, err := workpull.NewPagedMessage(m.MessageID(), m.Sequence(), m.Accepted())
		if p, ok := m.Progress(); ok && err == nil {
			paged, err = paged.WithProgress(p)
		}
		if err != nil {
			return state, err
		}
		messages[i] = paged
	}
	return workpull.NewWorkQueueState(state.Cursor(), messages)
}

// TestPlain: a queue that offers nothing beyond the contract passes
// (rules 64-72), and each of the optional interfaces stands alone (B3, B9, B11,
// B16).
func TestPlain(t *testing.T) {
	for _, queue := range []struct {
		offers string
		open   func(name string) workpull.DurableWorkQueue
	}{
		{"nothing", named[plain]},
		{"paging", named[paging]},
		{"attempts", named[attempts]},
		{"deduplication", named[deduplicating]},
		{"conditional reload", named[conditional]},
		{"everything, and pages from the first job", named[frugal]},
	} {
		t.Run(queue.offers, func(t *testing.T) { queuetest.Run(t, factory(queue.open)) })
	}
}

// closing counts how often it was closed, and answers nobody from then on.
type closing struct {
	whole
	closed atomic.Int64
}

var errClosed = errors.New("closed")

func (q *closing) Close() error {
	if q.closed.Add(1) > 1 {
		return errClosed
	}
	return nil
}

func (q *closing) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	if q.closed.Load() > 0 {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, errClosed
	}
	return q.whole.Load(ctx)
}

func (q *closing) Accept(ctx context.Context, epoch workpull.QueueEpoch, id string) error {
	if q.closed.Load() > 0 {
		return errClosed
	}
	return q.whole.Accept(ctx, epoch, id)
}

// TestClosed: every queue that can be closed is closed once, and none is used
// afterwards.
func TestClosed(t *testing.T) {
	var opened []*closing
	t.Run("suite", func(t *testing.T) {
		queuetest.Run(t, factory(func(name string) workpull.DurableWorkQueue {
			q := named[closing](name).(*closing)
			opened = append(opened, q)
			return q
		}))
	})
	if len(opened) == 0 {
		t.Fatal("no queue was opened")
	}
	for i, q := range opened {
		if n := q.closed.Load(); n != 1 {
			t.Errorf("queue %d of %d was closed %d times", i, len(opened), n)
		}
	}
}

// flawVariable names the flaw that a child of TestFlaws has. Without a flaw of
// that name it is whole.
const flawVariable = "QUEUETEST_FLAW"

// TestFlaws: a queue that breaks a rule fails that rule's subtest (rules 64-72,
// B1, B3, B8, B9, B11, B16). The suite runs in a process of its own, where it
// may fail.
func TestFlaws(t *testing.T) {
	if flaw, child := os.LookupEnv(flawVariable); child {
		open := named[whole]
		if f, ok := flaws[flaw]; ok {
			open = f.open
		}
		queuetest.Run(t, factory(open))
		return
	}
	noticed := map[string]bool{}
	for flaw, f := range flaws {
		t.Run(flaw, func(t *testing.T) {
			out, err := suite(t, flaw, f.noticed)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(out, "--- FAIL: TestFlaws/"+underscored(f.noticed)) || strings.Contains(out, "panic:") {
				t.Errorf("%q did not notice: %v\n%s", f.noticed, err, out)
			}
		})
		noticed[f.noticed] = true
	}
	t.Run("none", func(t *testing.T) {
		out, err := suite(t, "none", "")
		if err != nil {
			t.Fatalf("a queue without a flaw: %v\n%s", err, out)
		}
		// Every subtest has a flaw that it notices.
		for line := range strings.Lines(out) {
			_, name, ok := strings.Cut(line, "--- PASS: TestFlaws/")
			for n := range noticed {
				ok = ok && !strings.HasPrefix(name, underscored(n))
			}
			if ok {
				t.Errorf("no flaw for %s", name)
			}
		}
	})
}

// suite runs the subtests whose names begin so, against a queue with the flaw,
// and returns what they print.
func suite(t *testing.T, flaw, subtests string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestFlaws$/^"+underscored(subtests), "-rapid.nofailfile", "-rapid.shrinktime", "1ms")
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), flawVariable+"="+flaw)
	out, err := command.CombinedOutput()
	return string(out), err
}

// underscored is a subtest's name as it is printed.
func underscored(name string) string { return strings.ReplaceAll(name, " ", "_") }
