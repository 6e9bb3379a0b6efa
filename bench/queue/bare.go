package main

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/workpull/operator/bench/internal/testbed"
)

// bareJob is a job in a bareLoop.
type bareJob struct {
	id       string
	sequence uint64
}

// bareLoop writes to a store of queue/pebble what that would write, and does
// nothing else: it looks nothing up and checks nothing. It has the options with
// which the queue opened the store last. Jobs are accepted and confirmed in the
// order of their sequences. The rows are told of in queue/pebble/layout.go.
type bareLoop struct {
	db     *pebble.DB
	noise  *rand.ChaCha8
	cursor uint64
	// unaccepted jobs and those that wait for their confirmation.
	unaccepted, waiting []bareJob
	spans               map[uint64]*bareSpan
	value               []byte // of m/state and of payloads, but for the last 200 bytes
	dirty               map[uint64]bool
	key                 []byte
	ids                 []string // made beforehand
}

// bareSpan are the marks of spanJobs sequences.
type bareSpan struct {
	accepted [spanJobs / 8]byte
	live     int // jobs that are not removed
}

const spanJobs = 1024

// typeURL of the jobs.
const typeURL = "type.googleapis.com/google.protobuf.BytesValue"

// openBare opens the store that a queue has closed.
func openBare(path string) (b *bareLoop, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open a bare Pebble: %w", err)
		}
	}()
	found, err := pebble.Peek(path, vfs.Default)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(found.OptionsFilename)
	if err != nil {
		return nil, err
	}
	options := &pebble.Options{Logger: quietLogger{}}
	hooks := &pebble.ParseHooks{NewFilterPolicy: func(name string) (pebble.FilterPolicy, error) {
		if policy := bloom.FilterPolicy(10); policy.Name() == name {
			return policy, nil
		}
		return nil, fmt.Errorf("filter policy %q: unknown", name)
	}}
	if err := options.Parse(string(text), hooks); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	b = &bareLoop{noise: rand.NewChaCha8([32]byte{}), spans: map[uint64]*bareSpan{}, dirty: map[uint64]bool{}}
	if b.db, err = pebble.Open(path, options); err != nil {
		return nil, err
	}
	if err := b.read(); err != nil {
		return nil, errors.Join(err, b.db.Close())
	}
	return b, nil
}

// quietLogger says nothing but what ends the process.
type quietLogger struct{}

// Infof implements pebble.Logger.
func (quietLogger) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (quietLogger) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger.
func (quietLogger) Fatalf(format string, args ...any) {
	pebble.DefaultLogger.Fatalf(format, args...)
}

func (b *bareLoop) close() error { return b.db.Close() }

// read finds the jobs that the store holds.
func (b *bareLoop) read() error {
	err := b.each('b', func(key, value []byte) error {
		s := b.span(binary.BigEndian.Uint64(key) * spanJobs)
		if value[0]&1 != 0 {
			copy(s.accepted[:], value[1:])
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = b.each('i', func(id, value []byte) error {
		sequence, used := binary.Uvarint(value)
		if used <= 0 {
			return fmt.Errorf("job %q has no sequence", id)
		}
		b.cursor = max(b.cursor, sequence)
		b.span(sequence).live++
		j := bareJob{string(id), sequence}
		if b.span(sequence).has(sequence) {
			b.waiting = append(b.waiting, j)
		} else {
			b.unaccepted = append(b.unaccepted, j)
		}
		return nil
	})
	bySequence := func(a, b bareJob) int { return int(int64(a.sequence) - int64(b.sequence)) }
	slices.SortFunc(b.waiting, bySequence)
	slices.SortFunc(b.unaccepted, bySequence)
	return err
}

// each calls with for the rows of a tag, with the key behind it.
func (b *bareLoop) each(tag byte, with func(key, value []byte) error) (err error) {
	rows, err := b.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tag}, UpperBound: []byte{tag + 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for ok := rows.First(); ok; ok = rows.Next() {
		value, err := rows.ValueAndErr()
		if err != nil {
			return err
		}
		if err := with(rows.Key()[1:], value); err != nil {
			return err
		}
	}
	return nil
}

func (b *bareLoop) span(sequence uint64) *bareSpan {
	s := b.spans[sequence/spanJobs]
	if s == nil {
		s = new(bareSpan)
		b.spans[sequence/spanJobs] = s
	}
	return s
}

func (s *bareSpan) has(sequence uint64) bool {
	return s.accepted[sequence%spanJobs/8]&(1<<(sequence%8)) != 0
}

func (s *bareSpan) accept(sequence uint64) { s.accepted[sequence%spanJobs/8] |= 1 << (sequence % 8) }

// repeat makes commits of these sizes and gives the rate of confirmations. What
// the store does not have enough of for one commit is made up for by the next.
func (b *bareLoop) repeat(ctx context.Context, commits []commit) (rate float64, err error) {
	stores := 0
	for _, c := range commits {
		stores += c.stores
	}
	b.prepare(stores)
	var owed commit
	done := 0
	begun := time.Now()
	for _, c := range commits {
		accepts := min(owed.accepts+c.accepts, len(b.unaccepted)+c.stores)
		confirms := min(owed.confirms+c.confirms, len(b.waiting)+accepts)
		owed.accepts += c.accepts - accepts
		owed.confirms += c.confirms - confirms
		if err := b.commit(c.stores, accepts, confirms); err != nil {
			return 0, err
		}
		done += confirms
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	took := time.Since(begun)
	if done == 0 {
		return 0, errors.New("no job was confirmed in the bare loop")
	}
	return float64(done) / took.Seconds(), nil
}

// oneByOne makes two commits for each job, and gives the rate of jobs.
func (b *bareLoop) oneByOne(ctx context.Context, over time.Duration) (rate float64, err error) {
	done := 0
	begun := time.Now()
	for time.Since(begun) < over {
		if err := errors.Join(b.commit(1, 0, 0), b.commit(0, len(b.unaccepted), len(b.waiting)+len(b.unaccepted)), ctx.Err()); err != nil {
			return 0, err
		}
		done++
	}
	return float64(done) / time.Since(begun).Seconds(), nil
}

// prepare makes MessageIDs, which the queue does not make either.
func (b *bareLoop) prepare(count int) {
	b.ids = make([]string, count)
	for i := range b.ids {
		b.ids[i] = crand.Text()
	}
}

// commit is one synced batch.
func (b *bareLoop) commit(stores, accepts, confirms int) (err error) {
	batch := b.db.NewBatchWithSize(512*stores + 64*(accepts+confirms) + 1024)
	defer func() { err = errors.Join(err, batch.Close()) }()
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	for range stores {
		if len(b.ids) == 0 {
			b.prepare(1)
		}
		b.cursor++
		j := bareJob{b.ids[0], b.cursor}
		b.ids = b.ids[1:]
		b.value = binary.AppendUvarint(b.value[:0], j.sequence)
		note(batch.Set(b.idKey(j.id), b.value, nil))
		note(batch.Set(b.numberKey('p', j.sequence), b.payload(), nil))
		b.span(j.sequence).live++
		b.unaccepted = append(b.unaccepted, j)
	}
	older := len(b.waiting) // accepted before
	b.waiting = append(b.waiting, b.unaccepted[:accepts]...)
	b.unaccepted = b.unaccepted[accepts:]
	for _, j := range b.waiting[:confirms] {
		note(batch.SingleDelete(b.idKey(j.id), nil))
		note(batch.SingleDelete(b.numberKey('p', j.sequence), nil))
		s := b.span(j.sequence)
		if s.live--; s.live == 0 {
			b.dirty[j.sequence/spanJobs] = true
		}
	}
	for _, j := range b.waiting[max(older, confirms):] {
		b.span(j.sequence).accept(j.sequence)
		b.dirty[j.sequence/spanJobs] = true
	}
	b.waiting = b.waiting[confirms:]
	if stores > 0 {
		b.value = binary.AppendUvarint(append(b.value[:0], 1), b.cursor)
		note(batch.Set([]byte("m/state"), append(b.value, 0), nil))
	}
	for n := range b.dirty {
		key := b.numberKey('b', n)
		if s := b.spans[n]; s.live == 0 && n < b.cursor/spanJobs {
			note(batch.Delete(key, nil))
			delete(b.spans, n)
		} else {
			note(batch.Set(key, b.marks(s), nil))
		}
	}
	clear(b.dirty)
	note(batch.Commit(pebble.Sync))
	return err
}

// marks are a row of them: a byte that says which sets there are, and the set.
func (b *bareLoop) marks(s *bareSpan) []byte {
	if s.accepted == [spanJobs / 8]byte{} {
		return append(b.value[:0], 0)
	}
	b.value = append(append(b.value[:0], 1), s.accepted[:]...)
	return b.value
}

// payload is a row of one.
func (b *bareLoop) payload() []byte {
	b.value = append(append(b.value[:0], byte(len(typeURL))), typeURL...)
	b.value = append(b.value, 1<<3|2)
	b.value = binary.AppendUvarint(b.value, testbed.PayloadBytes)
	head := len(b.value)
	b.value = slices.Grow(b.value, testbed.PayloadBytes)[:head+testbed.PayloadBytes]
	_, _ = b.noise.Read(b.value[head:]) // it does not fail
	return b.value
}

func (b *bareLoop) idKey(id string) []byte {
	b.key = append(append(b.key[:0], 'i'), id...)
	return b.key
}

func (b *bareLoop) numberKey(tag byte, n uint64) []byte {
	b.key = binary.BigEndian.AppendUint64(append(b.key[:0], tag), n)
	return b.key
}
