package pebble

import (
	"fmt"

	"github.com/workpull/operator/workpull"
)

// saveProgress keeps the progress of jobs (B3). Only where a job has some is
// marked, so that a job that has none costs nothing.
func (s *store) saveProgress(epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	if err := s.check(epoch); err != nil {
		return err
	}
	c := change{store: s, cursor: s.cursor, byID: map[string]int{}}
	rows := make([][]byte, len(progress))
	for i, p := range progress {
		if _, err := c.stored(p.MessageID()); err != nil {
			return err
		}
		var err error
		if rows[i], err = p.MarshalJSON(); err != nil {
			return fmt.Errorf("progress of job %q: %w", p.MessageID(), err)
		}
	}
	b := s.db.NewBatch()
	defer b.Close()
	w := writer{batch: b, dirty: map[uint64]*marks{}}
	for i, p := range progress {
		t := &c.jobs[c.byID[p.MessageID()]]
		if t.knowledge != live || t.wasConfirmed {
			continue // it is over
		}
		w.set(numberKey(tagProgress, t.sequence), rows[i])
		if m := s.span(t.sequence); !m.progress.has(t.sequence) {
			m.progress.set(t.sequence, true)
			w.dirty[t.sequence/span] = m
		}
	}
	c.writeMarks(&w)
	if w.err != nil {
		return s.disk.freeze("collect a batch", w.err)
	}
	return s.write(b)
}

// payloads are those of stored jobs (B11). They never change, so that this needs
// no turn: what counts is that the epoch is still the queue's in the end.
func (s *store) payloads(epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	all := make([]workpull.ReliablePayload, 0, len(ids))
	refuse := func(err error) ([]workpull.ReliablePayload, error) {
		if latest := s.epochs.Load(); epoch.Value() == 0 || epoch.Value() != latest {
			return nil, fenced(epoch, latest)
		}
		return nil, err
	}
	for _, id := range ids {
		var sequence uint64
		ok, err := s.get(idKey(tagIndex, id), func(v []byte) (err error) {
			sequence, err = decodeSequence(v)
			return err
		})
		if ok && err == nil {
			ok, err = s.get(numberKey(tagPayload, sequence), func(v []byte) error {
				payload, err := decodePayload(v)
				all = append(all, payload)
				return err
			})
		}
		switch {
		case err != nil:
			return refuse(fmt.Errorf("job %q: %w", id, err))
		case !ok:
			return refuse(fmt.Errorf("job %q is not stored: %w", id, workpull.ErrQueueConflict))
		}
	}
	if _, err := refuse(nil); err != nil {
		return nil, err
	}
	return all, nil
}
