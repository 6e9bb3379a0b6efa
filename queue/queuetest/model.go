package queuetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// model is what a queue holds, by the rules. It is a value: a step returns
// another one.
type model struct {
	epoch, cursor uint64
	jobs          map[string]entry
}

// entry is a job that was stored.
type entry struct {
	sequence            uint64
	payload             payload
	accepted, confirmed bool
	// forgettable is a job that was done before this epoch: whether the queue
	// still knows it is its own affair (rules 70, 71).
	forgettable bool
}

// equal tells whether two models hold the same.
func (m model) equal(n model) bool {
	return m.epoch == n.epoch && m.cursor == n.cursor && maps.Equal(m.jobs, n.jobs)
}

// step is the model after the call, or why the rules do not allow the reply.
func (m model) step(c call, r reply) (model, error) {
	switch {
	case c.kind == load:
		return m.load(r)
	case c.epoch == 0 || c.epoch != m.epoch: // rule 65
		if r.verdict != fenced {
			return m, fmt.Errorf("epoch %d in epoch %d: %s, wanted %s", c.epoch, m.epoch, r, fenced)
		}
		return m, nil
	}
	n := m
	n.jobs = maps.Clone(m.jobs)
	if n.jobs == nil {
		n.jobs = map[string]entry{}
	}
	wanted, breach := n.store(c, r)
	unsure := false
	mark := func(id string, set func(*entry)) {
		e, known := n.jobs[id]
		switch {
		case !known:
			breach = fmt.Errorf("%s was never stored", short(id))
		case e.forgettable:
			unsure = true
		default:
			set(&e)
			n.jobs[id] = e
		}
	}
	for _, id := range c.accepts {
		mark(id, func(e *entry) { e.accepted = true })
	}
	for _, id := range c.confirms {
		mark(id, func(e *entry) { e.confirmed = true })
	}
	switch {
	case r.verdict == conflict && (breach != nil || unsure):
		return m, nil
	case breach != nil:
		return m, fmt.Errorf("%w: %s, wanted %s", breach, r, conflict)
	case r.verdict != done:
		return m, fmt.Errorf("%s, wanted %s", r, done)
	case !slices.Equal(r.results, wanted):
		return m, fmt.Errorf("%s, wanted %s", r, reply{verdict: done, results: wanted})
	}
	return n, nil
}

// store adds the jobs of a call and returns what the queue has to answer (rules
// 68, 69), or why it has to refuse.
func (m *model) store(c call, r reply) (wanted []first, breach error) {
	for i, j := range c.stores {
		e, known := m.jobs[j.id]
		if known && e.forgettable { // the queue knows it if it says so
			known = i < len(r.results) && r.results[i].already
		}
		switch {
		case known:
			wanted = append(wanted, first{e.sequence, e.payload, true})
		case c.kind == put && j.sequence != m.cursor+1:
			return nil, fmt.Errorf("%s proposes %d after %d", short(j.id), j.sequence, m.cursor)
		default:
			m.cursor++
			m.jobs[j.id] = entry{sequence: m.cursor, payload: j.payload}
			wanted = append(wanted, first{m.cursor, j.payload, false})
		}
	}
	return wanted, nil
}

func (m model) load(r reply) (model, error) {
	wanted := m.unconfirmed()
	switch {
	case r.verdict != done:
		return m, fmt.Errorf("%s, wanted %s", r, done)
	case r.epoch <= m.epoch: // rule 65
		return m, fmt.Errorf("epoch %d after %d", r.epoch, m.epoch)
	case r.cursor != m.cursor || !slices.Equal(r.jobs, wanted): // rule 67
		return m, fmt.Errorf("%s, wanted %s", r, reply{verdict: done, epoch: r.epoch, cursor: m.cursor, jobs: wanted})
	}
	n := model{epoch: r.epoch, cursor: m.cursor, jobs: map[string]entry{}}
	for id, e := range m.jobs {
		e.forgettable = e.accepted && e.confirmed
		n.jobs[id] = e
	}
	return n, nil
}

// unconfirmed is what a load returns (rule 67, B1).
func (m model) unconfirmed() []held {
	var jobs []held
	for id, e := range m.jobs {
		if !e.confirmed {
			jobs = append(jobs, held{job{id, e.sequence, e.payload}, e.accepted})
		}
	}
	slices.SortFunc(jobs, func(a, b held) int { return cmp.Compare(a.sequence, b.sequence) })
	return jobs
}
