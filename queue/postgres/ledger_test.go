package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/workpull"
)

// patience is how long a server that was killed or promoted may take to serve
// again: far more than it does on a machine that is busy.
const patience = time.Minute

// ledger is a writer that tries each commit until it is done, as a controller
// does, and notes what it was told.
type ledger struct {
	queue *postgres.Queue
	epoch workpull.QueueEpoch
	// A commit stores jobs, accepts those of the commit before, and confirms
	// every other of the one before that.
	width    int
	payload  workpull.ReliablePayload
	stored   []string          // acknowledged, in order
	sequence map[string]uint64 // of those
	accepted int               // as many of them, the first
	done     map[string]bool   // confirmed, and acknowledged
	errors   int               // of commits that were tried again
	last     error
}

func begin(t *testing.T, q *postgres.Queue) *ledger {
	t.Helper()
	l := &ledger{queue: q, width: 8, sequence: map[string]uint64{}, done: map[string]bool{}, payload: payload(t, "job")}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if _, l.epoch, err = q.Load(ctx); err != nil {
		t.Fatal(err)
	}
	return l
}

// try does one commit once.
func (l *ledger) try(ctx context.Context) error {
	var stores []workpull.StoreRequest
	for i := range l.width {
		request, err := workpull.NewStoreRequest(fmt.Sprint("job ", len(l.stored)+i), 0, l.payload)
		if err != nil {
			return err
		}
		stores = append(stores, request)
	}
	accepts := l.stored[l.accepted:]
	var confirms []string
	for i := max(0, l.accepted-l.width); i < l.accepted; i += 2 {
		confirms = append(confirms, l.stored[i])
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	results, err := l.queue.Commit(ctx, l.epoch, workpull.NewWorkBatch(stores, accepts, confirms))
	if err != nil {
		return err
	}
	l.accepted = len(l.stored)
	for i, r := range results {
		l.stored = append(l.stored, stores[i].MessageID())
		l.sequence[stores[i].MessageID()] = r.Sequence()
	}
	for _, id := range confirms {
		l.done[id] = true
	}
	return nil
}

// commit tries until the commit is done.
func (l *ledger) commit(ctx context.Context) error {
	for {
		err := l.try(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, workpull.ErrQueueFenced) || errors.Is(err, workpull.ErrQueueConflict) {
			return err
		}
		l.errors++
		l.last = err
	}
}

// background commits until the test says stop, which returns once the last
// commit is done; ticks has a value for each.
func (l *ledger) background(t *testing.T) (ticks <-chan int, stop func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	done := make(chan int, 1)
	halt, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 1; ; n++ {
			select {
			case <-halt:
				ended <- nil
				return
			default:
			}
			if err := l.commit(ctx); err != nil {
				ended <- err
				return
			}
			select {
			case <-done: // what nobody read
			default:
			}
			done <- n
		}
	}()
	t.Cleanup(cancel)
	return done, func() {
		t.Helper()
		close(halt)
		if err := <-ended; err != nil {
			t.Fatalf("commit: %v, before that: %v", err, l.last)
		}
	}
}

// more waits for that many commits.
func more(t *testing.T, ticks <-chan int, commits int) {
	t.Helper()
	over := time.After(2 * patience)
	for first := 0; ; {
		select {
		case n := <-ticks:
			if first == 0 {
				first = n
			}
			if n-first >= commits {
				return
			}
		case <-over:
			t.Fatalf("no %d commits within %s", commits, 2*patience)
		}
	}
}

// audit loads the flow through that queue and fails unless it holds what was
// acknowledged, and nothing that was acknowledged as done (S33).
func (l *ledger) audit(t *testing.T, q *postgres.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	state, _, err := q.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]workpull.UnconfirmedMessage{}
	for _, m := range state.Messages() {
		held[m.MessageID()] = m
	}
	seen := map[uint64]string{}
	for i, id := range l.stored {
		m, there := held[id]
		sequence := l.sequence[id]
		switch {
		case seen[sequence] != "":
			t.Errorf("%s and %s have sequence %d", id, seen[sequence], sequence)
		case l.done[id] && there:
			t.Errorf("%s was confirmed and is loaded", id)
		case !l.done[id] && !there:
			t.Errorf("%s was acknowledged and is lost", id)
		case there && (m.Sequence() != sequence || m.Accepted() != (i < l.accepted)):
			t.Errorf("%s has sequence %d, accepted %t, wanted %d, %t", id, m.Sequence(), m.Accepted(), sequence, i < l.accepted)
		}
		seen[sequence] = id
		delete(held, id)
	}
	if len(held) > 0 {
		t.Errorf("%d jobs are loaded that nobody was told of", len(held))
	}
	t.Logf("%d stored, %d done, %d commits were tried again, the last for: %v", len(l.stored), len(l.done), l.errors, l.last)
}

func payload(t testing.TB, value string) workpull.ReliablePayload {
	t.Helper()
	p, err := workpull.NewReliablePayload("type.test/job", []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func requests(t testing.TB, p workpull.ReliablePayload, ids ...string) []workpull.StoreRequest {
	t.Helper()
	var all []workpull.StoreRequest
	for _, id := range ids {
		r, err := workpull.NewStoreRequest(id, 0, p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// open is a queue that is closed with the test.
func open(t testing.TB, url, flow string, options ...postgres.Option) *postgres.Queue {
	t.Helper()
	q := postgres.New(url, flow, options...)
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

// holds loads the flow and fails unless it has exactly these jobs.
func holds(t testing.TB, q *postgres.Queue, ids ...string) workpull.QueueEpoch {
	t.Helper()
	state, epoch, err := q.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range state.Messages() {
		got = append(got, m.MessageID())
	}
	if !slices.Equal(got, ids) {
		t.Fatalf("loaded %q, wanted %q", got, ids)
	}
	return epoch
}

// ask runs a query of one value as the test's own session.
func ask[T any](t testing.TB, url, query string, args ...any) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var value T
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}
