package pebble

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/workpull/operator/workpull"
)

// Keys of the store, format 1. All rows but those of 'm', 'b' and 'g' are
// written once and then removed: that is what allows SingleDelete, with which a
// job that is stored and done within one memtable leaves nothing in a table.
//
//	m/format                 number of the format
//	m/state                  epoch, cursor, window in ns
//	i + MessageID            sequence of a job that is not compacted
//	p + sequence             its payload
//	b + sequence / 1,024     marks of that many jobs (marks.go)
//	f + sequence             when it was confirmed, of a job that is not accepted
//	g + sequence             its progress, as JSON
//	d + MessageID            sequence and times of a job that is completed
//	c + time + sequence      its MessageID, in order of expiry
//
// A job that is stored, accepted and confirmed costs four rows and its share of
// the marks. Sequences and times are big endian in keys, so that they ascend.
const (
	tagMeta     = 'm'
	tagIndex    = 'i'
	tagPayload  = 'p'
	tagMarks    = 'b'
	tagFinish   = 'f'
	tagProgress = 'g'
	tagDone     = 'd'
	tagExpiry   = 'c'
)

var (
	keyFormat = []byte("m/format")
	keyState  = []byte("m/state")
)

func idKey(tag byte, id string) []byte {
	return append(append(make([]byte, 0, 1+len(id)), tag), id...)
}

func numberKey(tag byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), tag), n)
}

func expiryKey(at, sequence uint64) []byte {
	k := append(make([]byte, 0, 17), tagExpiry)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(k, at), sequence)
}

// after is the first key that does not begin with the tag.
func after(tag byte) []byte { return []byte{tag + 1} }

// nanos is a wall time as it is stored. Before 1970 it is 1970.
func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

// header is the row of m/state.
type header struct {
	epoch, cursor uint64
	window        time.Duration
}

func (h header) encode() []byte {
	b := binary.AppendUvarint(nil, h.epoch)
	b = binary.AppendUvarint(b, h.cursor)
	return binary.AppendUvarint(b, uint64(h.window))
}

func decodeHeader(b []byte) (header, error) {
	r := reader{b: b}
	h := header{epoch: r.number(), cursor: r.number(), window: time.Duration(r.number())}
	return h, r.end("state")
}

// completed is the row of a job that is both accepted and confirmed.
type completed struct {
	sequence uint64
	// at is when it became both, from which its window runs; confirmed is when
	// it was confirmed.
	at, confirmed uint64
	dropped       bool
}

func (c completed) encode() []byte {
	b := binary.AppendUvarint(nil, c.sequence)
	b = binary.AppendUvarint(b, c.at)
	return append(b, encodeFinish(c.confirmed, c.dropped)...)
}

func decodeCompleted(b []byte) (completed, error) {
	r := reader{b: b}
	c := completed{sequence: r.number(), at: r.number(), confirmed: r.number(), dropped: r.number() != 0}
	return c, r.end("completed job")
}

func (c completed) message() (workpull.CompletedMessage, error) {
	return workpull.NewCompletedMessage(c.sequence, time.Unix(0, int64(c.confirmed)).UTC(), c.dropped)
}

func encodeFinish(at uint64, dropped bool) []byte {
	b := binary.AppendUvarint(nil, at)
	if dropped {
		return append(b, 1)
	}
	return append(b, 0)
}

func decodeFinish(b []byte) (at uint64, dropped bool, err error) {
	r := reader{b: b}
	at, dropped = r.number(), r.number() != 0
	return at, dropped, r.end("confirmed job")
}

func decodeSequence(b []byte) (uint64, error) {
	r := reader{b: b}
	n := r.number()
	return n, r.end("sequence")
}

// payloadSize is the room that a payload takes.
func payloadSize(p workpull.ReliablePayload) int {
	return binary.MaxVarintLen32 + len(p.TypeURL()) + p.Size()
}

func decodePayload(b []byte) (workpull.ReliablePayload, error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return workpull.ReliablePayload{}, fmt.Errorf("payload of %d bytes: %w", len(b), ErrCorrupt)
	}
	p, err := workpull.NewReliablePayload(string(b[used:used+int(n)]), b[used+int(n):])
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return p, nil
}

// reader takes numbers off a row.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	n, used := binary.Uvarint(r.b)
	if used <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[used:]
	return n
}

// end says whether the row was whole, and over.
func (r *reader) end(what string) error {
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("row of a %s: %w", what, ErrCorrupt)
	}
	return nil
}
