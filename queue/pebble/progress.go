package pebble

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/workpull/operator/workpull"
)

// saveProgress keeps the progress of jobs (B3). Only where a job has some is
// marked, so that a job that has none costs nothing.
func (s *store) saveProgress(epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	if err := s.check(epoch); err != nil {
		return err
	}
	if err := s.learn(); err != nil {
		return err
	}
	c := change{store: s, cursor: s.cursor, byID: map[string]int{}}
	rows := make([][]byte, len(progress))
	for i, p := range progress {
		if _, err := c.known(p.MessageID()); err != nil {
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
		if t.knowledge != stored || t.wasConfirmed {
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
	all, err := s.readPayloads(ids)
	if latest := s.epochs.Load(); epoch.Value() == 0 || epoch.Value() != latest {
		return nil, fenced(epoch, latest)
	}
	return all, err
}

func (s *store) readPayloads(ids []string) (all []workpull.ReliablePayload, err error) {
	sequences := make([]uint64, len(ids))
	s.live.mu.RLock()
	for i, id := range ids {
		sequences[i] = s.live.jobs[digestOf(id)]
	}
	s.live.mu.RUnlock()
	rows, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tagPayload}, UpperBound: after(tagPayload)})
	if err != nil {
		return nil, fmt.Errorf("read: %w", corrupt(err))
	}
	defer func() {
		if failed := corrupt(rows.Close()); failed != nil {
			all, err = nil, fmt.Errorf("read: %w", failed)
		}
	}()
	for i, id := range ids {
		// They mostly ascend, so that each is found near the last.
		key := numberKey(tagPayload, sequences[i])
		if sequences[i] == 0 || !rows.SeekGE(key) || !bytes.Equal(rows.Key(), key) {
			if rows.Error() != nil {
				return nil, nil // the close tells
			}
			return nil, fmt.Errorf("job %q is not stored: %w", id, workpull.ErrQueueConflict)
		}
		value, err := rows.ValueAndErr()
		if err != nil {
			return nil, fmt.Errorf("job %q: %w", id, corrupt(err))
		}
		payload, err := decodePayload(value)
		if err != nil {
			return nil, fmt.Errorf("job %q: %w", id, err)
		}
		all = append(all, payload)
	}
	return all, nil
}
