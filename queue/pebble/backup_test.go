package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/workpull"
)

// TestBackupAndRestore: a backup that is made while the queue is in use holds all
// that was acknowledged before, and of the batches that come meanwhile the first
// so and so many; a queue on it, or on a copy of it, goes on from there. The
// original is not touched by that.
func TestBackupAndRestore(t *testing.T) {
	dir := t.TempDir()
	q := pebble.New(filepath.Join(dir, "store"), small...)
	epoch := loadNew(t, q)
	l := newLedger(11, 3000)
	var begun, acknowledged atomic.Int64
	over := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			b := l.batch()
			begun.Add(1)
			if _, err := q.Commit(within(t), epoch, b); err != nil {
				t.Error(err)
				return
			}
			acknowledged.Add(1)
		}
	})
	type backup struct {
		dir      string
		from, to int
	}
	var backups []backup
	for n := range 5 {
		for before := acknowledged.Load(); acknowledged.Load() < before+30 && !t.Failed(); {
			runtime.Gosched()
		}
		b := backup{dir: filepath.Join(dir, fmt.Sprint("backup", n)), from: int(acknowledged.Load())}
		if err := q.Backup(within(t), b.dir); err != nil {
			t.Fatal(err)
		}
		b.to = int(begun.Load())
		backups = append(backups, b)
	}
	close(over)
	working.Wait()
	for _, b := range backups {
		copied := b.dir + "-copy"
		if err := os.CopyFS(copied, os.DirFS(b.dir)); err != nil {
			t.Fatal(err)
		}
		for _, where := range []string{copied, b.dir} {
			again := pebble.New(where, small...)
			l.check(t, again, b.from, b.to, epoch.Value())
			younger := loadNew(t, again)
			if _, err := again.Commit(within(t), younger, newLedger(12, 10).batch()); err != nil {
				t.Errorf("commit to a restored queue: %v", err)
			}
			closeQueue(t, again)
		}
	}
	if _, err := q.Commit(within(t), epoch, workpull.NewWorkBatch(nil, nil, nil)); err != nil {
		t.Errorf("the original is fenced: %v", err)
	}
	closeQueue(t, q)
	q = pebble.New(filepath.Join(dir, "store"), small...)
	l.check(t, q, l.done(), l.done(), epoch.Value())
	closeQueue(t, q)
}

// TestBackupsThatAreRefused: a directory that is there is not touched, and what
// failed or was given up leaves nothing behind.
func TestBackupsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	q := pebble.New(filepath.Join(dir, "store"), small...)
	defer closeQueue(t, q)
	loadNew(t, q)
	there := filepath.Join(dir, "there")
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := q.Backup(within(t), there); !errors.Is(err, fs.ErrExist) {
		t.Errorf("backup to what is there: %v", err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	given := filepath.Join(dir, "given up")
	if err := q.Backup(over, given); !errors.Is(err, context.Canceled) {
		t.Errorf("backup when the context is over: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := q.Backup(within(t), filepath.Join(file, "in")); err == nil {
		t.Error("a backup in a file")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("%v is left: %v, wanted the store, the directory and the file", left, err)
	}
}
