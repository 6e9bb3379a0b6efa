package queuetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// model is what a queue holds, by the rules. It is a value: a step returns
// another one. Windows of completed jobs are either zero or longer than a
// history lasts, so that it needs no clock.
type model struct {
	offers        offers
	epoch, cursor uint64
	window        time.Duration
	jobs          map[string]entry
}

// entry is a job that was stored.
type entry struct {
	sequence            uint64
	payload             payload
	accepted, confirmed bool
	// progress is the canonical form of what was saved of it, and dropped its
	// fate, which Store tells of once it is confirmed (B3).
	progress string
	dropped  bool
	// unsure of dropped: another fate was saved after the confirmation.
	unsure bool
	// earlier is a job that was done before this epoch, and loose one that no
	// window keeps beyond it (B9).
	earlier, loose bool
	// forgettable is a job that was done before this epoch and that no window
	// keeps: whether the queue still knows it is its own affair (rules 70, 71).
	forgettable bool
}

// compacted tells that the queue may have given up all but the MessageID.
func (e entry) compacted() bool { return e.accepted && e.confirmed }

// equal tells whether two models hold the same.
func (m model) equal(n model) bool {
	return m.epoch == n.epoch && m.cursor == n.cursor && m.window == n.window && maps.Equal(m.jobs, n.jobs)
}

// step is the model after the call, or why the rules do not allow the reply.
func (m model) step(c call, r reply) (model, error) {
	switch {
	case c.kind == load:
		return m.load(r)
	case c.kind == completed:
		return m, m.completed(c, r)
	case c.epoch == 0 || c.epoch != m.epoch: // rule 65
		if r.verdict != fenced {
			return m, fmt.Errorf("epoch %d in epoch %d: %s, wanted %s", c.epoch, m.epoch, r, fenced)
		}
		return m, nil
	case c.kind == reload: // B16
		return m.load(r)
	case c.kind == payloads:
		return m, m.payloads(c, r)
	}
	n := m
	n.jobs = maps.Clone(m.jobs)
	if n.jobs == nil {
		n.jobs = map[string]entry{}
	}
	switch c.kind {
	case save:
		return m.unless(n, r, n.save(c))
	case keep:
		n.keep(c.window)
		return m.unless(n, r, verdicts{})
	}
	wanted, breach := n.store(c, r)
	allowed := verdicts{breach: breach}
	n.mark(c.accepts, &allowed, func(e *entry) { e.accepted = true })
	n.mark(c.confirms, &allowed, func(e *entry) { e.confirmed = true })
	if r.verdict == done && breach == nil && !slices.Equal(r.results, wanted) {
		return m, fmt.Errorf("%s, wanted %s", r, reply{verdict: done, results: wanted})
	}
	return m.unless(n, r, allowed)
}

// verdicts are those that a call may get: done, or a conflict for a breach, or
// either of them for what the queue may have forgotten.
type verdicts struct {
	breach    error
	forgotten bool
}

// unless is what follows from the reply: n where the call was done, m where it
// was rightly refused.
func (m model) unless(n model, r reply, allowed verdicts) (model, error) {
	switch {
	case r.verdict == conflict && (allowed.breach != nil || allowed.forgotten):
		return m, nil
	case allowed.breach != nil:
		return m, fmt.Errorf("%w: %s, wanted %s", allowed.breach, r, conflict)
	case r.verdict != done:
		return m, fmt.Errorf("%s, wanted %s", r, done)
	}
	return n, nil
}

func unknown(id string) error { return fmt.Errorf("%s was never stored", short(id)) }

// mark accepts or confirms the jobs (rule 70).
func (m *model) mark(ids []string, allowed *verdicts, set func(*entry)) {
	for _, id := range ids {
		e, known := m.jobs[id]
		switch {
		case !known:
			allowed.breach = unknown(id)
		case e.forgettable:
			allowed.forgotten = true
		case !e.compacted():
			set(&e)
			e.loose = e.compacted() && m.window == 0
			m.jobs[id] = e
		}
	}
}

// store adds the jobs of a call and returns what the queue has to answer (rules
// 68, 69), or why it has to refuse.
func (m *model) store(c call, r reply) (wanted []answer, breach error) {
	for i, j := range c.stores {
		var got answer
		if i < len(r.results) {
			got = r.results[i]
		}
		e, known := m.jobs[j.id]
		if known && e.forgettable { // the queue knows it if it says so
			known = got.already
		}
		switch {
		case known:
			a := answer{first{e.sequence, e.payload, true}, e.confirmed && e.dropped}
			if e.compacted() && got.payload == j.payload { // the payload may be gone
				a.payload = j.payload
			}
			if e.unsure {
				a.dropped = got.dropped
			}
			wanted = append(wanted, a)
		case c.kind == put && j.sequence != m.cursor+1:
			return nil, fmt.Errorf("%s proposes %d after %d", short(j.id), j.sequence, m.cursor)
		default:
			m.cursor++
			m.jobs[j.id] = entry{sequence: m.cursor, payload: j.payload}
			wanted = append(wanted, answer{first: first{m.cursor, j.payload, false}})
		}
	}
	return wanted, nil
}

// load is the model after a load or the owner's reload.
func (m model) load(r reply) (model, error) {
	wanted := m.unconfirmed()
	switch {
	case r.verdict != done:
		return m, fmt.Errorf("%s, wanted %s", r, done)
	case r.epoch <= m.epoch: // rule 65
		return m, fmt.Errorf("epoch %d after %d", r.epoch, m.epoch)
	case r.cursor != m.cursor || !m.same(r.jobs, wanted): // rule 67
		return m, fmt.Errorf("%s, wanted %s", r, reply{verdict: done, epoch: r.epoch, cursor: m.cursor, jobs: wanted})
	}
	n := model{offers: m.offers, epoch: r.epoch, cursor: m.cursor, window: m.window, jobs: map[string]entry{}}
	for id, e := range m.jobs {
		switch {
		case !e.compacted():
		case m.window == 0 && m.offers.deduplicates:
			continue // B9: forgotten
		default:
			e.earlier = true
			e.forgettable = e.forgettable || e.loose
		}
		n.jobs[id] = e
	}
	return n, nil
}

// same tells whether these are the jobs of a load; the payloads of those that
// are paged are asked for later.
func (m model) same(got, wanted []held) bool {
	return slices.EqualFunc(got, wanted, func(g, w held) bool {
		if g.paged && m.offers.pages {
			g.paged, g.payload = false, w.payload
		}
		return g == w
	})
}

// unconfirmed is what a load returns (rule 67, B1).
func (m model) unconfirmed() []held {
	var jobs []held
	for id, e := range m.jobs {
		if !e.confirmed {
			jobs = append(jobs, held{job: job{id, e.sequence, e.payload}, accepted: e.accepted, progress: e.progress})
		}
	}
	slices.SortFunc(jobs, func(a, b held) int { return cmp.Compare(a.sequence, b.sequence) })
	return jobs
}
