package pebble

import (
	"fmt"
	"time"

	"github.com/workpull/operator/workpull"
)

// complete compacts a job that is both accepted and confirmed (rule 71), and
// remembers it for the epoch and for the window.
func (c *change) complete(w *writer, t *touched, now uint64) {
	row := completed{sequence: t.sequence, at: now, confirmed: t.confirmed, dropped: t.dropped}
	if t.knowledge == stored {
		w.remove(idKey(tagIndex, t.id))
		w.remove(numberKey(tagPayload, t.sequence))
		if t.wasConfirmed {
			w.remove(numberKey(tagFinish, t.sequence))
		}
		m := c.span(t.sequence)
		if m.progress.has(t.sequence) { // it may have been written many times
			w.failed(w.batch.Delete(numberKey(tagProgress, t.sequence), nil))
		}
		delete(c.live.jobs, t.digest)
		if m.live--; m.exact && m.live == 0 {
			w.dirty[t.sequence/span] = m
		}
	}
	c.done.put(t.id, row)
	if c.window > 0 {
		c.keep(w, t.id, row)
	}
}

// keep writes the rows of a completed job.
func (s *store) keep(w *writer, id string, row completed) {
	w.set(idKey(tagDone, id), row.encode())
	w.set(expiryKey(row.at, row.sequence), []byte(id))
	s.remembers = true
	s.due = min(s.due, row.at)
}

// lookCompleted fills in a job that is not in the index: it may be completed.
func (c *change) lookCompleted(t *touched) error {
	if !c.remembers {
		return nil
	}
	found, err := c.get(idKey(tagDone, t.id), func(v []byte) (err error) {
		t.row, err = decodeCompleted(v)
		return err
	})
	switch {
	case err != nil || !found:
		return err
	case c.expired(t.row, nanos(c.now())):
		t.stale = true
	default:
		t.knowledge, t.sequence, t.dropped = compacted, t.row.sequence, t.row.dropped
	}
	return nil
}

// expired tells whether the window of a completed job is over.
func (s *store) expired(row completed, now uint64) bool {
	return row.at+uint64(s.window) <= now
}

// expire removes jobs whose window is over, the oldest first and a bounded
// number of them, so that no commit waits for it. Those that the commit touches
// are left alone.
func (s *store) expire(w *writer, touched map[string]int, most int, now uint64) {
	if !s.remembers || s.due+uint64(s.window) > now {
		return
	}
	hit("before-expiry")
	s.due = now // that of what this commit completes
	s.remembers = s.window > 0
	w.failed(s.each(tagExpiry, nil, func(key, value []byte) (bool, error) {
		if len(key) != 17 {
			return false, fmt.Errorf("key %q: %w", key, ErrCorrupt)
		}
		s.remembers = true
		at, _ := number(key[:9])
		if most == 0 || at+uint64(s.window) > now {
			s.due = min(s.due, at)
			return false, nil
		}
		most--
		if _, ok := touched[string(value)]; ok {
			s.due = min(s.due, at)
			return true, nil
		}
		w.remove(append([]byte{}, key...))
		w.remove(idKey(tagDone, string(value)))
		return true, nil
	}))
}

// keepCompleted sets the window (B9). What the epoch remembers beside the store
// is kept with it from now on.
func (s *store) keepCompleted(epoch workpull.QueueEpoch, window time.Duration) error {
	if err := s.check(epoch); err != nil {
		return err
	}
	if window < 0 {
		return fmt.Errorf("window %s, wanted zero or more", window)
	}
	if window == s.window {
		return nil
	}
	b := s.db.NewBatch()
	defer b.Close()
	w := writer{batch: b}
	if s.window == 0 {
		for id, n := range s.done.known {
			found, err := s.get(idKey(tagDone, id), func([]byte) error { return nil })
			if err != nil {
				return err
			}
			if !found {
				s.keep(&w, id, n.value)
			}
		}
	}
	next := s.header
	next.window = window
	w.failed(s.setHeader(b, next))
	if w.err != nil {
		return s.disk.freeze("collect a batch", w.err)
	}
	if err := s.write(b); err != nil {
		return err
	}
	s.header, s.remembers, s.due = next, true, 0
	return nil
}

// found is what is known of a completed job.
type found struct {
	message workpull.CompletedMessage
	ok      bool
}

// lookUp tells of a job whether it is confirmed and still known (B10). It has
// its turn after the commit that is on its way, for only then what that confirms
// is durable.
func (s *store) lookUp(id string) (found, error) {
	if err := s.learn(); err != nil {
		return found{}, err
	}
	c := change{store: s}
	t := touched{id: id}
	if err := c.look(&t); err != nil {
		return found{}, err
	}
	row := t.row
	switch {
	case t.knowledge == stored && t.wasConfirmed:
		row = completed{sequence: t.sequence, confirmed: t.confirmed, dropped: t.dropped}
	case t.knowledge != compacted:
		return found{}, nil
	}
	message, err := row.message()
	return found{message, err == nil}, err
}
