package pebble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/workpull/operator/workpull"
)

// loaded is what a load returns.
type loaded struct {
	state workpull.WorkQueueState
	epoch workpull.QueueEpoch
}

// indexed is a row of the index.
type indexed struct {
	id       string
	sequence uint64
}

// load begins an epoch (rule 65). It reads all that it returns before it writes
// anything, so that a load that fails changes nothing (rule 66). Owner is the
// epoch that has to be the queue's, if any (B16).
func (s *store) load(ctx context.Context, owner *workpull.QueueEpoch) (loaded, error) {
	if owner != nil {
		if err := s.check(*owner); err != nil {
			return loaded{}, err
		}
	}
	jobs, err := s.index(ctx)
	if err != nil {
		return loaded{}, err
	}
	messages, err := s.messages(jobs)
	if err != nil {
		return loaded{}, err
	}
	if err := s.addProgress(messages); err != nil {
		return loaded{}, err
	}
	var l loaded
	if l.state, err = workpull.NewWorkQueueState(s.cursor, messages); err != nil {
		return loaded{}, err
	}
	next := s.header
	next.epoch++
	if l.epoch, err = workpull.NewQueueEpoch(next.epoch); err != nil {
		return loaded{}, err
	}
	if err := ctx.Err(); err != nil {
		return loaded{}, err
	}
	b := s.db.NewBatch()
	defer b.Close()
	if err := errors.Join(s.setHeader(b, next), s.countLive(b, jobs)); err != nil {
		return loaded{}, err
	}
	forget := s.window == 0 && s.remembers
	if forget { // a window that is set later brings nothing back
		if err := errors.Join(b.DeleteRange([]byte{tagDone}, after(tagDone), nil), b.DeleteRange([]byte{tagExpiry}, after(tagExpiry), nil)); err != nil {
			return loaded{}, err
		}
	}
	hit("before-load")
	if err := s.write(b); err != nil {
		return loaded{}, err
	}
	hit("after-load")
	s.take(jobs)
	s.header = next
	s.remembers = s.remembers && !forget
	s.epochs.Store(next.epoch)
	s.done.clear() // what was compacted before may be forgotten (rule 70)
	return l, nil
}

// index reads which jobs there are, in the order of their sequences.
func (s *store) index(ctx context.Context) ([]indexed, error) {
	var jobs []indexed
	err := s.each(tagIndex, nil, func(key, value []byte) (bool, error) {
		sequence, err := decodeSequence(value)
		if err != nil {
			return false, err
		}
		if sequence == 0 || sequence > s.cursor {
			return false, fmt.Errorf("job %q has sequence %d, the cursor is %d: %w", key[1:], sequence, s.cursor, workpull.ErrQueueConflict)
		}
		jobs = append(jobs, indexed{string(key[1:]), sequence})
		if len(jobs)%4096 == 0 {
			return true, ctx.Err()
		}
		return true, nil
	})
	slices.SortFunc(jobs, func(a, b indexed) int { return cmp.Compare(a.sequence, b.sequence) })
	return jobs, err
}

// messages are the jobs that are not confirmed. The first of them come with
// their payloads, up to what is worth loading at once (B11).
func (s *store) messages(jobs []indexed) ([]workpull.UnconfirmedMessage, error) {
	messages := make([]workpull.UnconfirmedMessage, 0, len(jobs))
	at := 0
	// take adds the next of the jobs, as made by with.
	take := func(with func(j indexed, accepted bool) (workpull.UnconfirmedMessage, error)) error {
		j := jobs[at]
		at++
		m := s.marks(j.sequence)
		if m.confirmed.has(j.sequence) {
			return nil
		}
		message, err := with(j, m.accepted.has(j.sequence))
		if err != nil {
			return fmt.Errorf("load job %q: %w", j.id, err)
		}
		messages = append(messages, message)
		return nil
	}
	if len(jobs) > 0 {
		size := 0
		err := s.each(tagPayload, numberKey(tagPayload, jobs[0].sequence), func(key, value []byte) (bool, error) {
			sequence, err := number(key)
			switch {
			case err != nil:
				return false, err
			case sequence != jobs[at].sequence:
				return false, fmt.Errorf("payload of sequence %d, wanted that of %d, job %q: %w", sequence, jobs[at].sequence, jobs[at].id, workpull.ErrQueueConflict)
			}
			err = take(func(j indexed, accepted bool) (workpull.UnconfirmedMessage, error) {
				payload, err := decodePayload(value)
				if err != nil {
					return workpull.UnconfirmedMessage{}, err
				}
				size += payload.Size()
				return workpull.NewUnconfirmedMessage(j.id, j.sequence, payload, accepted)
			})
			return err == nil && at < len(jobs) && size < s.page, err
		})
		if err != nil {
			return nil, err
		}
		if at < len(jobs) && size < s.page {
			return nil, fmt.Errorf("no payload of job %q: %w", jobs[at].id, workpull.ErrQueueConflict)
		}
	}
	for at < len(jobs) {
		if err := take(func(j indexed, accepted bool) (workpull.UnconfirmedMessage, error) {
			return workpull.NewPagedMessage(j.id, j.sequence, accepted)
		}); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// addProgress adds what is kept of the jobs' attempts (B3).
func (s *store) addProgress(messages []workpull.UnconfirmedMessage) error {
	return s.each(tagProgress, nil, func(key, value []byte) (bool, error) {
		sequence, err := number(key)
		if err != nil {
			return false, err
		}
		i, found := slices.BinarySearchFunc(messages, sequence, func(m workpull.UnconfirmedMessage, n uint64) int {
			return cmp.Compare(m.Sequence(), n)
		})
		if !found {
			return true, nil // it is confirmed and not accepted
		}
		progress, err := workpull.DecodeJobProgress(messages[i].MessageID(), value)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		messages[i], err = messages[i].WithProgress(progress)
		return true, err
	})
}

// countLive counts the jobs of each span, and removes the rows of marks that
// mark nothing.
func (s *store) countLive(b *pebble.Batch, jobs []indexed) error {
	live := map[uint64]int{}
	for _, j := range jobs {
		live[j.sequence/span]++
	}
	for n := range live {
		if s.spans[n] == nil {
			s.spans[n] = &marks{}
		}
	}
	for n, m := range s.spans {
		m.live, m.exact = live[n], true
		if m.live == 0 {
			delete(s.spans, n)
			if err := b.Delete(numberKey(tagMarks, n), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// noMarks is what there is where nothing is noted.
var noMarks = &marks{}

// marks are those of the span of a sequence, to be read.
func (s *store) marks(sequence uint64) *marks {
	if m := s.spans[sequence/span]; m != nil {
		return m
	}
	return noMarks
}
