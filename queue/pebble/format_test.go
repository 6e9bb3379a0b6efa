package pebble_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	crdb "github.com/cockroachdb/pebble/v2"

	"github.com/workpull/operator/queue/pebble"
)

// oldFormat is a store of a format 0: one row for each job, j + sequence, with
// the flag of its accept, its MessageID, type URL and payload.
func oldFormat(t *testing.T, dir string, jobs int, number uint64) {
	t.Helper()
	db, err := crdb.Open(dir, &crdb.Options{Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	b := db.NewBatch()
	set := func(key, value []byte) {
		if err := b.Set(key, value, nil); err != nil {
			t.Fatal(err)
		}
	}
	set([]byte("m/format"), binary.AppendUvarint(nil, number))
	set([]byte("cursor"), binary.AppendUvarint(nil, uint64(jobs+5)))
	for i := 1; i <= jobs; i++ {
		id := fmt.Sprintf("job %d", i)
		p := payloadFor(id, 100)
		set(binary.BigEndian.AppendUint64([]byte("j"), uint64(i)), fmt.Appendf(nil, "%d|%s|%s|%s", i%2, id, p.TypeURL(), p.Value()))
	}
	if err := errors.Join(b.Commit(crdb.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, a ...any) {
	panic(fmt.Sprintf(f, a...))
}

// fromOld takes format 0 to format 1.
func fromOld(r crdb.Reader, b *crdb.Batch) error {
	rows, err := r.NewIter(nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	var accepted [16]uint64
	for ok := rows.First(); ok; ok = rows.Next() {
		key := rows.Key()
		if key[0] != 'j' {
			continue
		}
		parts := bytes.SplitN(rows.Value(), []byte("|"), 4)
		sequence := binary.BigEndian.Uint64(key[1:])
		if parts[0][0] == '1' {
			accepted[sequence/64] |= 1 << (sequence % 64)
		}
		payload := append(append(binary.AppendUvarint(nil, uint64(len(parts[2]))), parts[2]...), parts[3]...)
		err = errors.Join(err,
			b.Set(append([]byte("i"), parts[1]...), binary.AppendUvarint(nil, sequence), nil),
			b.Set(binary.BigEndian.AppendUint64([]byte("p"), sequence), payload, nil),
			b.Delete(key, nil))
	}
	cursor, closer, found := r.Get([]byte("cursor"))
	if found != nil {
		return found
	}
	state := append(append([]byte{3}, cursor...), 0) // of epoch 3
	marks := []byte{1}
	for _, w := range accepted {
		marks = binary.LittleEndian.AppendUint64(marks, w)
	}
	return errors.Join(err, closer.Close(), rows.Error(),
		b.Set([]byte("m/state"), state, nil), b.Set([]byte("b\x00\x00\x00\x00\x00\x00\x00\x00"), marks, nil), b.Delete([]byte("cursor"), nil))
}

// TestUpgrade: a store of an older format is taken to the current one when it is
// opened, once, with all that is in it; one of another format is refused, and
// stays what it is.
func TestUpgrade(t *testing.T) {
	const jobs = 50
	dir := t.TempDir()
	oldFormat(t, dir, jobs, 0)
	plain := pebble.New(dir, small...)
	if _, _, err := plain.Load(within(t)); !errors.Is(err, pebble.ErrFormat) {
		t.Errorf("a format without a step: %v", err)
	}
	closeQueue(t, plain)
	failing := pebble.New(dir, append([]pebble.Option{pebble.WithFormat(pebble.Current, map[uint64]pebble.Upgrade{
		0: func(r crdb.Reader, b *crdb.Batch) error { return errors.Join(fromOld(r, b), context.Canceled) },
	})}, small...)...)
	if _, _, err := failing.Load(within(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("a step that fails: %v", err)
	}
	closeQueue(t, failing)
	steps := map[uint64]pebble.Upgrade{0: fromOld}
	for _, with := range [][]pebble.Option{{pebble.WithFormat(pebble.Current, steps)}, nil} {
		q := pebble.New(dir, append(with, small...)...)
		state, epoch, err := q.Load(within(t))
		if err != nil || state.Len() != jobs || state.Cursor() != jobs+5 || epoch.Value() < 4 {
			t.Fatalf("%d jobs, cursor %d, epoch %d: %v", state.Len(), state.Cursor(), epoch.Value(), err)
		}
		for i, m := range state.Messages() {
			want := payloadFor(fmt.Sprintf("job %d", i+1), 100)
			if m.Sequence() != uint64(i+1) || m.Accepted() != (i%2 == 0) || m.Payload().TypeURL() != want.TypeURL() || string(m.Payload().Value()) != string(want.Value()) {
				t.Fatalf("job %d is %+v", i+1, m)
			}
		}
		if n, err := pebble.Rows(q, 'j'); err != nil || n > 0 {
			t.Errorf("%d rows of the old format: %v", n, err)
		}
		closeQueue(t, q)
	}
	future := t.TempDir()
	oldFormat(t, future, 1, pebble.Current+1)
	q := pebble.New(future, append([]pebble.Option{pebble.WithFormat(pebble.Current, steps)}, small...)...)
	if _, _, err := q.Load(within(t)); !errors.Is(err, pebble.ErrFormat) {
		t.Errorf("a format of the future: %v", err)
	} else if want := fmt.Sprintf("got %d, wanted %d", pebble.Current+1, pebble.Current); !strings.Contains(err.Error(), want) {
		t.Errorf("%v, wanted %q in it", err, want)
	}
	closeQueue(t, q)
}
