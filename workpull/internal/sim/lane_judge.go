package sim

import (
	"errors"
	"slices"

	"github.com/workpull/operator/workpull/internal/core"
)

func isTerminal(err error) bool {
	return errors.Is(err, core.ErrQueueFenced) || errors.Is(err, core.ErrQueueConflict)
}

// stageOf is where a failure of an operation belongs.
func stageOf(o *core.QueueOperation) core.Stage {
	switch {
	case len(o.Fetches) > 0:
		return core.StageLoad
	case len(o.Stores) > 0:
		return core.StageStore
	case len(o.Accepts) > 0:
		return core.StageAccept
	}
	return core.StageConfirm
}

// noteProduced: what the controller neither holds nor remembers the queue has to
// store.
func (w *World) noteProduced(j *job) {
	if _, held := w.core.Explain(j.id); !held && !w.away() && !w.remembered(j) {
		w.toStore = append(w.toStore, j.id)
	}
}

// noteAck: what the actor acknowledged the queue has to accept, once. With
// batches the job runs before that (B8).
func (w *World) noteAck(t *token, j *job) {
	if t.acked || w.away() {
		return
	}
	t.acked, j.acked = true, true
	if w.remembersItself() && t.ofMemory && (j.accepted || j.accepting) {
		w.mayTellAgain(t, j)
		return
	}
	if !t.finished || t.ofMemory {
		if w.opt.Queue == inBatches && j.state == jobStored {
			j.state = jobHeld
			w.accepted++
		}
		if j.accepted || j.accepting {
			w.mayTellAgain(t, j)
			return
		}
		j.accepting = true
	}
	w.toAccept = append(w.toAccept, accept{job: t.job, done: t.finished && !t.ofMemory, dropped: t.dropped})
}

// noteConfirmed: the jobs that a control message confirms wait to be confirmed
// in the queue, in the order of their sequences; those of an ended binding in
// that in which they were taken back.
func (w *World) noteConfirmed(m *message, over bool) {
	c := m.control
	if w.queue == nil || c.Session != w.session || w.failed || c.Binding == 0 || c.Binding > uint64(len(w.bindings)) {
		return
	}
	b := w.bindings[c.Binding-1]
	if b == nil {
		return
	}
	upTo := min(c.Confirmed, b.last)
	switch {
	case over:
		for seq := upTo; seq > b.counted; seq-- {
			w.noteCompleted(b.entry(seq).job)
		}
	case b.number == c.Number:
		for ; b.counted < upTo; b.counted++ {
			n := b.entry(b.counted + 1).job
			if j := &w.jobs[n]; j.binding == b && j.seq == b.counted+1 { // not one that was given back and came again
				w.noteCompleted(n)
			}
		}
	}
}

func (w *World) noteLate(m *message) {
	if w.queue != nil && (m.session == w.session || m.epoch > 0) && w.noteCompleted(jobNumber(m.id)) {
		w.judgeLate(m)
	}
}

// noteCompleted notes a job that the controller takes for done, if it does.
func (w *World) noteCompleted(n int32) bool {
	j := &w.jobs[n]
	if w.queue == nil || j.completing {
		return false
	}
	if s, held := w.core.Explain(j.id); !held || s.State != core.StateConfirming {
		return false
	}
	j.completing = true
	w.completed = append(w.completed, j.id)
	return true
}

// judgeCommit holds what is asked of the queue to what has to be asked: the
// oldest of each kind, the handshake's before confirmations, and nothing that
// was not done.
func (w *World) judgeCommit(e *core.Effect) {
	o := e.Operation
	w.judgeEpoch(o)
	stores := len(o.Stores)
	if n := stores + len(o.Accepts) + len(o.Confirms); n == 0 || n > 1 && w.opt.Queue == inQueue {
		w.fail("one operation at a time", "operation %d is %d in one", o.Number, n)
	}
	if stores > len(w.toStore) || len(o.Accepts) > len(w.toAccept) || len(o.Confirms) > len(w.completed) {
		w.fail("the queue is asked what there is to ask", "operation %d: %+v, there are %d to store, %d to accept, %d to confirm", o.Number, *o, len(w.toStore), len(w.toAccept), len(w.completed))
		return
	}
	if len(o.Confirms) > 0 && (len(w.toStore) > stores || len(w.toAccept) > len(o.Accepts)) { // rule 58
		w.fail("the handshake goes first", "%s is confirmed while %d wait to be stored and %d to be accepted", o.Confirms[0], len(w.toStore)-stores, len(w.toAccept)-len(o.Accepts))
	}
	for i := range o.Stores {
		if o.Stores[i].ID != w.toStore[i] {
			w.fail("the queue is asked what there is to ask", "%s is stored, %s comes first", o.Stores[i].ID, w.toStore[i])
		}
	}
	for i, id := range o.Accepts {
		if want := w.jobs[w.toAccept[i].job].id; id != want {
			w.fail("the queue is asked what there is to ask", "%s is accepted, %s comes first", id, want)
		}
	}
	for _, id := range o.Confirms {
		j := &w.jobs[jobNumber(id)]
		at := slices.Index(w.completed, id)
		if at < 0 || at > 0 && !w.opt.Pages { // rule 59; one whose payload is asked for waits for that
			w.fail("confirmations keep their order", "%s is confirmed, %s comes first", id, w.completed[0])
			return
		}
		w.completed = slices.Delete(w.completed, at, at+1)
		if !w.everDone(j) && j.state != jobDropped {
			w.fail("only what was done is confirmed", "%s is confirmed in the queue and no handler finished it", id)
		}
	}
	w.toStore = w.toStore[stores:]
	w.accepting = append(w.accepting[:0], w.toAccept[:len(o.Accepts)]...)
	w.toAccept = w.toAccept[len(o.Accepts):]
}

func (w *World) judgeEpoch(o *core.QueueOperation) {
	if o.Epoch != w.epoch {
		w.fail("the epoch is current", "operation %d is of epoch %d, the load gave %d", o.Number, o.Epoch, w.epoch)
	}
}

// judgeOutcome holds the controller to the queue's rules: what the faults did
// not do, it did.
func (w *World) judgeOutcome(o *operation) {
	switch {
	case errors.Is(o.err, errConflict) && o.fate != OperationConflict:
		w.fail("the queue keeps its rules", "operation %d of session %d: %v", o.Number, o.session, o.err)
	case errors.Is(o.err, errFenced) && o.session != w.session:
		w.Seen[FencedOrphans]++
	case errors.Is(o.err, errFenced) && !w.foreign:
		w.fail("the epoch is current", "operation %d is fenced and nobody else loaded the queue", o.Number)
	}
}

// noteCommitted notes what is durable from here on, as far as the controller
// knows.
func (w *World) noteCommitted(o *operation) {
	w.toldAgain = w.toldAgain[:0]
	for _, a := range w.accepting {
		j := &w.jobs[a.job]
		if a.done {
			if !a.dropped {
				w.toldAgain = append(w.toldAgain, again{j.id, true})
			}
			continue
		}
		j.accepting, j.accepted = false, true
		if w.remembersItself() && j.state == jobConfirmed {
			w.toldAgain = append(w.toldAgain, again{j.id, false})
		}
		if j.state == jobStored { // rule 16
			j.state = jobHeld
			w.accepted++
		}
	}
	w.accepting = w.accepting[:0]
	for _, id := range o.Confirms {
		j := &w.jobs[jobNumber(id)]
		j.completing = false
		w.noteDone(j)
	}
	w.noteSaved(o)
}

// judgeStored: Stored is told when it is true, with the queue's sequence; and
// what is done runs no more (rules 12, 16, B1).
func (w *World) judgeStored(e *core.Effect) {
	t := &w.tokens[e.Token-1]
	if t.told {
		return
	}
	t.told = true
	j := &w.jobs[t.job]
	if known := w.queue.known[j.id]; !w.foreign && (known == nil || known.seq != e.Job.StoreSequence) {
		w.fail("Stored is true", "%s is told to be stored as %d, the queue has %+v", j.id, e.Job.StoreSequence, known)
	}
	s, held := w.core.Explain(j.id)
	switch {
	case !held:
		known := w.queue.known[j.id]
		t.finished, t.ofMemory = true, w.remembersItself() && j.doneIn == w.session && t.remembered
		t.dropped = j.state == jobDropped || w.opt.Keeps && known != nil && known.dropped()
		w.Seen[ResubmittedDone]++
		if !j.confirmed {
			w.fail("no stored job is lost", "%s is told to be stored, not confirmed, and not held", j.id)
		}
	case j.confirmed && s.State != core.StateConfirming:
		w.fail("what is done runs no more", "%s is confirmed in the queue and %q again", j.id, s.State)
	case s.State == core.StateStored && j.state != jobStored:
		if j.state != jobOut {
			w.undone++
		}
		j.begin(jobStored)
	}
	t.life = j.life
}

// judgeDurable: DeliveryConfirmed is told once the queue has it (B10), and
// again for a job that was submitted again when it was done. It tells whether
// this is the first.
func (w *World) judgeDurable(j *job) bool {
	if !j.confirmed || j.completing {
		w.fail("confirmed is durable", "%s is told to be confirmed, the queue has it confirmed: %v", j.id, j.confirmed)
	}
	return !w.toldOnceMore(j)
}

// settleExpected carries out what an answer of the queue brought, and asks for
// the failure that it had to bring.
func (w *World) settleExpected() {
	w.settleProducer()
	w.judgeTold()
	if w.expect != "" {
		w.fail("one failure for each terminal stop", "no failure of stage %s was told", w.expect)
	}
}

// judgeFailed: a failure has its cause and stage, and is told once
// (rules 61, 91).
func (w *World) judgeFailed(e *core.Effect) {
	if w.tracing {
		w.say("the controller failed at %s: %v", e.Stage, e.Err)
	}
	switch {
	case w.expect == "":
		w.fail("no terminal failure", "the producer controller failed: %v", e.Err)
	case e.Stage != w.expect:
		w.fail("one failure for each terminal stop", "stage %s is told, it was %s", e.Stage, w.expect)
	}
	w.Seen[Failures]++
	w.expect, w.failed = "", true
	w.endBindings()
	d, _ := w.roll(placeQueue)
	w.respawnSoon(&d)
}

// judgeRestarted: a controller that begins anew tells the end of every binding
// (rule 62).
func (w *World) judgeRestarted(e *core.Effect) {
	if e.Session != w.session || w.toUnbind != 0 {
		w.fail("an error begins anew", "under session %d, wanted %d; the ends of %d bindings were not told", e.Session, w.session, w.toUnbind)
	}
}
