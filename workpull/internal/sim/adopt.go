package sim

import "github.com/workpull/operator/workpull/internal/core"

// Attempts that outlive a controller go on under the next one (B15), and their
// confirmations count whoever gave them out (B6).

// given is an attempt that a worker was given.
type given struct {
	process      int32
	epoch, token uint64
	outcome      runOutcome
}

// noteGiven notes what a worker was given, where it can be told from others after
// a restart.
func (w *World) noteGiven(v *process, d *core.Delivery) {
	if d.Epoch == 0 {
		return
	}
	j := &w.jobs[jobNumber(d.ID)]
	if g := w.givenTo(v.address, j, d.Epoch, d.Token); g != nil && g.process == v.index { // told again
		g.outcome = runs
		return
	}
	j.given = append(j.given, given{process: v.index, epoch: d.Epoch, token: d.Token})
}

// givenTo is an attempt that somebody at an address was given, or nil.
func (w *World) givenTo(address int32, j *job, epoch, token uint64) *given {
	for i := range j.given {
		if g := &j.given[i]; g.epoch == epoch && g.token == token && w.processes[g.process].address == address {
			return g
		}
	}
	return nil
}

// everDone tells whether a handler finished a job: in this life, or, where the
// queue gave it out before, in any.
func (w *World) everDone(j *job) bool {
	if j.done {
		return true
	}
	for i := range j.given {
		if j.given[i].outcome == finished {
			return true
		}
	}
	return false
}

// noteEnd notes how the run of a worker ended.
func (w *World) noteEnd(v *process, outcome runOutcome) {
	b, seq := w.bindings[v.binding-1], v.running.Sequence
	if v.takenUp != nil {
		b, seq = v.takenUp, 1
	}
	w.noteOutcome(b, seq, outcome)
	if g := w.givenTo(v.address, &w.jobs[jobNumber(v.running.ID)], v.running.Epoch, v.running.Token); g != nil {
		g.outcome = outcome
	}
}

// noteClaim notes that a worker which is about to be bound runs a job that waits:
// it has to go on there.
func (w *World) noteClaim(r *core.Registration, id uint64) {
	h := r.Held
	if h == nil || w.opt.Settle == 0 || h.Epoch == 0 || h.Epoch >= w.epoch || w.away() {
		return
	}
	if s, held := w.core.Explain(h.ID); held && s.State == core.StateWaiting {
		w.claim, w.claimant, w.claimed = h, id, w.Steps
	}
}

// judgeGrant: the answer to a registration names the attempt that goes on.
func (w *World) judgeGrant(e *core.Effect) {
	b := w.bindingOf(e.Binding)
	if b == nil {
		w.fail("nothing goes to an ended binding", "an acknowledgement on binding %d", e.Binding)
		return
	}
	if w.claim != nil && w.claimant == b.id && w.claimed == w.Steps {
		if e.Adopted == nil || *e.Adopted != *w.claim {
			w.fail("what runs goes on", "%s runs %s, which waited, and is bound with %+v", w.identities[b.identity].name, w.claim.ID, e.Adopted)
		}
		w.claim = nil
	}
	switch {
	case e.Epoch != w.epoch && !w.away():
		w.fail("the epoch is current", "binding %d is of epoch %d, the load gave %d", e.Binding, e.Epoch, w.epoch)
	case e.Adopted == nil:
	case b.adopted == nil && b.last == 0:
		w.noteAdopted(b, e.Adopted)
	case b.adopted == nil || *b.adopted != *e.Adopted:
		w.fail("what runs goes on", "binding %d adopts %+v after %+v", b.id, *e.Adopted, b.adopted)
	}
}

// noteAdopted holds an adopted attempt to what the worker was given, and notes it
// as the first sequence of its binding.
func (w *World) noteAdopted(b *binding, h *core.HeldAttempt) {
	w.Seen[Adoptions]++
	v := b.process
	n := jobNumber(h.ID)
	j := &w.jobs[n]
	name := w.identities[b.identity].name
	g := w.givenTo(v.address, j, h.Epoch, h.Token)
	s, held := w.core.Explain(h.ID)
	switch {
	case w.opt.Settle == 0 || h.Epoch == 0 || h.Epoch >= w.epoch:
		w.fail("only an earlier epoch's attempt is adopted", "%s adopts %+v in epoch %d", name, *h, w.epoch)
	case g == nil:
		w.fail("only what is held is adopted", "%s was never given %+v", name, *h)
	case j.state != jobHeld:
		w.fail("only accepted jobs are sent", "%s goes on at %s in state %d", h.ID, name, j.state)
	case j.binding != nil && !j.binding.ended && !j.binding.left && j.binding.last >= j.seq && w.stillAt(j):
		w.fail("one worker has a job", "%s goes on at %s while binding %d has it", h.ID, name, j.binding.id)
	case !held || s.State != core.StateRunning || s.Binding != b.id || s.Sequence != 1:
		w.fail("what runs goes on", "%s goes on at %s and is %+v", h.ID, name, s)
	}
	if w.tracing {
		w.say("%s goes on with %s as the first of binding %d", name, h.ID, b.id)
	}
	b.adopted, b.last = h, 1
	w.attempts = append(w.attempts, int32(b.id))
	b.entries = append(b.entries, entry{job: n, life: j.life, attempt: s.Attempt, token: uint64(len(w.attempts))})
	j.binding, j.seq, j.last = b, 1, lastRun{}
	j.starts++
	j.runsAt(b.identity)
	if v.alive && v.run != 0 && v.running.Epoch == h.Epoch && v.running.Token == h.Token {
		v.takenUp = b
		j.last = lastRun{binding: b}
		return
	}
	w.Seen[AdoptedWhenOver]++
	if g != nil {
		j.last = lastRun{binding: b, outcome: g.outcome}
	}
}

// judgeHeldBack: what a load brought is held back while workers may still say
// that they run it.
func (w *World) judgeHeldBack(j *job) {
	if j.loaded && w.now < w.loadedAt+w.opt.Settle {
		w.fail("what was loaded is held back", "%s goes out %s after the load, the settling time is %s", j.id, w.now-w.loadedAt, w.opt.Settle)
	}
}

// older answers a registration as a controller would that does not know yet that
// it was replaced, before the real one does (B6).
func (w *World) older(m *message) {
	v := w.living(m.to)
	if w.epoch < 2 || v == nil || v.local {
		return
	}
	w.bindings = append(w.bindings, refused)
	a := w.mail(core.RegisterAck)
	a.from, a.to, a.session, a.binding, a.nonce, a.epoch = w.address, m.to, 1, uint64(len(w.bindings)), m.reg.Nonce, w.epoch-1
	w.at(0, arriveAtWorker, v.index, 0, a)
}

// judgeTaken: a worker does not take the binding of a lower epoch within a lease
// of one of a higher.
func (w *World) judgeTaken(v *process, before core.ConsumerStatus, m *message) {
	after := v.consumer.Status()
	if after.Binding == before.Binding && after.Session == before.Session {
		if m.session == 1 && m.binding != before.Binding {
			w.Seen[OlderRefused]++
		}
		return
	}
	if b := w.bindingOf(before.Binding); b != nil && m.session == 1 {
		b.left = true
	}
	if m.epoch == 0 { // no queue, or not loaded yet
		return
	}
	if m.epoch < v.epoch && w.now-v.epochAt < lease {
		w.fail("a lower epoch is refused", "%s takes a binding of epoch %d, %s after one of %d", w.identities[v.identity].name, m.epoch, w.now-v.epochAt, v.epoch)
	}
	v.epoch, v.epochAt = m.epoch, w.now
}
