package pebble_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/go-logr/logr/funcr"

	"github.com/workpull/operator/queue/pebble"
)

const storeDir = "/store"

// fault is an error of the disk that a test switches on and off.
type fault struct {
	mu   sync.Mutex
	on   bool
	hits int
	// at tells which operations fail; once is for a single error.
	at   func(op errorfs.Op) bool
	once bool
	err  error
}

func (f *fault) String() string { return "fault" }

func (f *fault) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on || !f.at(op) || f.once && f.hits > 0 {
		return nil
	}
	f.hits++
	return f.err
}

func (f *fault) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

func (f *fault) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// of tells operations of a kind on files whose names contain a text.
func of(name string, kinds ...errorfs.OpKind) func(errorfs.Op) bool {
	return func(op errorfs.Op) bool {
		for _, k := range kinds {
			if op.Kind == k && strings.Contains(op.Path, name) {
				return true
			}
		}
		return false
	}
}

// onDirectory tells syncs of the store's directory.
func onDirectory(op errorfs.Op) bool {
	return op.Path == storeDir && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData)
}

// said collects what a queue says.
type said struct {
	mu   sync.Mutex
	text strings.Builder
	// on is called for what it says, if set.
	on func(text string)
}

func (s *said) option() pebble.Option {
	return pebble.WithLogger(funcr.New(func(_, args string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.text.WriteString(args + "\n")
		if s.on != nil {
			s.on(args)
		}
	}, funcr.Options{}))
}

func (s *said) that(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

// TestErrorsOfTheLogAndTheManifestBreakTheStore: after an error of a write or a
// sync that Pebble holds to be fatal nothing is acknowledged any more, nothing
// hangs, the process lives, the store says so, and what was acknowledged is
// there when it is opened again, even by who opens it after the power was off
// (S34, beanstalkd/beanstalkd#477).
func TestErrorsOfTheLogAndTheManifestBreakTheStore(t *testing.T) {
	for name, at := range map[string]func(errorfs.Op) bool{
		"write the log":      of(".log", errorfs.OpFileWrite),
		"sync the log":       of(".log", errorfs.OpFileSync, errorfs.OpFileSyncData),
		"create a log":       of(".log", errorfs.OpCreate, errorfs.OpReuseForWrite),
		"sync the directory": onDirectory,
		"write the manifest": of("MANIFEST", errorfs.OpFileWrite),
		"sync the manifest":  of("MANIFEST", errorfs.OpFileSync, errorfs.OpFileSyncData),
		"all writes":         func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
	} {
		for what, f := range map[string]*fault{
			"EIO once": {at: at, once: true, err: syscall.EIO}, "ENOSPC": {at: at, err: syscall.ENOSPC},
		} {
			if f.once && name == "all writes" {
				continue // the one may be a table's, which is written again
			}
			t.Run(name+", "+what, func(t *testing.T) { breaks(t, f) })
		}
	}
}

func breaks(t *testing.T, f *fault) {
	disk := vfs.NewCrashableMem()
	var log said
	options := append([]pebble.Option{pebble.WithFS(errorfs.Wrap(disk, f)), log.option()}, small...)
	q := pebble.New(storeDir, options...)
	epoch := loadNew(t, q)
	l := newLedger(1, 10_000)
	commit := func() error {
		_, err := q.Commit(within(t), epoch, l.batch())
		return err
	}
	for range 20 {
		if err := commit(); err != nil {
			t.Fatal(err)
		}
	}
	f.set(true)
	var err error
	acknowledged := l.done()
	for range 2000 { // memtables fill up meanwhile, and are written
		if err = commit(); err != nil {
			break
		}
		acknowledged = l.done()
	}
	if !errors.Is(err, pebble.ErrBroken) || !errors.Is(err, f.err) {
		t.Fatalf("after %d batches: %v, wanted %v for %v", l.done(), err, pebble.ErrBroken, f.err)
	}
	if !log.that("broken") {
		t.Error("the store does not say that it is broken")
	}
	f.set(false) // the disk is well again, and what it did nobody knows
	refused(t, q, epoch, pebble.ErrBroken)
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	closeQueue(t, q)
	for name, fs := range map[string]*vfs.MemFS{"after a crash": crashed, "after a close": disk} {
		t.Run(name, func(t *testing.T) {
			again := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(fs)}, small...)...)
			defer closeQueue(t, again)
			l.check(t, again, acknowledged, l.done(), epoch.Value())
		})
	}
}

// TestTablesThatCannotBeWritten: while tables cannot be written the log holds
// what is acknowledged. Writes wait in the end, no longer than their contexts,
// and go on when there is room.
func TestTablesThatCannotBeWritten(t *testing.T) {
	for name, at := range map[string]func(errorfs.Op) bool{
		"create": of(".sst", errorfs.OpCreate),
		"write":  of(".sst", errorfs.OpFileWrite),
		"sync":   of(".sst", errorfs.OpFileSync, errorfs.OpFileSyncData),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fault{at: at, err: syscall.ENOSPC}
			disk := vfs.NewCrashableMem()
			var log said
			// Whoever waits gives up as soon as the store says that writes wait.
			ctx, giveUp := context.WithTimeout(context.Background(), patience)
			defer giveUp()
			log.on = func(text string) {
				if strings.Contains(text, "Writes wait") {
					giveUp()
				}
			}
			q := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(errorfs.Wrap(disk, f)), log.option()}, small...)...)
			epoch := loadNew(t, q)
			l := newLedger(2, 10_000)
			f.set(true)
			var err error
			for err == nil && l.done() < 4000 {
				_, err = q.Commit(ctx, epoch, l.batch())
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("commit while no table can be written: %v, wanted that it waits", err)
			}
			// An error every 10 ms at first and then every second, where Pebble
			// itself tries without a pause.
			if n := f.count(); n > 200 {
				t.Errorf("Pebble tried %d times", n)
			}
			if !log.that("tries again") {
				t.Error("the store does not say what it waits for")
			}
			(&ledger{states: l.states, size: l.size}).check(t, reopened(t, disk), l.done()-1, l.done(), epoch.Value())
			f.set(false)
			// The commit that nobody waited for is done now, or later.
			if _, err := q.Commit(within(t), epoch, l.batch()); err != nil {
				t.Fatalf("commit when there is room: %v", err)
			}
			closeQueue(t, q)
			l.check(t, reopened(t, disk), l.done(), l.done(), epoch.Value())
		})
	}
}

// reopened is the store as somebody finds it after the power was off.
func reopened(t *testing.T, disk *vfs.MemFS) *pebble.Queue {
	t.Helper()
	q := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(disk.CrashClone(vfs.CrashCloneCfg{}))}, small...)...)
	t.Cleanup(func() { closeQueue(t, q) })
	return q
}

// TestASyncThatHangs: an operation on a disk that does nothing returns by its
// deadline, and what it began is done when the disk goes on.
func TestASyncThatHangs(t *testing.T) {
	goOn, hung := make(chan struct{}), make(chan struct{}, 1)
	f := &hanging{hung: hung, goOn: goOn}
	disk := vfs.NewCrashableMem()
	q := pebble.New(storeDir, append([]pebble.Option{pebble.WithFS(errorfs.Wrap(disk, f))}, small...)...)
	epoch := loadNew(t, q)
	l := newLedger(3, 10)
	f.set(true)
	for range 2 { // the one that hangs, and one that waits for it
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		_, err := q.Commit(ctx, epoch, l.batch())
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("commit on a disk that hangs: %v", err)
		}
	}
	<-hung
	f.set(false)
	close(goOn)
	l.states = l.states[:2] // the second never began
	l.check(t, q, 1, 1, epoch.Value())
	closeQueue(t, q)
}

// hanging is a disk whose syncs of the log do not return.
type hanging struct {
	mu   sync.Mutex
	on   bool
	hung chan<- struct{}
	goOn <-chan struct{}
}

func (h *hanging) String() string { return "hanging" }

func (h *hanging) set(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = on
}

func (h *hanging) MaybeError(op errorfs.Op) error {
	h.mu.Lock()
	on := h.on
	h.mu.Unlock()
	if on && of(".log", errorfs.OpFileSync, errorfs.OpFileSyncData)(op) {
		select {
		case h.hung <- struct{}{}:
		default:
		}
		<-h.goOn
	}
	return nil
}
