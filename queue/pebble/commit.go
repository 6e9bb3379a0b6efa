package pebble

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/workpull/operator/workpull"
)

// knowledge is what the store knows of a MessageID.
type knowledge int

const (
	unknown   knowledge = iota
	stored              // and not compacted
	fresh               // stored by this commit
	compacted           // completed, and still known
)

// touched is a job that a commit has to do with.
type touched struct {
	id        string
	digest    digest
	knowledge knowledge
	sequence  uint64
	payload   workpull.ReliablePayload // of a fresh one
	// What was noted before this commit, and what it notes.
	wasAccepted, wasConfirmed bool
	accept, confirm           bool
	// dropped and confirmed tell of a job that is or becomes confirmed.
	dropped   bool
	confirmed uint64
	// row is that of a completed job; stale tells that its window is over.
	row   completed
	stale bool
}

func (t *touched) finished() bool {
	return (t.wasAccepted || t.accept) && (t.wasConfirmed || t.confirm)
}

// change is a commit on its way: first all is found out that may refuse it, and
// nothing is changed until then.
type change struct {
	*store
	cursor uint64
	jobs   []touched
	byID   map[string]int
	bytes  int // of new payloads
}

// commit carries out all of a batch or nothing. Proposed tells that the stores
// propose their sequences (rule 68).
func (s *store) commit(epoch workpull.QueueEpoch, batch workpull.WorkBatch, proposed bool) ([]workpull.StoreResult, error) {
	if err := s.check(epoch); err != nil {
		return nil, err
	}
	if err := s.learn(); err != nil {
		return nil, err
	}
	stores, accepts, confirms := batch.Stores(), batch.Accepts(), batch.Confirms()
	most := len(stores) + len(accepts) + len(confirms)
	c := change{store: s, cursor: s.cursor, jobs: make([]touched, 0, most), byID: make(map[string]int, most)}
	results := make([]workpull.StoreResult, 0, len(stores))
	for _, request := range stores {
		result, err := c.add(request, proposed)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	for _, id := range accepts {
		t, err := c.known(id)
		if err != nil {
			return nil, err
		}
		t.accept = true
	}
	now := nanos(s.now())
	for _, id := range confirms {
		t, err := c.known(id)
		if err != nil {
			return nil, err
		}
		if err := c.confirm(t, now); err != nil {
			return nil, err
		}
	}
	if c.bytes > 0 {
		if err := s.room(uint64(c.bytes)); err != nil {
			return nil, err
		}
	}
	if err := c.apply(now); err != nil {
		return nil, err
	}
	return results, nil
}

// find is what is known of a MessageID, the commit's own stores included. The
// pointer is good until the next call.
func (c *change) find(id string) (*touched, error) {
	if i, ok := c.byID[id]; ok {
		return &c.jobs[i], nil
	}
	t := touched{id: id}
	if err := c.look(&t); err != nil {
		return nil, fmt.Errorf("job %q: %w", id, err)
	}
	c.byID[id] = len(c.jobs)
	c.jobs = append(c.jobs, t)
	return &c.jobs[len(c.jobs)-1], nil
}

// look fills in what was known before the commit.
func (c *change) look(t *touched) error {
	var ok bool
	t.digest = digestOf(t.id)
	if t.sequence, ok = c.live.jobs[t.digest]; !ok { // it has the turn
		if t.row, ok = c.done.get(t.id); ok {
			t.knowledge, t.sequence, t.dropped = compacted, t.row.sequence, t.row.dropped
			return nil
		}
		return c.lookCompleted(t)
	}
	t.knowledge = stored
	m := c.marks(t.sequence)
	t.wasAccepted, t.wasConfirmed = m.accepted.has(t.sequence), m.confirmed.has(t.sequence)
	if !t.wasConfirmed {
		return nil
	}
	return c.must(numberKey(tagFinish, t.sequence), func(v []byte) (err error) {
		t.confirmed, t.dropped, err = decodeFinish(v)
		return err
	})
}

// add is a store (rules 68, 69).
func (c *change) add(request workpull.StoreRequest, proposed bool) (workpull.StoreResult, error) {
	var none workpull.StoreResult
	if request.MessageID() == "" {
		return none, fmt.Errorf("request without a MessageID: %w", workpull.ErrQueueConflict)
	}
	t, err := c.find(request.MessageID())
	if err != nil {
		return none, err
	}
	payload, already := request.Payload(), true
	switch t.knowledge {
	case unknown:
		already = false
		if proposed && request.Sequence() != c.cursor+1 {
			return none, fmt.Errorf("job %q proposes sequence %d, the cursor is %d: %w", t.id, request.Sequence(), c.cursor, workpull.ErrQueueConflict)
		}
		if payload.TypeURL() == "" {
			return none, fmt.Errorf("job %q has no payload: %w", t.id, workpull.ErrQueueConflict)
		}
		c.cursor++
		c.bytes += len(t.id) + payloadSize(payload)
		t.knowledge, t.sequence, t.payload = fresh, c.cursor, payload
	case fresh:
		payload = t.payload
	case stored:
		if err := c.must(numberKey(tagPayload, t.sequence), func(v []byte) (err error) {
			payload, err = decodePayload(v)
			return err
		}); err != nil {
			return none, fmt.Errorf("job %q: %w", t.id, err)
		}
	}
	result, err := workpull.NewStoreResult(t.sequence, payload, already)
	if err != nil {
		return none, fmt.Errorf("job %q: %w: %w", t.id, workpull.ErrQueueConflict, err)
	}
	if t.dropped {
		result = result.AsDropped()
	}
	return result, nil
}

// known finds a job that has to be known (rule 70).
func (c *change) known(id string) (*touched, error) {
	t, err := c.find(id)
	if err == nil && t.knowledge == unknown {
		err = fmt.Errorf("job %q was never stored: %w", id, workpull.ErrQueueConflict)
	}
	return t, err
}

// confirm notes that a job is done, or was given up, as its progress tells.
func (c *change) confirm(t *touched, now uint64) error {
	if t.knowledge == compacted || t.wasConfirmed || t.confirm {
		return nil
	}
	t.confirm, t.confirmed = true, now
	if t.knowledge == fresh || !c.marks(t.sequence).progress.has(t.sequence) {
		return nil
	}
	return c.must(numberKey(tagProgress, t.sequence), func(v []byte) error {
		progress, err := workpull.DecodeJobProgress(t.id, v)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		t.dropped = progress.Fate() == workpull.FateDropped
		return nil
	})
}

// apply writes what the commit changes, and takes it into memory. Nothing is
// refused any more: after an error the store is broken.
func (c *change) apply(now uint64) error {
	b := c.db.NewBatchWithSize(c.bytes + 64*len(c.jobs) + 1024)
	defer b.Close()
	w := writer{batch: b, dirty: map[uint64]*marks{}}
	finished := 0
	c.live.mu.Lock()
	for i := range c.jobs {
		t := &c.jobs[i]
		if t.stale && t.knowledge == fresh {
			w.remove(idKey(tagDone, t.id))
			w.remove(expiryKey(t.row.at, t.row.sequence))
		}
		switch {
		case t.knowledge == unknown || t.knowledge == compacted:
		case t.finished():
			finished++
			c.complete(&w, t, now)
		default:
			c.note(&w, t)
		}
	}
	c.live.mu.Unlock()
	if c.cursor != c.store.cursor {
		c.header.cursor = c.cursor
		w.failed(c.setHeader(b, c.header))
	}
	if !b.Empty() || len(w.dirty) > 0 {
		c.expire(&w, c.byID, 256+2*finished, now)
	}
	c.writeMarks(&w)
	if w.err != nil {
		return c.disk.freeze("collect a batch", w.err)
	}
	c.done.trim(2 * finished)
	return c.write(b)
}

// note writes what is new of a job that is not finished.
func (c *change) note(w *writer, t *touched) {
	if t.knowledge == fresh {
		w.set(idKey(tagIndex, t.id), appendNumber(nil, t.sequence))
		w.setPayload(t.sequence, t.payload)
		c.live.jobs[t.digest] = t.sequence
		c.span(t.sequence).live++
	}
	accept, confirm := t.accept && !t.wasAccepted, t.confirm && !t.wasConfirmed
	if !accept && !confirm {
		return
	}
	m := c.span(t.sequence)
	w.dirty[t.sequence/span] = m
	if accept {
		m.accepted.set(t.sequence, true)
	}
	if confirm {
		m.confirmed.set(t.sequence, true)
		w.set(numberKey(tagFinish, t.sequence), encodeFinish(t.confirmed, t.dropped))
	}
}

// span is the marks of a sequence, to be written.
func (s *store) span(sequence uint64) *marks {
	n := sequence / span
	m := s.spans[n]
	if m == nil {
		// All of its jobs are known where none was stored before.
		m = &marks{exact: max(n*span, 1) > s.cursor}
		s.spans[n] = m
	}
	return m
}

// writer collects the rows of a batch, and the first error.
type writer struct {
	batch *pebble.Batch
	dirty map[uint64]*marks
	err   error
}

func (w *writer) failed(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) set(key, value []byte) { w.failed(w.batch.Set(key, value, nil)) }

// remove is for a row that was written once since it was removed last.
func (w *writer) remove(key []byte) { w.failed(w.batch.SingleDelete(key, nil)) }

func (w *writer) setPayload(sequence uint64, p workpull.ReliablePayload) {
	url, value := p.TypeURL(), p.Value()
	n := appendNumber(make([]byte, 0, binary.MaxVarintLen64), uint64(len(url)))
	op := w.batch.SetDeferred(9, len(n)+len(url)+len(value))
	op.Key[0] = tagPayload
	binary.BigEndian.PutUint64(op.Key[1:], sequence)
	copy(op.Value[copy(op.Value[copy(op.Value, n):], url)+len(n):], value)
	w.failed(op.Finish())
}

func appendNumber(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }

// writeMarks writes the marks that changed, and removes the rows of spans whose
// jobs are all compacted, if no more come.
func (c *change) writeMarks(w *writer) {
	for n, m := range w.dirty {
		key := numberKey(tagMarks, n)
		if m.exact && m.live == 0 && n < c.header.cursor/span {
			delete(c.spans, n)
			w.failed(w.batch.Delete(key, nil))
			continue
		}
		w.set(key, m.encode())
	}
}
