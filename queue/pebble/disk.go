package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-logr/logr"
)

// disk stands between Pebble and the file system. Pebble, v2.1.7, holds errors
// of its log and of its manifest to be fatal: where its logger does not end the
// process it panics, partly where a panic cannot be recovered, or acknowledges
// what it did not write. So it never gets to see one. From the first such error
// on the disk is frozen: nothing is written any more, by anybody, and Pebble is
// told that all went well; the store asks the disk before it acknowledges
// anything (S34). What is on the disk then is what was there at that moment, and
// is read when the store is opened again.
//
// Errors of tables do not freeze it. Nothing is lost, for the log still has
// their content; Pebble tries again, at once and forever, and is slowed down
// here.
type disk struct {
	vfs.FS
	dir string
	log logr.Logger

	frozen atomic.Bool
	mu     sync.Mutex
	cause  error

	failures atomic.Int32  // of tables, in a row
	left     chan struct{} // closed when the store closes
	leaving  sync.Once
}

func newDisk(inner vfs.FS, dir string, log logr.Logger) *disk {
	return &disk{FS: inner, dir: dir, log: log, left: make(chan struct{})}
}

// errFrozen is what is told of writes that Pebble can do without.
var errFrozen = errors.New("the disk is frozen")

// freeze notes the first error, which broken returns from then on, as it does.
func (d *disk) freeze(doing string, err error) error {
	d.mu.Lock()
	first := d.cause == nil
	if first {
		d.cause = fmt.Errorf("%w: %s: %w", ErrBroken, doing, err)
	}
	d.frozen.Store(true)
	d.mu.Unlock()
	if first {
		d.log.Error(err, "The queue's store is broken: nothing is taken until it is opened again, what was acknowledged is safe", "directory", d.dir, "doing", doing)
	}
	return d.broken()
}

// broken is ErrBroken with its cause, or nil.
func (d *disk) broken() error {
	if !d.frozen.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

// leave ends all waiting, so that Pebble can be closed.
func (d *disk) leave() { d.leaving.Do(func() { close(d.left) }) }

// vital tells of a file that an error must not get past: the log, the manifest,
// and the markers of which is in force.
func (d *disk) vital(name string) bool {
	if d.PathDir(name) != d.dir {
		return false // of a backup
	}
	base := d.PathBase(name)
	return strings.HasSuffix(base, ".log") || strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker.")
}

// Bounds of the pause before a table is written again that could not be.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = time.Second
)

// pause waits before the next table when the last could not be written.
func (d *disk) pause() {
	n := d.failures.Load()
	if n == 0 && !d.frozen.Load() {
		return
	}
	timer := time.NewTimer(min(shortestPause<<min(n, 10), longestPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.left:
	}
}

// table notes how a write of a table, or of what else is not vital, ended.
func (d *disk) table(err error) error {
	if err != nil {
		d.failures.Add(1)
	}
	return err
}

// make opens a file for writing, the vital ones so that nothing fails.
func (d *disk) make(name string, open func() (vfs.File, error)) (vfs.File, error) {
	if !d.vital(name) {
		d.pause()
		if d.frozen.Load() {
			return nil, errFrozen
		}
		f, err := open()
		if d.table(err) != nil {
			return nil, err
		}
		return &file{File: f, disk: d}, nil
	}
	if !d.frozen.Load() {
		f, err := open()
		if err == nil {
			return &file{File: f, disk: d, vital: true}, nil
		}
		d.freeze("create "+name, err) //nolint:errcheck // Pebble is not told
	}
	return &file{File: ghost{name: d.PathBase(name)}, disk: d, vital: true}, nil
}

// change does something to a name. What is vital fails never.
func (d *disk) change(doing, name string, do func() error) error {
	if d.frozen.Load() {
		return nil
	}
	err := do()
	if err == nil || !d.vital(name) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err
	}
	d.freeze(doing+" "+name, err) //nolint:errcheck // Pebble is not told
	return nil
}

func (d *disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.make(name, func() (vfs.File, error) { return d.FS.Create(name, category) })
}

func (d *disk) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.make(name, func() (vfs.File, error) { return d.FS.ReuseForWrite(old, name, category) })
}

func (d *disk) OpenReadWrite(name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	return d.make(name, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, category, options...) })
}

// OpenDir returns a directory to be synced: that of the store is vital.
func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, vital: name == d.dir}, nil
}

func (d *disk) Link(old, name string) error {
	return d.change("link", name, func() error { return d.FS.Link(old, name) })
}

func (d *disk) Remove(name string) error {
	return d.change("remove", name, func() error { return d.FS.Remove(name) })
}

func (d *disk) RemoveAll(name string) error {
	return d.change("remove", name, func() error { return d.FS.RemoveAll(name) })
}

func (d *disk) Rename(old, name string) error {
	return d.change("rename", name, func() error { return d.FS.Rename(old, name) })
}

func (d *disk) MkdirAll(name string, mode os.FileMode) error {
	return d.change("make", name, func() error { return d.FS.MkdirAll(name, mode) })
}

func (d *disk) Unwrap() vfs.FS { return d.FS }

// file is one that is written.
type file struct {
	vfs.File
	disk  *disk
	vital bool
}

// do writes, or does not where the disk is frozen.
func (f *file) do(doing string, write func() error) error {
	if f.disk.frozen.Load() {
		if f.vital {
			return nil
		}
		return errFrozen
	}
	err := write()
	if !f.vital {
		return f.disk.table(err)
	}
	if err != nil {
		f.disk.freeze(doing, err) //nolint:errcheck // Pebble is not told
	}
	return nil
}

func (f *file) Write(p []byte) (int, error) {
	n := len(p)
	err := f.do("write", func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	if f.vital {
		n = len(p)
	}
	return n, err
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	n := len(p)
	err := f.do("write", func() (err error) {
		n, err = f.File.WriteAt(p, at)
		return err
	})
	if f.vital {
		n = len(p)
	}
	return n, err
}

func (f *file) Sync() error {
	if f.vital {
		hit("before-sync")
	}
	err := f.do("sync", f.File.Sync)
	if err == nil && !f.vital {
		f.disk.failures.Store(0)
	}
	return err
}

func (f *file) SyncData() error {
	if f.vital {
		hit("before-sync")
	}
	return f.do("sync", f.File.SyncData)
}

func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.do("sync", func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

func (f *file) Preallocate(offset, length int64) error {
	return f.do("preallocate", func() error { return f.File.Preallocate(offset, length) })
}

// Close closes what is open in any case.
func (f *file) Close() error {
	err := f.File.Close()
	if err != nil && f.vital {
		if !f.disk.frozen.Load() {
			f.disk.freeze("close", err) //nolint:errcheck // Pebble is not told
		}
		return nil
	}
	return err
}

// ghost is a file that is not there.
type ghost struct{ name string }

var _ vfs.File = ghost{}

func (ghost) Close() error                           { return nil }
func (ghost) Read([]byte) (int, error)               { return 0, errFrozen }
func (ghost) ReadAt([]byte, int64) (int, error)      { return 0, errFrozen }
func (ghost) Write(p []byte) (int, error)            { return len(p), nil }
func (ghost) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (ghost) Preallocate(int64, int64) error         { return nil }
func (ghost) Sync() error                            { return nil }
func (ghost) SyncTo(int64) (bool, error)             { return false, nil }
func (ghost) SyncData() error                        { return nil }
func (ghost) Prefetch(int64, int64) error            { return nil }
func (ghost) Fd() uintptr                            { return vfs.InvalidFd }
func (g ghost) Stat() (vfs.FileInfo, error)          { return ghostInfo(g), nil }

// ghostInfo says that the file is empty.
type ghostInfo struct{ name string }

func (i ghostInfo) Name() string         { return i.name }
func (ghostInfo) Size() int64            { return 0 }
func (ghostInfo) Mode() os.FileMode      { return 0 }
func (ghostInfo) ModTime() time.Time     { return time.Time{} }
func (ghostInfo) IsDir() bool            { return false }
func (ghostInfo) Sys() any               { return nil }
func (ghostInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
