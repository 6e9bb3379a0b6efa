package sim

import (
	"github.com/workpull/operator/workpull/internal/core"
)

// answered lets the controller hear of an operation.
func (w *World) answered(n int) {
	o := &w.operations[n]
	if n != *w.slotOf(o) || w.failed {
		w.answerStale(o)
		return
	}
	*w.slotOf(o) = none
	if o.load {
		w.loading = false
		if o.err != nil { // rule 56
			w.expect = core.StageLoad
			if isTerminal(o.err) {
				w.Seen[ReloadsFenced]++
			}
		} else {
			w.epoch = o.epoch
			w.takeOverQueue(&o.state)
		}
		w.core.Loaded(w.now, o.session, o.Number, o.state, o.epoch, o.err)
		w.judgeResumed()
		w.settleExpected()
		return
	}
	if o.err == nil && !o.fetch {
		w.noteCommitted(o)
	}
	if isTerminal(o.err) { // rule 61
		w.expect = stageOf(o.QueueOperation)
	}
	live := 0
	for i := range w.identities {
		if w.identities[i].binding != nil {
			live++
		}
	}
	fresh := w.session + 1
	if o.fetch {
		w.Seen[Pages]++
		w.core.Fetched(w.now, o.session, o.Number, o.payloads, o.err, fresh)
	} else {
		w.core.Committed(w.now, o.session, o.Number, o.outcomes, o.err, fresh)
	}
	if o.err != nil && w.expect == "" { // rule 62
		w.Seen[Resets]++
		if w.core.Session() != fresh {
			w.fail("an error begins anew", "operation %d failed: %v, and session %d goes on", o.Number, o.err, w.session)
			return
		}
		w.toUnbind = live
		w.beginSession(fresh)
		w.at(retryInterval, tickProducer, producerParty, w.core.Generation(), nil)
	}
	w.settleExpected()
}

// answerStale is the answer for an older incarnation, or one that comes again:
// it changes nothing (rules 57, 63).
func (w *World) answerStale(o *operation) {
	w.Seen[StaleAnswers]++
	session := w.core.Session()
	switch {
	case o.load:
		w.core.Loaded(w.now, o.session, o.Number, o.state, o.epoch, o.err)
	case o.fetch:
		w.core.Fetched(w.now, o.session, o.Number, o.payloads, o.err, w.session+1)
	default:
		w.core.Committed(w.now, o.session, o.Number, o.outcomes, o.err, w.session+1)
	}
	if effects := w.core.Take(); len(effects) > 0 || w.core.Session() != session {
		w.fail("a stale answer changes nothing", "the answer to operation %d of session %d brings %d effects, the first of kind %d", o.Number, o.session, len(effects), effects[0].Kind)
	}
}

// takeOverQueue takes over what the controller loaded: each job begins another
// life, since what earlier sessions began is no concern of this one, but for what
// the queue kept of it.
func (w *World) takeOverQueue(state *core.QueueState) {
	w.loadedAt, w.resuming = w.now, state.Jobs
	for i := range state.Jobs {
		s := &state.Jobs[i]
		n := jobNumber(s.ID)
		j := &w.jobs[n]
		if !s.Accepted {
			w.Seen[LoadedUnaccepted]++
		}
		if j.state == jobConfirmed || j.state == jobDropped {
			w.undone++
		}
		ran := j.starts > 0
		if w.opt.Keeps {
			j.beginAgain(jobHeld)
		} else {
			j.begin(jobHeld)
		}
		j.accepted, j.ranBefore, j.loaded = s.Accepted, ran, true
		w.noteResumed(n, s.Progress)
	}
	for i := range w.jobs {
		j := &w.jobs[i]
		switch {
		case j.stored:
		case j.state == jobDropped && !w.opt.Keeps: // for the queue it is done
			j.state = jobConfirmed
		case j.state == jobStored || j.state == jobHeld || j.state == jobDead:
			if !j.confirmed {
				w.fail("no stored job is lost", "%s was told to be stored, is not loaded and not confirmed", j.id)
			}
			w.Seen[UntoldConfirmations]++ // B10: who waits for it asks the queue
			j.state = jobConfirmed
			w.undone--
		}
	}
}
