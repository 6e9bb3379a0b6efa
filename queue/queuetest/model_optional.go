package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/workpull/operator/workpull"
)

// offers tells which of the optional interfaces a queue has.
type offers struct {
	batches, pages, attempts, deduplicates, reloads bool
}

func offersOf(q workpull.DurableWorkQueue) offers {
	var o offers
	_, o.batches = q.(workpull.BatchWorkQueue)
	_, o.pages = q.(workpull.PagingWorkQueue)
	_, o.attempts = q.(workpull.AttemptWorkQueue)
	_, o.deduplicates = q.(workpull.DeduplicatingWorkQueue)
	_, o.reloads = q.(workpull.ConditionalWorkQueue)
	return o
}

// payloads tells why the rules do not allow the reply to such a call (B11).
func (m model) payloads(c call, r reply) error {
	var allowed verdicts
	var wanted []payload
	for _, id := range c.ids {
		e, known := m.jobs[id]
		if !known {
			allowed.breach = unknown(id)
		}
		allowed.forgotten = allowed.forgotten || e.compacted()
		wanted = append(wanted, e.payload)
	}
	if _, err := m.unless(m, r, allowed); err != nil {
		return err
	}
	if r.verdict == done && !slices.Equal(r.payloads, wanted) {
		return fmt.Errorf("%s, wanted %s", r, reply{verdict: done, payloads: wanted})
	}
	return nil
}

// save keeps the progress of the jobs of a call (B3).
func (m *model) save(c call) verdicts {
	var allowed verdicts
	for _, p := range c.progress {
		e, known := m.jobs[p.MessageID()]
		switch {
		case !known:
			allowed.breach = unknown(p.MessageID())
		case e.compacted():
			allowed.forgotten = allowed.forgotten || e.earlier
		default:
			dropped := p.Fate() == workpull.FateDropped
			e.unsure = e.unsure || e.confirmed && dropped != e.dropped
			e.progress, e.dropped = canonical(p), dropped
			m.jobs[p.MessageID()] = e
		}
	}
	return allowed
}

// keep sets the window of completed jobs, those included that completed before
// and are known (B9).
func (m *model) keep(window time.Duration) {
	m.window = window
	for id, e := range m.jobs {
		switch {
		case !e.compacted() || e.forgettable:
			continue
		case window == 0:
			e.loose, e.forgettable = true, e.earlier
		default:
			e.loose = false
		}
		m.jobs[id] = e
	}
}

// completed tells why the rules do not allow the reply to such a call. A job
// that is done and that no window keeps may be known to its writer alone (B9).
func (m model) completed(c call, r reply) error {
	e := m.jobs[c.ids[0]]
	wanted := reply{verdict: done}
	if e.confirmed {
		wanted.completed = told{found: true, sequence: e.sequence, dropped: e.dropped}
	}
	switch {
	case e.compacted() && (e.loose || e.forgettable) && r.completed == told{}:
		wanted.completed = told{}
	case e.unsure:
		wanted.completed.dropped = r.completed.dropped
	}
	if r.verdict != done || r.completed != wanted.completed {
		return fmt.Errorf("%s, wanted %s", r, wanted)
	}
	return nil
}

// canonical is the form in which two progresses of a job are compared: what
// comes back of MarshalJSON, which mends what is no UTF-8.
func canonical(p workpull.JobProgress) string {
	data, err := p.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	back, err := workpull.DecodeJobProgress(p.MessageID(), data)
	if err != nil {
		return err.Error()
	}
	if data, err = back.MarshalJSON(); err != nil {
		return err.Error()
	}
	return string(data)
}
