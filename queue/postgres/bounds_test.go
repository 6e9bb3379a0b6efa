package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/workpull"
)

// finish stores, accepts and confirms that many jobs, in commits of 500.
func finish(t *testing.T, q *postgres.Queue, epoch workpull.QueueEpoch, prefix string, jobs int) {
	t.Helper()
	p := payload(t, "x")
	for from := 0; from < jobs; from += 500 {
		var ids []string
		for i := from; i < min(from+500, jobs); i++ {
			ids = append(ids, fmt.Sprint(prefix, i))
		}
		if _, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch(requests(t, p, ids...), ids, ids)); err != nil {
			t.Fatal(err)
		}
	}
}

// known tells whether a store finds the job.
func known(t *testing.T, q *postgres.Queue, epoch workpull.QueueEpoch, id string) bool {
	t.Helper()
	results, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch(requests(t, payload(t, "again"), id), nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	return results[0].AlreadyStored()
}

// TestRule70BoundedMemory: of what was completed the latest thousands are known
// and the others are not, however many there were; what is not completed stays,
// and a load forgets the rest.
func TestRule70BoundedMemory(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := open(t, url, "bounded")
	epoch := holds(t, q)
	if _, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch(requests(t, payload(t, "x"), "waits"), nil, nil)); err != nil {
		t.Fatal(err)
	}
	const jobs, remembered, batch = 20_000, 8192, 500
	finish(t, q, epoch, "job ", jobs)
	rows := func() int {
		return ask[int](t, url, "SELECT count(*) FROM workpull.jobs")
	}
	if n := rows(); n < remembered || n > remembered+2*batch+1 {
		t.Errorf("%d rows after %d jobs, wanted some %d", n, jobs, remembered)
	}
	if n := ask[int](t, url, "SELECT count(*) FROM workpull.completed"); n > (remembered+2*batch)/batch {
		t.Errorf("%d rows of what was completed", n)
	}
	last := fmt.Sprint("job ", jobs-1)
	if err := q.Accept(t.Context(), epoch, last); err != nil {
		t.Error(err)
	}
	if err := q.ConfirmMessage(t.Context(), epoch, "job 0"); !errors.Is(err, workpull.ErrQueueConflict) || !strings.Contains(err.Error(), `"job 0"`) {
		t.Errorf("confirm of a job that is forgotten: %v", err)
	}
	if !known(t, q, epoch, last) || known(t, q, epoch, "job 1") {
		t.Errorf("the last is known: %t, the second: %t", known(t, q, epoch, last), known(t, q, epoch, "job 1"))
	}
	epoch = holds(t, q, "waits", "job 1")
	if n := rows(); n != 2 {
		t.Errorf("%d rows after a load, wanted 2", n)
	}
	if known(t, q, epoch, last) {
		t.Error("the last is known after a load")
	}
}

// TestS35Window: what was completed within the window is known over loads, and
// is forgotten once it is older, a bounded number at a time.
func TestS35Window(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := open(t, url, "kept")
	epoch := holds(t, q)
	if err := q.KeepCompleted(t.Context(), epoch, time.Hour); err != nil {
		t.Fatal(err)
	}
	finish(t, q, epoch, "job ", 10_000)
	epoch = holds(t, q)
	if !known(t, q, epoch, "job 0") || !known(t, q, epoch, "job 9999") {
		t.Error("a job is forgotten within the window")
	}
	// Half of it becomes two hours old.
	ask[int](t, url, `WITH older AS (UPDATE workpull.completed SET at = at - interval '2 hours' WHERE last <= 5000 RETURNING 1) SELECT count(*) FROM older`)
	finish(t, q, epoch, "more ", 5_000) // in ten commits, each of which may forget four
	if n := ask[int](t, url, "SELECT count(*) FROM workpull.jobs"); n != 10_000 {
		t.Errorf("%d rows, wanted those of the last hour, 10000", n)
	}
	if known(t, q, epoch, "job 4999") || !known(t, q, epoch, "job 5000") {
		t.Errorf("of the older half the last is known: %t, of the younger the first: %t", known(t, q, epoch, "job 4999"), known(t, q, epoch, "job 5000"))
	}
	m, found, err := q.Completed(t.Context(), "job 5000")
	if err != nil || !found || m.Sequence() != 5001 || time.Since(m.Time()) > time.Hour {
		t.Errorf("completed %t as %d at %s: %v", found, m.Sequence(), m.Time(), err)
	}
	if err := q.KeepCompleted(t.Context(), epoch, -1); err != nil {
		t.Fatal(err)
	}
	epoch = holds(t, q, "job 4999")
	if known(t, q, epoch, "job 5000") {
		t.Error("a job is known after the window was closed and the queue loaded")
	}
}

// TestLongBacklog: a load returns the payloads of the first jobs up to its
// budget, and the identities of all, and takes no time that grows with more than
// their number (B11).
func TestLongBacklog(t *testing.T) {
	const jobs, size = 200_000, 200
	url := pgtest.Shared(t).Database(t)
	holds(t, open(t, url, "long"))
	ask[int](t, url, `
		WITH made AS (
			INSERT INTO workpull.jobs (sequence, flow, state, key, message_id, type_url, payload)
			SELECT n * 2, f.number, n % 2, convert_to('job ' || n, 'UTF8'), '', 'type.test/job', decode(repeat('ab', $1), 'hex')
			FROM generate_series(1, $2) n, workpull.flows f ORDER BY md5(n::text) RETURNING 1),
		moved AS (UPDATE workpull.flows SET cursor = 2 * $2 + 1 RETURNING 1)
		SELECT count(*) FROM made`, size, jobs)
	const budget = 1 << 20
	q := open(t, url, "long", postgres.WithLoadBudget(budget))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	state, epoch, err := q.Load(ctx)
	if err != nil || state.Len() != jobs || state.Cursor() != 2*jobs+1 {
		t.Fatalf("%d jobs, cursor %d: %v", state.Len(), state.Cursor(), err)
	}
	var page []string
	for i, m := range state.Messages() {
		whole := i < budget/size
		if m.MessageID() != fmt.Sprint("job ", i+1) || m.Sequence() != uint64(2*i+2) || m.Accepted() != (i%2 == 0) || m.Paged() == whole || whole && m.Payload().Size() != size {
			t.Fatalf("job %d is %q, sequence %d, accepted %t, paged %t, %d bytes", i, m.MessageID(), m.Sequence(), m.Accepted(), m.Paged(), m.Payload().Size())
		}
		if i >= jobs-workpull.MaxPage {
			page = append(page, m.MessageID())
		}
	}
	payloads, err := q.Payloads(ctx, epoch, page)
	if err != nil || len(payloads) != len(page) || payloads[0].Size() != size {
		t.Errorf("%d payloads: %v", len(payloads), err)
	}
	if _, err := q.Payloads(ctx, epoch, append(page, "one more")); !errors.Is(err, postgres.ErrPage) {
		t.Errorf("payloads of %d jobs: %v, wanted %v", len(page)+1, err, postgres.ErrPage)
	}
	if state, _, err = open(t, url, "long", postgres.WithLoadBudget(0)).Load(ctx); err != nil || !state.Messages()[0].Paged() {
		t.Errorf("load without a budget: %v", err)
	}
}

// TestB8LargeCommit: a commit that is too large for one statement is all or
// nothing, too.
func TestB8LargeCommit(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	q := open(t, url, "large")
	epoch := holds(t, q)
	p := payload(t, strings.Repeat("x", 12<<20))
	ids := []string{"a", "b", "a", "c", "d", "e"}
	_, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch(requests(t, p, ids...), []string{"a", "e"}, []string{"never"}))
	if !errors.Is(err, workpull.ErrQueueConflict) || !strings.Contains(err.Error(), `"never"`) {
		t.Fatalf("commit with a part that is refused: %v", err)
	}
	epoch = holds(t, q)
	results, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch(requests(t, p, ids...), []string{"a", "e"}, []string{"c"}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{1, 2, 1, 3, 4, 5} {
		if r := results[i]; r.Sequence() != want || r.AlreadyStored() != (i == 2) || r.Payload().Size() != p.Size() {
			t.Errorf("store %d: sequence %d, already %t, %d bytes", i, r.Sequence(), r.AlreadyStored(), r.Payload().Size())
		}
	}
	holds(t, q, "a", "b", "d", "e")
}
