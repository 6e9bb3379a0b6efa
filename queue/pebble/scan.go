package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// each calls with for the rows of a tag, from a key on or from the first, until
// it returns false. The slices are gone afterwards.
func (s *store) each(tag byte, from []byte, with func(key, value []byte) (bool, error)) (err error) {
	if from == nil {
		from = []byte{tag}
	}
	rows, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(tag)})
	if err != nil {
		return fmt.Errorf("read: %w", corrupt(err))
	}
	defer func() {
		if failed := corrupt(rows.Close()); failed != nil && err == nil {
			err = fmt.Errorf("read: %w", failed)
		}
	}()
	for ok := rows.First(); ok; ok = rows.Next() {
		value, err := rows.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read: %w", corrupt(err))
		}
		if more, err := with(rows.Key(), value); err != nil || !more {
			return err
		}
	}
	return nil
}

// number is that of a numberKey.
func number(key []byte) (uint64, error) {
	if len(key) != 9 {
		return 0, fmt.Errorf("key %q: %w", key, ErrCorrupt)
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

// errMissing is a row that has to be there.
var errMissing = errors.New("row is missing")

// must is get of a row that has to be there.
func (s *store) must(key []byte, with func(value []byte) error) error {
	found, err := s.get(key, with)
	if err == nil && !found {
		err = fmt.Errorf("%w: %w: %.40q", ErrCorrupt, errMissing, key)
	}
	return err
}
