package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/workpull"
)

// hosts is a URL of a database that finds the primary of two servers.
func hosts(a, b *pgtest.Server, database string) string {
	return fmt.Sprintf("postgres://%s:correct%%20horse@127.0.0.1:%d,127.0.0.1:%d/%s?sslmode=disable&target_session_attrs=read-write",
		pgtest.Superuser, a.Port, b.Port, database)
}

// TestS35FailOver: the primary is lost and its synchronous standby is promoted
// under load. Nothing that was acknowledged is lost, and what was completed
// within the window is known. The old primary that comes back acknowledges
// nothing on its own.
func TestS35FailOver(t *testing.T) {
	primary := pgtest.New(t)
	standby := primary.Standby(t, "second")
	primary.Exec(t, "postgres", "ALTER SYSTEM SET synchronous_standby_names = 'second'")
	primary.Exec(t, "postgres", "SELECT pg_reload_conf()")
	primary.Until(t, "postgres", "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
	name := database(t, primary.Database(t))
	url := hosts(primary, standby, name)
	q := open(t, url, "moves")
	l := begin(t, q)
	if err := q.KeepCompleted(t.Context(), l.epoch, time.Hour); err != nil {
		t.Fatal(err)
	}
	ticks, stop := l.background(t)
	more(t, ticks, 20)
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	standby.Promote(t)
	more(t, ticks, 20)
	stop()
	if l.errors == 0 {
		t.Error("the primary was killed, and no commit noticed")
	}
	if at := ask[int](t, standby.SocketURL(name), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'workpull'"); at == 0 {
		t.Error("the queue has no session on the new primary")
	}
	for _, id := range []string{l.stored[0], l.stored[len(l.stored)-3*l.width]} {
		m, known, err := q.Completed(t.Context(), id)
		if err != nil || known != l.done[id] || known && m.Sequence() != l.sequence[id] {
			t.Errorf("%s: completed %t as %d: %v, wanted %t as %d", id, known, m.Sequence(), err, l.done[id], l.sequence[id])
		}
	}

	// Its standby is gone, so that a commit there waits, and is no success.
	if err := primary.Start(); err != nil {
		t.Fatal(err)
	}
	lost := open(t, primary.URL(name), "moves")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, epoch, err := lost.Load(ctx); err == nil {
		t.Errorf("the old primary began epoch %d", epoch.Value())
	}
	if err := primary.Stop(); err != nil {
		t.Fatal(err)
	}
	l.audit(t, open(t, url, "moves"))
}

// TestReplicationGivenUp: a server that is told to wait no longer for its
// standby says that the commit is done, and warns. That is no acknowledgement;
// the commit is tried again, and was done once.
func TestReplicationGivenUp(t *testing.T) {
	server := pgtest.New(t)
	url := server.Database(t)
	q := open(t, url, "waits")
	l := begin(t, q)
	server.Exec(t, "postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	server.Until(t, "postgres", "SELECT current_setting('synchronous_standby_names') = 'nobody'")
	back := make(chan error, 1)
	go func() { back <- l.try(t.Context()) }()
	server.Until(t, "postgres", "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'workpull'")
	server.Exec(t, "postgres", "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'workpull'")
	if err := <-back; !errors.Is(err, postgres.ErrNotReplicated) {
		t.Errorf("commit: %v, wanted %v", err, postgres.ErrNotReplicated)
	}
	server.Exec(t, "postgres", "ALTER SYSTEM RESET synchronous_standby_names")
	server.Exec(t, "postgres", "SELECT pg_reload_conf()")
	if err := l.try(t.Context()); err != nil {
		t.Error(err)
	}
	if state, _, err := q.Load(t.Context()); err != nil || state.Len() != l.width || state.Cursor() != uint64(l.width) {
		t.Errorf("%d jobs, cursor %d: %v, wanted %d", state.Len(), state.Cursor(), err, l.width)
	}
}

// TestStandbyOnly: a server that takes no writes is an error that says so, and
// no conflict.
func TestStandbyOnly(t *testing.T) {
	primary := pgtest.New(t)
	url := primary.Database(t)
	q := open(t, url, "read")
	holds(t, q)
	standby := primary.Standby(t, "second")
	_, _, err := open(t, standby.URL(database(t, url)), "read").Load(t.Context())
	if err == nil || errors.Is(err, workpull.ErrQueueConflict) || errors.Is(err, workpull.ErrQueueFenced) {
		t.Errorf("load from a standby: %v", err)
	}
	// Whoever may choose takes the other.
	l := begin(t, open(t, hosts(standby, primary, database(t, url)), "read"))
	if err := l.try(t.Context()); err != nil {
		t.Error(err)
	}
}
