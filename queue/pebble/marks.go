package pebble

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// span is how many sequences share a row of marks.
const span = 1024

// bitset has a bit for each sequence of a span.
type bitset [span / 64]uint64

func (s *bitset) has(sequence uint64) bool {
	return s[sequence%span/64]&(1<<(sequence%64)) != 0
}

func (s *bitset) set(sequence uint64, on bool) {
	if on {
		s[sequence%span/64] |= 1 << (sequence % 64)
	} else {
		s[sequence%span/64] &^= 1 << (sequence % 64)
	}
}

// marks are what was noted of the jobs of a span: whole spans are written, so
// that the accepts of a batch, whose sequences follow each other, take a row or
// two. Marks of jobs that are compacted mean nothing, for no sequence comes
// twice.
type marks struct {
	accepted, confirmed, progress bitset
	// live is how many jobs of the span are not compacted. It is known only
	// where all of them were stored, or loaded, since the store was opened.
	live  int
	exact bool
}

func (m *marks) sets() [3]*bitset { return [3]*bitset{&m.accepted, &m.confirmed, &m.progress} }

// encode leaves out the sets that are empty.
func (m *marks) encode() []byte {
	b := make([]byte, 1, 1+3*span/8)
	for i, set := range m.sets() {
		if *set == (bitset{}) {
			continue
		}
		b[0] |= 1 << i
		for _, w := range set {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	return b
}

func decodeMarks(b []byte) (*marks, error) {
	m := &marks{}
	if len(b) == 0 || len(b) != 1+bits.OnesCount8(b[0])*span/8 || b[0] > 7 {
		return nil, fmt.Errorf("row of marks of %d bytes: %w", len(b), ErrCorrupt)
	}
	mask, b := b[0], b[1:]
	for i, set := range m.sets() {
		if mask&(1<<i) == 0 {
			continue
		}
		for j := range set {
			set[j] = binary.LittleEndian.Uint64(b[8*j:])
		}
		b = b[span/8:]
	}
	return m, nil
}
