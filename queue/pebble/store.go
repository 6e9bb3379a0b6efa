package pebble

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/workpull/operator/workpull"
)

// closePatience is how long a close waits for an operation that still runs.
const closePatience = 10 * time.Second

// Bounds of what is remembered of jobs beside the store.
const (
	// doneJobs are the latest compacted jobs of the epoch (rules 69, 70), and at
	// least as many as the last batch had.
	doneJobs, doneBytes = 1 << 16, 32 << 20
)

// store is what the queues of one directory share.
type store struct {
	place
	settings
	queues int           // of the registry
	gone   chan struct{} // closed when it is closed

	// turn holds one token for the one operation that writes, or opens. It has
	// all that follows but for what says otherwise.
	turn chan struct{}
	// reading holds off the close while somebody reads without a turn.
	reading sync.RWMutex
	opened  atomic.Bool // read by all
	closed  bool        // under reading
	db      *pebble.DB  // set before opened
	disk    *disk       // set before opened
	lock    *pebble.Lock
	cache   *pebble.Cache

	header
	epochs atomic.Uint64 // the epoch, for who has no turn
	spans  map[uint64]*marks
	done   *recent[completed] // of this epoch
	live   live
	// remembers tells that there may be completed jobs on the disk, and due when
	// the first of them expires at the earliest.
	remembers bool
	due       uint64
	free      free
}

func newStore(at place, with settings) *store {
	return &store{
		place: at, settings: with, gone: make(chan struct{}), turn: make(chan struct{}, 1),
		spans: map[uint64]*marks{},
		done:  newRecent[completed](doneJobs, doneBytes),
	}
}

// answer is what an operation found.
type answer[T any] struct {
	value T
	err   error
}

// inTurn runs an operation when it is its turn, and returns when it is over or
// the context is, whichever is first. An operation that has begun goes on to its
// end, with nobody to hear of it, and keeps its turn until then.
func inTurn[T any](ctx context.Context, s *store, operation func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	over := make(chan answer[T], 1)
	go func() {
		var a answer[T]
		defer func() {
			<-s.turn
			over <- a
		}()
		a.value, a.err = guarded(s, operation)
	}()
	select {
	case a := <-over:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// guarded opens the store if need be and runs the operation. A panic of Pebble's
// is an error that breaks the store.
func guarded[T any](s *store, operation func() (T, error)) (value T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			if s.disk != nil {
				err = s.disk.freeze("operate", err)
			}
		}
	}()
	if s.closed {
		return value, ErrClosed
	}
	if !s.opened.Load() {
		if err := s.open(); err != nil {
			return value, fmt.Errorf("open: %w", err)
		}
	}
	if err := s.disk.broken(); err != nil {
		return value, err
	}
	return operation()
}

// close closes Pebble. An operation that does not end is left alone, and the
// store stays locked.
func (s *store) close() error {
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	select {
	case s.turn <- struct{}{}:
	case <-timer.C:
		s.disk.freeze("close", errors.New("an operation does not end")) //nolint:errcheck // it is told below
		return fmt.Errorf("an operation does not end within %s, the store stays locked: %w", closePatience, ErrBroken)
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	s.closed = true
	if !s.opened.Load() {
		return nil
	}
	return s.shut()
}

// shut releases all that open took. What broke before is no error of the close:
// who was refused knows of it.
func (s *store) shut() error {
	s.disk.leave()
	over := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				over <- fmt.Errorf("panic: %v", r)
			}
		}()
		over <- s.db.Close()
	}()
	timer := time.NewTimer(closePatience)
	defer timer.Stop()
	var err error
	select {
	case err = <-over:
	case <-timer.C:
		s.disk.freeze("close", errors.New("pebble does not close")) //nolint:errcheck // it is told below
		return fmt.Errorf("pebble does not close within %s, the store stays locked: %w", closePatience, ErrBroken)
	}
	s.cache.Unref()
	if s.disk.broken() != nil {
		err = nil
	}
	return errors.Join(err, s.lock.Close())
}

// read runs what needs no turn.
func read[T any](ctx context.Context, s *store, operation func() (T, error)) (T, error) {
	var none T
	if !s.opened.Load() {
		if _, err := inTurn(ctx, s, func() (T, error) { return none, nil }); err != nil {
			return none, err
		}
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	over := make(chan answer[T], 1)
	go func() {
		var a answer[T]
		defer func() { over <- a }()
		s.reading.RLock()
		defer s.reading.RUnlock()
		a.value, a.err = guarded(s, operation)
	}()
	select {
	case a := <-over:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// check is the fence (rule 65).
func (s *store) check(epoch workpull.QueueEpoch) error {
	if epoch.Value() == 0 || epoch.Value() != s.epoch {
		return fenced(epoch, s.epoch)
	}
	return nil
}

func fenced(epoch workpull.QueueEpoch, latest uint64) error {
	return fmt.Errorf("epoch %d, the queue's is %d: %w", epoch.Value(), latest, workpull.ErrQueueFenced)
}

// get calls with with the value of a key, which is gone afterwards, and tells
// whether there is one.
func (s *store) get(key []byte, with func(value []byte) error) (bool, error) {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read: %w", corrupt(err))
	}
	if err = with(value); err != nil {
		closer.Close() //nolint:errcheck // it was only read
		return true, err
	}
	return true, closer.Close()
}

// write commits the batch and syncs it. After an error everything is refused.
func (s *store) write(b *pebble.Batch) error {
	if b.Empty() {
		return nil
	}
	hit("before-write")
	err := b.Commit(pebble.Sync)
	if err != nil {
		return s.disk.freeze("commit", err)
	}
	// Pebble reports a write that failed by what it does to its log, and that
	// the disk has seen: whether it is frozen is what counts.
	if err := s.disk.broken(); err != nil {
		return err
	}
	hit("before-answer")
	return nil
}

// setHeader writes the row that says where the queue is.
func (s *store) setHeader(b *pebble.Batch, h header) error {
	return b.Set(keyState, h.encode(), nil)
}

// corrupt marks an error of Pebble's that says that the disk holds something
// else than was written.
func corrupt(err error) error {
	if pebble.IsCorruptionError(err) && !errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// free is what the volume had when it was last asked.
type free struct {
	asked   time.Time
	written uint64 // since
	left    uint64
}

// room refuses to store where less than the reserve is free. It asks each second
// and whenever half of the reserve may be used up.
func (s *store) room(bytes uint64) error {
	now := s.now()
	s.free.written += bytes
	if s.free.asked.IsZero() || s.free.written > s.reserve/2 || now.Sub(s.free.asked).Abs() >= time.Second {
		usage, err := s.disk.GetDiskUsage(s.dir)
		switch {
		case errors.Is(err, vfs.ErrUnsupported):
			usage.AvailBytes = 1 << 62
		case err != nil:
			return fmt.Errorf("ask what is free: %w", err)
		}
		s.free = free{asked: now, left: usage.AvailBytes}
	}
	if s.free.left < s.reserve {
		return fmt.Errorf("%d bytes are free, wanted %d: %w", s.free.left, s.reserve, ErrDiskFull)
	}
	return nil
}
