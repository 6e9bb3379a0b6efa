package pebble_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/workpull/operator/queue/pebble"
)

// lost is what a crash leaves of what was not synced, in percent of its blocks.
var lost = []int{0, 30, 70, 100}

// clone is the disk after a crash now.
func clone(disk *vfs.MemFS, percent int, seed uint64) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 2))})
}

// TestACrashAfterEachCommit: wherever the power goes off between two commits,
// all of them are there (S33, nats-io/nats-server#7564).
func TestACrashAfterEachCommit(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			q := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(disk)}, small...)...)
			defer closeQueue(t, q)
			epoch := loadNew(t, q)
			l := newLedger(seed, 3000)
			for n := range 60 {
				if n%10 == 9 { // a new owner
					epoch = loadNew(t, q)
				}
				if _, err := q.Commit(within(t), epoch, l.batch()); err != nil {
					t.Fatal(err)
				}
				again := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(clone(disk, lost[n%len(lost)], seed))}, small...)...)
				l.check(t, again, l.done(), l.done(), epoch.Value())
				closeQueue(t, again)
			}
		})
	}
}

// TestACrashAtAnyMoment: at whatever moment the power goes off, all that was
// acknowledged before is there, and of the batch that was on its way all or
// nothing.
func TestACrashAtAnyMoment(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			disk := vfs.NewCrashableMem()
			q := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(disk)}, small...)...)
			defer closeQueue(t, q)
			epoch := loadNew(t, q)
			l := newLedger(100+seed, 5000)
			var begun, acknowledged atomic.Int64
			type crash struct {
				fs       *vfs.MemFS
				from, to int
			}
			var crashes []crash
			over := make(chan struct{})
			var crashing sync.WaitGroup
			crashing.Go(func() {
				for n := uint64(0); ; n++ {
					select {
					case <-over:
						return
					default:
					}
					if len(crashes) >= 20 && acknowledged.Load()%10 != 0 {
						continue
					}
					c := crash{from: int(acknowledged.Load())}
					c.fs = clone(disk, lost[n%uint64(len(lost))], n)
					c.to = int(begun.Load())
					crashes = append(crashes, c)
				}
			})
			for range 120 {
				b := l.batch()
				begun.Add(1)
				if _, err := q.Commit(within(t), epoch, b); err != nil {
					t.Error(err)
					break
				}
				acknowledged.Add(1)
			}
			close(over)
			crashing.Wait()
			between := 0
			for i, c := range crashes {
				if i > 40 && i%(len(crashes)/40+1) != 0 {
					continue
				}
				if c.to > c.from {
					between++
				}
				again := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(c.fs)}, small...)...)
				l.check(t, again, c.from, c.to, epoch.Value())
				closeQueue(t, again)
			}
			if between == 0 {
				t.Error("no crash met a commit on its way")
			}
		})
	}
}

// TestACrashKeepsTheFence: a writer that was fenced before the power went off is
// fenced afterwards (rule 65).
func TestACrashKeepsTheFence(t *testing.T) {
	disk := vfs.NewCrashableMem()
	q := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(disk)}, small...)...)
	defer closeQueue(t, q)
	old := loadNew(t, q)
	young := loadNew(t, q)
	again := reopened(t, disk)
	l := newLedger(5, 10)
	b := l.batch()
	refusedAs := func(err error) {
		t.Helper()
		if err == nil || errors.Is(err, pebble.ErrBroken) {
			t.Errorf("commit of a fenced writer: %v", err)
		}
	}
	_, err := again.Commit(within(t), old, b)
	refusedAs(err)
	if _, err := again.Commit(within(t), young, b); err != nil {
		t.Errorf("commit of the latest writer: %v", err)
	}
}

// stored is a store on a real disk, with its jobs, as kill -9 leaves it: the
// files are copied while it is open.
func stored(t *testing.T, size int) (l *ledger, dir string, epoch uint64) {
	t.Helper()
	first, dir := t.TempDir(), t.TempDir()
	q := pebble.New(first, small...)
	defer closeQueue(t, q)
	e := loadNew(t, q)
	// The window is what the last row ends with: it must not be zeroes.
	if err := q.KeepCompleted(within(t), e, time.Hour); err != nil {
		t.Fatal(err)
	}
	l = newLedger(9, size)
	for n := range 60 {
		l.onlyStores = n == 59
		if _, err := q.Commit(within(t), e, l.batch()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS(first)); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return l, dir, e.Value()
}

// newestLog is the log that was written last, and its content up to where
// nothing but zeroes follows.
func newestLog(t *testing.T, dir string) (name string, content []byte) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log: %v", err)
	}
	slices.Sort(logs)
	name = logs[len(logs)-1]
	content, err = os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, bytes.TrimRight(content, "\x00")
}

// TestATornTailOfTheLog: what a crash wrote half of, or left as garbage at the
// end of the log, was not acknowledged, and costs nothing that was.
func TestATornTailOfTheLog(t *testing.T) {
	l, dir, epoch := stored(t, 2000)
	name, content := newestLog(t, dir)
	if len(content) < 1000 {
		t.Fatalf("%d bytes of log", len(content))
	}
	for what, tail := range map[string][]byte{
		"garbage":       bytes.Repeat([]byte{0xa5, 0x17}, 700),
		"zeroes":        make([]byte, 5000),
		"half a record": content[:60],
	} {
		t.Run(what, func(t *testing.T) {
			if err := os.WriteFile(name, append(slices.Clone(content), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			q := pebble.New(copied, small...)
			defer closeQueue(t, q)
			l.check(t, q, l.done(), l.done(), epoch)
		})
	}
	t.Run("cut off", func(t *testing.T) { // as if the last batch had not got there
		if err := os.WriteFile(name, content[:len(content)-20], 0o600); err != nil {
			t.Fatal(err)
		}
		q := pebble.New(dir, small...)
		defer closeQueue(t, q)
		l.check(t, q, l.done()-1, l.done()-1, epoch)
	})
}

// TestGarbageInTheLog: what was synced and is not readable any more is an error
// that says so, and no loss that nobody hears of.
func TestGarbageInTheLog(t *testing.T) {
	for _, size := range []int{100, 2000} { // many records in a block, and many blocks
		l, dir, _ := stored(t, size)
		name, content := newestLog(t, dir)
		for n := range 20 {
			at := len(content) * n / 21
			t.Run(fmt.Sprintf("payloads of %d bytes, at %d of %d", size, at, len(content)), func(t *testing.T) {
				garbled := slices.Clone(content)
				for i := range 64 {
					garbled[at+i] ^= 0x5a
				}
				if err := os.WriteFile(name, garbled, 0o600); err != nil {
					t.Fatal(err)
				}
				copied := t.TempDir()
				if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				q := pebble.New(copied, small...)
				defer closeQueue(t, q)
				state, _, err := q.Load(within(t))
				if !errors.Is(err, pebble.ErrCorrupt) {
					t.Errorf("load of %d of %d jobs: %v, wanted %v", state.Len(), len(l.states[l.done()].jobs), err, pebble.ErrCorrupt)
				}
			})
		}
	}
}
