package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/workpull"
)

// database of a URL.
func database(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path[1:]
}

// TestS33KilledBackend: the server ends the sessions of the queue in the middle
// of their commits. Each commit is tried again, and was done once.
func TestS33KilledBackend(t *testing.T) {
	server := pgtest.Shared(t)
	url := server.Database(t)
	l := begin(t, open(t, url, "killed"))
	ticks, stop := l.background(t)
	killed := 0
	for killed < 15 {
		killed += ask[int](t, server.SocketURL("postgres"), `
			SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = $1 AND application_name = 'workpull' AND state = 'active'`, database(t, url))
	}
	more(t, ticks, 2)
	stop()
	if l.errors == 0 {
		t.Errorf("%d sessions were ended, and no commit noticed", killed)
	}
	l.audit(t, open(t, url, "killed"))
}

// TestS33KilledServer: the server is killed under load, and recovers. Whatever
// was acknowledged is there.
func TestS33KilledServer(t *testing.T) {
	server := pgtest.New(t)
	url := server.Database(t)
	l := begin(t, open(t, url, "killed"))
	ticks, stop := l.background(t)
	for range 3 {
		more(t, ticks, 20)
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	more(t, ticks, 2)
	stop()
	if l.errors == 0 {
		t.Error("the server was killed, and no commit noticed")
	}
	l.audit(t, open(t, url, "killed"))
}

// TestSerializationFailures: where the database serializes by refusing, the
// queue tries again, and nobody notices.
func TestSerializationFailures(t *testing.T) {
	server := pgtest.Shared(t)
	url := server.Database(t) + "&default_transaction_isolation=serializable"
	q := open(t, url, "serialized")
	epoch := holds(t, q)
	const writers, commits = 4, 40
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range commits {
				id := fmt.Sprintf("job %d of %d", i, w)
				if _, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch(requests(t, payload(t, id), id), []string{id}, nil)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	state, _, err := q.Load(t.Context())
	if err != nil || state.Len() != writers*commits || state.Cursor() != writers*commits {
		t.Errorf("%d jobs, cursor %d: %v, wanted %d", state.Len(), state.Cursor(), err, writers*commits)
	}
	if !strings.Contains(server.Log(), "could not serialize access") {
		t.Error("the server refused nothing, so that nothing was tried again")
	}
}

// TestRule65CommitUnderway: a commit that waits when another writer loads is
// fenced, and nothing of it is done.
func TestRule65CommitUnderway(t *testing.T) {
	server := pgtest.Shared(t)
	url := server.Database(t)
	old, young := open(t, url, "raced"), open(t, url, "raced")
	epoch := holds(t, old)
	// Somebody holds the row of the flow, so that both wait.
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM workpull.flows FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	waiting := func(n int) {
		t.Helper()
		server.Until(t, "postgres", fmt.Sprintf("SELECT count(*) = %d FROM pg_stat_activity WHERE datname = '%s' AND wait_event_type = 'Lock'", n, database(t, url)))
	}
	loaded := make(chan workpull.QueueEpoch, 1)
	go func() {
		_, next, err := young.Load(t.Context())
		if err != nil {
			t.Error(err)
		}
		loaded <- next
	}()
	waiting(1)
	stored := make(chan error, 1)
	go func() {
		_, err := old.Commit(t.Context(), epoch, workpull.NewWorkBatch(requests(t, payload(t, "x"), "late"), nil, nil))
		stored <- err
	}()
	waiting(2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stored; !errors.Is(err, workpull.ErrQueueFenced) {
		t.Errorf("commit of the older writer: %v", err)
	}
	if next := <-loaded; next.Value() <= epoch.Value() {
		t.Errorf("epoch %d after %d", next.Value(), epoch.Value())
	}
	holds(t, open(t, url, "raced"))
}

// TestCancelledCommit: a commit whose context ends comes back at once, and the
// server stops waiting for the lock.
func TestCancelledCommit(t *testing.T) {
	server := pgtest.Shared(t)
	url := server.Database(t)
	q := open(t, url, "cancelled")
	epoch := holds(t, q)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM workpull.flows FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	waits := "SELECT count(*) = %d FROM pg_stat_activity WHERE datname = '" + database(t, url) + "' AND wait_event_type = 'Lock'"
	ctx, cancel := context.WithCancel(t.Context())
	back := make(chan error, 1)
	go func() {
		_, err := q.Commit(ctx, epoch, workpull.NewWorkBatch(requests(t, payload(t, "x"), "a"), nil, nil))
		back <- err
	}()
	server.Until(t, "postgres", fmt.Sprintf(waits, 1))
	cancel()
	select {
	case err := <-back:
		if err == nil || errors.Is(err, workpull.ErrQueueFenced) || errors.Is(err, workpull.ErrQueueConflict) {
			t.Errorf("commit that was cancelled: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the commit does not come back")
	}
	server.Until(t, "postgres", fmt.Sprintf(waits, 0)) // while the lock is still held
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds(t, q)
}

// TestFlows: flows of one database have nothing to do with each other, whatever
// their jobs are called.
func TestFlows(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	flows := []string{"a", "A", "a ", "a'--", "ä", "流", strings.Repeat("x", 255)}
	var all sync.WaitGroup
	for n, flow := range flows {
		q := open(t, url, flow)
		all.Go(func() {
			l := begin(t, q)
			l.payload = payload(t, flow)
			for range 5 + n {
				if err := l.commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
			l.audit(t, q)
			if len(l.stored) != (5+n)*l.width || l.sequence["job 0"] != 1 || l.errors > 0 {
				t.Errorf("flow %q: %d jobs, the first has sequence %d, %d errors", flow, len(l.stored), l.sequence["job 0"], l.errors)
			}
		})
	}
	all.Wait()
	ids := map[string]bool{}
	for _, flow := range flows {
		ids[postgres.New(url, flow).ID()] = true
	}
	if len(ids) != len(flows) {
		t.Errorf("%d flows have %d IDs", len(flows), len(ids))
	}
}
