package pebble

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Upgrade is a step to the next format.
type Upgrade = func(r pebble.Reader, b *pebble.Batch) error

// WithFS keeps the store on another file system.
func WithFS(fs vfs.FS) Option { return func(s *settings) { s.fs = fs } }

// WithClock sets the wall time.
func WithClock(now func() time.Time) Option { return func(s *settings) { s.now = now } }

// WithPage sets how much of the payloads a Load returns, in bytes.
func WithPage(bytes int) Option { return func(s *settings) { s.page = bytes } }

// WithFormat makes another format the current one.
func WithFormat(number uint64, steps map[uint64]Upgrade) Option {
	return func(s *settings) {
		s.format = &format{number: number, steps: map[uint64]upgrade{}}
		for from, step := range steps {
			s.format.steps[from] = step
		}
	}
}

// Rows counts the rows of a tag that the queue's open store has.
func Rows(q *Queue, tag byte) (n int, err error) {
	err = q.store.each(tag, nil, func([]byte, []byte) (bool, error) {
		n++
		return true, nil
	})
	return n, err
}

// Current is the number of the current format.
var Current = current.number
