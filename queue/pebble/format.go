package pebble

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// upgrade takes what is in a store to the next format. It reads the store and
// writes to the batch, which is committed, together with the new number, when it
// returns nil.
type upgrade func(r pebble.Reader, b *pebble.Batch) error

// format is what a version of this package writes.
type format struct {
	number uint64
	// steps are the upgrades by the format that they begin with: one for each
	// from the oldest that can be read.
	steps map[uint64]upgrade
}

// current is the format of layout.go. It is the first.
var current = format{number: 1}

// upgrade takes the store step by step to the current format. A crash between
// two steps leaves one or the other. A format of the future is refused, for what
// it means is not known here, and so is one that no step begins with.
func (s *store) upgrade() error {
	var have uint64
	found, err := s.get(keyFormat, func(v []byte) error {
		r := reader{b: v}
		have = r.number()
		return r.end("format")
	})
	if err != nil {
		return err
	}
	if !found {
		return s.begin()
	}
	for have != s.format.number {
		step := s.format.steps[have]
		if have > s.format.number || step == nil {
			return fmt.Errorf("%w: got %d, wanted %d", ErrFormat, have, s.format.number)
		}
		b := s.db.NewBatch()
		if err := step(s.db, b); err != nil {
			return fmt.Errorf("upgrade from format %d: %w", have, err)
		}
		have++
		if err := s.setFormat(b, have); err != nil {
			return err
		}
		hit("before-upgrade")
		if err := s.write(b); err != nil {
			return fmt.Errorf("upgrade to format %d: %w", have, err)
		}
		hit("after-upgrade")
		s.log.Info("Upgraded the queue's store", "directory", s.dir, "format", have)
	}
	return nil
}

// begin makes an empty store one of the current format. One that holds something
// and does not say what is not ours.
func (s *store) begin() error {
	rows, err := s.db.NewIter(nil)
	if err != nil {
		return fmt.Errorf("read: %w", corrupt(err))
	}
	empty := !rows.First()
	if err := rows.Close(); err != nil {
		return fmt.Errorf("read: %w", corrupt(err))
	}
	if !empty {
		return fmt.Errorf("%w: got a store without a number, wanted %d", ErrFormat, s.format.number)
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := s.setFormat(b, s.format.number); err != nil {
		return err
	}
	return s.write(b)
}

func (s *store) setFormat(b *pebble.Batch, n uint64) error {
	return b.Set(keyFormat, appendNumber(nil, n), nil)
}
