// Package pebble keeps a durable work queue in a directory, with Pebble
// (github.com/cockroachdb/pebble), an embedded store: the queue of a producer
// that has a volume and needs no database.
//
//	queue := pebble.New("/var/lib/workpull/jobs")
//	defer queue.Close()
//	dispatcher, err := workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{},
//		workpull.AsReliableWorkPullingProducer(
//			workpull.WithReliableDurableWorkQueue(queue)))
//
// What an operation acknowledged is on the disk: each ends with a sync. All
// queues of one directory in one process share one store, which is opened when
// it is first used and closed with the last of them. Another process is refused
// (ErrLocked) as long as the store is open.
//
// Whatever the disk does, the process lives and no operation waits beyond its
// context. After an error of a write or a sync nobody knows what is on the disk
// (S34): the store writes nothing more and refuses everything (ErrBroken), until
// it is closed and opened again. All that was acknowledged is there then.
//
// docs/operations.md tells about volumes, backup, restore and full disks.
package pebble

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/workpull/operator/workpull"
)

// Errors of this package. None of them is final for a controller (rule 60).
var (
	// ErrNoDirectory: the queue has no directory, as the zero value has none.
	ErrNoDirectory = errors.New("pebble queue has no directory")
	// ErrNotPebble: the bytes are not what MarshalBinary of a Queue returned.
	ErrNotPebble = errors.New("not a pebble queue")
	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("pebble queue is closed")
	// ErrLocked: another process, or another path to the same directory, has
	// the store open.
	ErrLocked = errors.New("the store is open elsewhere")
	// ErrBroken: a write or a sync failed since the store was opened.
	ErrBroken = errors.New("the store is broken until it is opened again")
	// ErrCorrupt: what is on the disk is not what was written.
	ErrCorrupt = errors.New("the store is corrupt")
	// ErrFormat: the store has a format that this version does not know.
	ErrFormat = errors.New("unknown format")
	// ErrDiskFull: less is free than the reserve, so that no job is stored.
	// Jobs can still be confirmed, which makes room.
	ErrDiskFull = errors.New("disk is full")
)

// magic begins the serialized form; the directory follows.
const magic = "workpull pebble queue 1\n"

// Queue is a writer of the store in a directory. It is safe for concurrent use,
// but for UnmarshalBinary.
type Queue struct {
	dir      string
	settings settings

	mu     sync.Mutex
	store  *store // nil before the first use
	closed bool
}

var _ interface {
	workpull.BatchWorkQueue
	workpull.PagingWorkQueue
	workpull.AttemptWorkQueue
	workpull.DeduplicatingWorkQueue
	workpull.ConditionalWorkQueue
} = (*Queue)(nil)

// New returns a writer of the store in that directory, and opens nothing. The
// directory is made when the queue is first used. Of several queues of one
// directory it is the options of the first that are used. An empty name is
// refused with ErrNoDirectory by whatever is done with the queue.
func New(dir string, options ...Option) *Queue {
	q := &Queue{dir: dir}
	for _, o := range options {
		o(&q.settings)
	}
	return q
}

// ID names the queue among its endpoint's dependencies: "pebble-" and a digest
// of the directory's name, which may hold what an ID may not.
func (q *Queue) ID() string {
	digest := sha256.Sum256([]byte(absolute(q.dir)))
	return fmt.Sprintf("pebble-%x", digest[:12])
}

// MarshalBinary returns the directory's name, and nothing of what is stored
// (rule 72). The name is made absolute, for whoever reads it may work elsewhere.
func (q *Queue) MarshalBinary() ([]byte, error) {
	if q.dir == "" {
		return nil, ErrNoDirectory
	}
	return []byte(magic + absolute(q.dir)), nil
}

// UnmarshalBinary makes q, which was not used before, a writer of the store in
// the directory that the bytes name; it opens nothing. The error is ErrNotPebble
// for any other bytes, and q stays what it was. On another node the directory
// has to be the same volume.
func (q *Queue) UnmarshalBinary(data []byte) error {
	dir, ok := bytes.CutPrefix(data, []byte(magic))
	if !ok || len(dir) == 0 {
		return fmt.Errorf("read %d bytes: %w", len(data), ErrNotPebble)
	}
	q.dir = string(dir)
	return nil
}

// absolute is the directory from the root. Where the working directory cannot be
// found it is what was given.
func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		return abs
	}
	return dir
}

// Close ends the use of the store, which is closed with the last of its queues.
// Operations that still run are waited for, but not for longer than a disk that
// does nothing deserves (10 s): then the error says so, and the store stays
// locked for as long as the process lives.
func (q *Queue) Close() error {
	q.mu.Lock()
	s := q.store
	q.store, q.closed = nil, true
	q.mu.Unlock()
	if s == nil {
		return nil
	}
	if err := stores.release(s); err != nil {
		return fmt.Errorf("close queue in %s: %w", q.dir, err)
	}
	return nil
}
