package postgres_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/workpull"
)

// small mounts a file system of that size, and returns its folder and how to
// give it more room.
func small(t *testing.T, size string) (folder string, grow func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	folder, err := os.MkdirTemp("", "workpull-small-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(folder); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "mode=777,size="+size); err != nil {
		if errors.Is(err, unix.EPERM) {
			t.Skipf("this root may not mount: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return folder, func() {
		t.Helper()
		if err := unix.Mount("", folder, "", unix.MS_REMOUNT, "size=1g"); err != nil {
			t.Fatal(err)
		}
	}
}

// fill commits until the disk is full, which has to be an error of the queue
// that is neither a fence nor a conflict.
func (l *ledger) fill(t *testing.T) error {
	t.Helper()
	for range 2_000 {
		err := l.try(t.Context())
		if errors.Is(err, workpull.ErrQueueFenced) || errors.Is(err, workpull.ErrQueueConflict) {
			t.Fatal(err)
		}
		if err != nil {
			l.last = err
			return err
		}
	}
	t.Fatal("the disk does not get full")
	return nil
}

// TestS34FullDisk: where the tables are on a full disk, nothing is stored, the
// error says why, and what is stored can still be loaded. Once there is room the
// same writer goes on.
func TestS34FullDisk(t *testing.T) {
	folder, grow := small(t, "24m")
	server := pgtest.New(t)
	url := server.Database(t)
	q := open(t, url, "full")
	l := begin(t, q)
	space := filepath.Join(folder, "space")
	if err := os.Mkdir(space, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := server.Own(space); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, database(t, url), "CREATE TABLESPACE small LOCATION '"+space+"'")
	server.Exec(t, database(t, url), "ALTER TABLE workpull.jobs SET TABLESPACE small; ALTER INDEX workpull.jobs_pkey SET TABLESPACE small")
	l.width, l.payload = 64, payload(t, strings.Repeat("x", 1_500))
	if err := l.fill(t); !strings.Contains(err.Error(), "No space left on device") {
		t.Fatalf("commit to a full disk: %v", err)
	}
	before := len(l.stored)
	if err := l.try(t.Context()); err == nil {
		t.Error("a commit to a full disk succeeds the second time")
	}
	if n := ask[int](t, url, "SELECT count(*) FROM workpull.jobs WHERE state & 2 = 0"); n != before-len(l.done) {
		t.Errorf("%d jobs on the full disk, wanted %d", n, before-len(l.done))
	}
	grow()
	for range 20 {
		if err := l.try(t.Context()); err != nil {
			t.Fatalf("commit once there is room: %v", err)
		}
	}
	l.audit(t, open(t, url, "full"))
	server.Exec(t, database(t, url), "DROP SCHEMA workpull CASCADE")
	server.Exec(t, database(t, url), "DROP TABLESPACE small")
}

// TestS34FullLog: where the server's log is on a full disk the server ends, and
// recovers what was acknowledged once there is room.
func TestS34FullLog(t *testing.T) {
	folder, grow := small(t, "24m")
	server := pgtest.NewLog(t, filepath.Join(folder, "log"), "max_wal_size = 1GB", "checkpoint_timeout = 1h")
	url := server.Database(t)
	l := begin(t, open(t, url, "full"))
	l.payload = payload(t, strings.Repeat("x", 20_000))
	t.Logf("the error: %v", l.fill(t))
	select {
	case <-server.Ended():
	case <-time.After(patience):
		t.Fatal("the server goes on without a log")
	}
	if err := l.try(t.Context()); err == nil {
		t.Error("a commit to a server that is not there succeeds")
	}
	grow()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := l.commit(t.Context()); err != nil {
			t.Fatalf("commit once there is room: %v", err)
		}
	}
	l.audit(t, open(t, url, "full"))
}
