package postgres

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/workpull"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// first are the migrations up to a version, and others after them.
func first(t *testing.T, versions int, others ...string) fstest.MapFS {
	t.Helper()
	names, err := fs.Glob(migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, name := range names[:versions] {
		text, err := fs.ReadFile(migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	for i := 0; i < len(others); i += 2 {
		files[others[i]] = &fstest.MapFile{Data: []byte(others[i+1])}
	}
	return files
}

// TestUpgrade: a database of version 1 that holds a flow is brought up to date,
// and the flow goes on where it was.
func TestUpgrade(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := connect(t, url)
	if err := migrate(t.Context(), conn, first(t, 1)); err != nil {
		t.Fatal(err)
	}
	if v, err := version(t.Context(), conn); err != nil || v != 1 {
		t.Fatalf("version %d: %v, wanted 1", v, err)
	}
	if _, err := conn.Exec(t.Context(), `
		INSERT INTO workpull.flows (flow, epoch, cursor) VALUES ('old', 7, 3);
		INSERT INTO workpull.jobs (sequence, flow, state, key, message_id, type_url, payload) VALUES (2, 1, 1, 'a', '', 't', 'x')`,
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	q := New(url, "old")
	defer q.Close()
	state, epoch, err := q.Load(t.Context())
	if err != nil || epoch.Value() != 8 || state.Cursor() != 3 || state.Len() != 1 || !state.Messages()[0].Accepted() {
		t.Errorf("loaded epoch %d, cursor %d, %d jobs: %v", epoch.Value(), state.Cursor(), state.Len(), err)
	}
	// Once more changes nothing.
	if err := Migrate(t.Context(), url); err != nil {
		t.Error(err)
	}
}

// TestMigrationsRace: processes that start together migrate once.
func TestMigrationsRace(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	names, err := fs.Glob(migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := version(t.Context(), connect(t, url)); err != nil || v != len(names) {
		t.Errorf("version %d: %v, wanted %d", v, err, len(names))
	}
}

// TestFailedMigration: one that fails changes nothing, those before it stay, and
// it can be tried again.
func TestFailedMigration(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := connect(t, url)
	bad := first(t, 1, "0002_bad.sql", "CREATE TABLE workpull.half (a integer); SELECT 1/0")
	if err := migrate(t.Context(), conn, bad); err == nil || !strings.Contains(err.Error(), "0002_bad.sql") {
		t.Fatalf("a bad migration: %v", err)
	}
	var half bool
	if err := conn.QueryRow(t.Context(), "SELECT to_regclass('workpull.half') IS NOT NULL").Scan(&half); err != nil || half {
		t.Errorf("half of it is there: %t, %v", half, err)
	}
	if v, err := version(t.Context(), conn); err != nil || v != 1 {
		t.Errorf("version %d: %v, wanted 1", v, err)
	}
	if err := Migrate(t.Context(), url); err != nil {
		t.Error(err)
	}
	for _, files := range []fstest.MapFS{first(t, 0, "0002_a.sql", ""), first(t, 1, "0003_b.sql", ""), first(t, 0, "1_a.sql", "")} {
		if err := migrate(t.Context(), conn, files); err == nil || errors.Is(err, ErrNewerSchema) {
			t.Errorf("migrations with a hole: %v", err)
		}
	}
}

// TestNewerSchema: a database that a newer version migrated is left alone.
func TestNewerSchema(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	conn := connect(t, url)
	if err := migrate(t.Context(), conn, first(t, 2, "0003_new.sql", "ALTER TABLE workpull.flows ADD news text")); err != nil {
		t.Fatal(err)
	}
	q := New(url, "f")
	defer q.Close()
	_, _, err := q.Load(t.Context())
	if !errors.Is(err, ErrNewerSchema) || errors.Is(err, workpull.ErrQueueConflict) || errors.Is(err, workpull.ErrQueueFenced) {
		t.Errorf("load: %v, wanted %v", err, ErrNewerSchema)
	}
	if err := Migrate(t.Context(), url); !errors.Is(err, ErrNewerSchema) {
		t.Errorf("migrate: %v, wanted %v", err, ErrNewerSchema)
	}
}

// TestGrants: with the rights that docs/operations.md lists, and no others, a
// role does all that a queue does, but for the migrations, which it says.
func TestGrants(t *testing.T) {
	server := pgtest.Shared(t)
	url := server.Database(t)
	_, rest, _ := strings.Cut(url, "@")
	_, name, _ := strings.Cut(rest, "/")
	name, _, _ = strings.Cut(name, "?")
	server.Exec(t, name, "DROP ROLE IF EXISTS writer")
	server.Exec(t, name, "CREATE ROLE writer LOGIN PASSWORD 'w'")
	t.Cleanup(func() { server.Exec(t, name, "DROP OWNED BY writer; DROP ROLE writer") })
	as := "postgres://writer:w@" + rest
	q := New(as, "granted")
	defer q.Close()
	if _, _, err := q.Load(t.Context()); err == nil || !strings.Contains(err.Error(), `role "writer" may not`) {
		t.Fatalf("load without rights: %v", err)
	}
	if err := Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, name, `
		GRANT USAGE ON SCHEMA workpull TO writer;
		GRANT SELECT ON workpull.migrations TO writer;
		GRANT SELECT, INSERT, UPDATE, DELETE ON workpull.flows, workpull.jobs, workpull.completed TO writer`)
	_, epoch, err := q.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	payload, err := workpull.NewReliablePayload("t", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := workpull.NewStoreRequest("a", 0, payload)
	if err != nil {
		t.Fatal(err)
	}
	progress, err := workpull.NewJobProgress("a", workpull.ProgressCounts{Attempt: 2}, nil, time.Unix(1, 0), workpull.FateNone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch([]workpull.StoreRequest{request}, nil, nil)); err != nil {
		t.Error(err)
	}
	if _, err := q.Payloads(t.Context(), epoch, []string{"a"}); err != nil {
		t.Error(err)
	}
	if err := q.SaveProgress(t.Context(), epoch, []workpull.JobProgress{progress}); err != nil {
		t.Error(err)
	}
	if err := q.KeepCompleted(t.Context(), epoch, 1); err != nil {
		t.Error(err)
	}
	if _, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch(nil, []string{"a"}, []string{"a"})); err != nil {
		t.Error(err)
	}
	if _, known, err := q.Completed(t.Context(), "a"); err != nil || !known {
		t.Errorf("completed %t: %v", known, err)
	}
	if _, _, err := q.Reload(t.Context(), epoch); err != nil { // and forgets
		t.Error(err)
	}
}
