package pebble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/workpull/operator/queue/internal/failpoint"
)

// hit is a failpoint of this package.
func hit(step string) {
	if failpoint.Enabled {
		failpoint.Hit("pebble-" + step)
	}
}

// open makes the directory, locks it, and opens what is in it. When it fails
// nothing is open.
func (s *store) open() (err error) {
	if err := s.settings.fs.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	dir := s.dir
	if s.settings.fs == vfs.Default {
		// The lock is the process's: two names of one directory have to be one.
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return err
		}
	}
	s.lock, err = pebble.LockDirectory(dir, s.settings.fs)
	switch {
	case err == nil:
	case errors.Is(err, os.ErrPermission) && !errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOSPC), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("lock %s: %w", dir, err)
	default:
		return fmt.Errorf("%w: %s: %w", ErrLocked, dir, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.lock.Close())
		}
	}()
	if err = checkTail(s.settings.fs, dir); err != nil {
		return err
	}
	s.disk = newDisk(s.settings.fs, dir, s.log)
	// Pebble takes the memory of what is not yet in tables off the cache.
	s.cache = pebble.NewCache(s.settings.cache + 2*int64(s.memory))
	if s.db, err = s.start(dir); err != nil {
		s.cache.Unref()
		return corrupt(err)
	}
	if err = s.disk.broken(); err == nil {
		err = s.read()
	}
	if err != nil {
		s.disk.leave()
		if closed := s.db.Close(); s.disk.broken() == nil {
			err = errors.Join(err, closed)
		}
		s.cache.Unref()
		return err
	}
	s.opened.Store(true)
	return nil
}

// start opens Pebble. A panic of its on what it finds is an error.
func (s *store) start(dir string) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return pebble.Open(dir, s.options())
}

// read takes what is in the store into memory: that is little, the jobs are
// read by a load.
func (s *store) read() error {
	if err := s.upgrade(); err != nil {
		return err
	}
	if _, err := s.get(keyState, func(v []byte) (err error) {
		s.header, err = decodeHeader(v)
		return err
	}); err != nil {
		return err
	}
	s.epochs.Store(s.epoch)
	clear(s.spans)
	if err := s.each(tagMarks, nil, func(key, value []byte) (bool, error) {
		n, err := number(key)
		if err != nil {
			return false, err
		}
		s.spans[n], err = decodeMarks(value)
		return true, err
	}); err != nil {
		return err
	}
	s.remembers = s.window > 0
	s.due = 0
	return s.each(tagExpiry, nil, func([]byte, []byte) (bool, error) {
		s.remembers = true
		return false, nil
	})
}

// memtables are how many there may be: one that is written to, others that wait
// to become tables.
const memtables = 4

// options of Pebble. The format is pinned, so that another version of Pebble
// does not change what is on the disk.
func (s *store) options() *pebble.Options {
	o := &pebble.Options{
		FS: s.disk, Lock: s.lock, Cache: s.cache, Logger: logger{s.log, s.disk},
		FormatMajorVersion: pebble.FormatTableFormatV6,
		MemTableSize:       s.memory,
		// Tables that wait to be written, and runs of new tables, until writers
		// have to wait.
		MemTableStopWritesThreshold: memtables,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       64,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                1000,
		EventListener:               s.listener(),
	}
	for i := range o.Levels {
		// A MessageID that is not known is looked up for each job.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// listener tells what Pebble meets in the background.
func (s *store) listener() *pebble.EventListener {
	log := s.log
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			log.Error(err, "Pebble could not write or merge a table, and tries again", "directory", s.dir)
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			log.Error(info.Details, "A table is corrupt", "directory", s.dir, "path", info.Path)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.Info("Writes wait for tables to be written", "directory", s.dir, "reason", info.Reason)
		},
		WriteStallEnd: func() { log.Info("Writes go on", "directory", s.dir) },
	}
}

// logger is Pebble's way to speak. What it holds to be fatal breaks the store,
// and the process lives.
type logger struct {
	log interface {
		Info(string, ...any)
		Error(error, string, ...any)
	}
	disk *disk
}

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.log.Error(fmt.Errorf(format, args...), "Pebble", "directory", l.disk.dir)
}

func (l logger) Fatalf(format string, args ...any) {
	l.disk.freeze("go on", fmt.Errorf(format, args...)) //nolint:errcheck // whoever writes next is told
}
