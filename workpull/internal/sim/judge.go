package sim

import (
	"slices"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// binding is what the world knows of one.
type binding struct {
	id       uint64
	process  *process
	address  int32
	identity int32
	ended    bool

	last    uint64 // highest sequence dispatched
	granted uint64 // demand of the last request that counts
	number  uint64 // of the last control message that counts
	nonce   uint64
	counted uint64        // confirmed, as far as the books have it
	heard   time.Duration // sign of life that counts
	late    time.Duration // w.late at that time

	left      bool // for that of a controller which was replaced, and came back
	suspended bool // a send failed and it has not answered since
	drained   bool // it said farewell
	violated  bool
	gone      bool // a probe said so
	stopped   bool // its end was told
	entries   []entry
	adopted   *core.HeldAttempt // went on as the first of them
}

// entry is one sequence of a binding.
type entry struct {
	job     int32
	life    uint32
	attempt uint32
	token   uint64
}

// refused stands for a binding that must not come about: its registration was
// not found genuine.
var refused = &binding{ended: true}

func (b *binding) entry(seq uint64) *entry { return &b.entries[seq-1] }

// bindingOf is the live binding of an id, or nil.
func (w *World) bindingOf(id uint64) *binding {
	if id == 0 || id > uint64(len(w.bindings)) {
		return nil
	}
	if b := w.bindings[id-1]; b != nil && !b.ended {
		return b
	}
	return nil
}

func (w *World) bindingAt(address int32) *binding {
	for i := range w.identities {
		if b := w.identities[i].binding; b != nil && b.address == address {
			return b
		}
	}
	return nil
}

// judgeBound holds one identity to one binding (rule 27).
func (w *World) judgeBound(e *core.Effect) {
	if w.bindings[e.Binding-1] == refused { // rules 22, 23
		w.fail("only what is genuine is bound", "%s is bound as %d and was refused", e.Peer, e.Binding)
	}
	address := addressOf(e.Peer)
	v := w.byIncarnation(e.Registration.Incarnation)
	b := &binding{id: e.Binding, process: v, address: address, identity: v.identity, nonce: e.Registration.Nonce, heard: w.now, late: w.late}
	b.drained = e.Registration.Draining
	w.bindings[e.Binding-1] = b
	id := &w.identities[v.identity]
	if id.binding != nil {
		w.fail("one binding per worker", "%s is bound as %d and still as %d", id.name, e.Binding, id.binding.id)
	}
	id.binding = b
	if by := e.Registration.RetiredBy; by != 0 && by != w.session { // it remembers (B13)
		id.retired = true
	}
	if id.retired {
		w.Seen[RetiredRebound]++
		if !w.faults { // whoever retired it is gone, and it has to be told
			w.at(time.Second, release, nobody, uint64(v.identity), nil)
		}
	}
	if w.tracing {
		w.say("bound %s at %s as %d", id.name, e.Peer, e.Binding)
	}
	if v.local {
		b.stopped = !v.alive
		if !v.alive {
			w.core.Terminated(w.now, e.Peer)
		}
	}
}

// judgeUnbound asks for the cause of an end (rule 46), and who was charged for
// it (B3).
func (w *World) judgeUnbound(e *core.Effect) {
	if e.Reason == core.ReasonProducer { // rule 62: the books are of the next session by now
		w.toUnbind--
		return
	}
	b := w.bindingOf(e.Binding)
	if b == nil {
		w.fail("one end per binding", "binding %d ends again", e.Binding)
		return
	}
	b.ended = true
	name := w.identities[b.identity].name
	if w.tracing {
		w.say("unbound %s at %s (%d): %s", name, e.Peer, e.Binding, e.Reason)
	}
	if w.identities[b.identity].binding == b {
		w.identities[b.identity].binding = nil
	}
	caused := true
	switch e.Reason {
	case core.ReasonIllegal:
		w.Seen[Violators]++
		caused = b.violated
	case core.ReasonLease:
		w.Seen[LeasesLost]++
		caused = w.now-b.heard > lease+(w.late-b.late) // B5
	case core.ReasonGone:
		w.Seen[GoneWorkers]++
		caused = b.gone
	case core.ReasonStopped:
		w.Seen[StoppedWorkers]++
		caused = b.stopped
	case core.ReasonReplaced:
		w.Seen[Replacements]++
		caused = w.replaces(b)
	}
	if !caused {
		w.fail("a binding ends for a cause", "%s (%d) ended: %s, heard %s ago", name, b.id, e.Reason, w.now-b.heard)
	}
	w.judgeCharges(b, name)
}

// replaces tells whether what is going on may replace a binding: a registration
// from the same host (rule 30, B14).
func (w *World) replaces(b *binding) bool {
	m := w.handling.message
	switch w.handling.kind {
	case verified, arriveAtProducer:
		return w.hosts[m.to] == w.hosts[b.address] || b.process.local
	case answered: // both registered while the queue was loaded (B15)
		return w.opt.Settle > 0 && w.loadedAt == w.now
	case probed: // the one before held the identity, this one the successor's address
		return true
	}
	return false
}

// judgeCharges: of the jobs that a binding held, its end charges one at most,
// and one that ran there.
func (w *World) judgeCharges(b *binding, worker string) {
	charged := 0
	for seq := b.last; seq > 0 && b.last-seq < uint64(2*w.opt.Window); seq-- {
		en := b.entry(seq)
		j := &w.jobs[en.job]
		if j.binding != b || j.seq != seq || j.life != en.life || j.state != jobHeld && j.state != jobDead {
			continue
		}
		s, held := w.core.Explain(j.id)
		if !held || s.Attempt <= en.attempt {
			continue
		}
		charged++
		if !slices.Contains(j.ran, b.identity) {
			w.fail("only a job that ran is charged", "%s is charged at %s, where it never ran", j.id, worker)
		}
	}
	if charged > 1 {
		w.fail("only a job that ran is charged", "%d jobs are charged for the end of %s", charged, worker)
	}
}

// judgeDispatch holds what is sent to demand, sequence, retirement and
// suspension, before it is sent.
func (w *World) judgeDispatch(e *core.Effect) {
	b := w.bindingOf(e.Binding)
	if b == nil {
		w.fail("nothing goes to an ended binding", "%s was dispatched on binding %d", e.Delivery.ID, e.Binding)
		return
	}
	name := w.identities[b.identity].name
	w.digest = w.digest*0x100000001b3 ^ e.Sequence<<20 ^ e.Binding
	if w.tracing {
		w.say("dispatch to %s (%d) %d:%s attempt %d skip %v", name, b.id, e.Sequence, e.Delivery.ID, e.Delivery.Attempt, e.Delivery.Skip)
	}
	switch {
	case e.Sequence > b.granted: // rule 41
		w.fail("never beyond demand", "%s to %s is sequence %d of binding %d, the demand ends at %d", e.Delivery.ID, name, e.Sequence, b.id, b.granted)
	case e.Sequence > b.last+1: // rule 44
		w.fail("contiguous sequences", "binding %d jumps from sequence %d to %d", b.id, b.last, e.Sequence)
	case e.Sequence <= b.last:
		w.judgeResent(b, e)
	default:
		w.judgeNew(b, name, e)
	}
}

func (w *World) judgeResent(b *binding, e *core.Effect) {
	w.Seen[Resent]++
	en := b.entry(e.Sequence)
	if d := e.Delivery; !d.Skip && (d.ID != w.jobs[en.job].id || d.Token != en.token) {
		w.fail("contiguous sequences", "sequence %d of binding %d was %s and is sent again as %s", e.Sequence, b.id, w.jobs[en.job].id, d.ID)
	}
}

func (w *World) judgeNew(b *binding, name string, e *core.Effect) {
	d := e.Delivery
	if d.Skip {
		w.fail("contiguous sequences", "sequence %d of binding %d is skipped and was never sent", e.Sequence, b.id)
		return
	}
	n := jobNumber(d.ID)
	j := &w.jobs[n]
	switch {
	case w.identities[b.identity].retired: // B13
		w.fail("a retired worker gets nothing", "%s goes to %s, which is retired", d.ID, name)
	case b.suspended: // rule 45, S39
		w.fail("a suspended worker gets nothing", "%s goes to %s, which has not answered since a send failed", d.ID, name)
	case b.drained: // B13
		w.fail("a leaving worker gets nothing", "%s goes to %s, which said farewell", d.ID, name)
	case j.state != jobHeld:
		w.fail("only accepted jobs are sent", "%s goes to %s and is not accepted", d.ID, name)
	case d.Token != uint64(len(w.attempts))+1: // B6
		w.fail("attempt tokens rise", "%s carries token %d after %d", d.ID, d.Token, len(w.attempts))
	case string(d.Payload.Value) != j.id || d.Payload.TypeURL == "": // rule 12, B11
		w.fail("payloads stay", "%s carries the payload of %s", j.id, d.Payload.Value)
	case int(d.Attempt)-1 > j.starts+j.announced: // B3
		w.fail("only a job that ran is charged", "%s was charged %d times and started %d times", j.id, d.Attempt-1, j.starts)
	case j.binding != nil && !j.binding.ended && !j.binding.left && j.binding.last >= j.seq && w.stillAt(j):
		w.fail("one worker has a job", "%s goes to %s while binding %d has it", j.id, name, j.binding.id)
	}
	w.judgeHeldBack(j)
	if j.notBefore > w.now { // B3
		w.fail("a job waits for its backoff", "%s goes to %s before %s", j.id, name, j.notBefore)
	}
	w.attempts = append(w.attempts, int32(b.id))
	b.last = e.Sequence
	b.entries = append(b.entries, entry{job: n, life: j.life, attempt: d.Attempt, token: d.Token})
	j.binding, j.seq = b, e.Sequence
}

// stillAt tells whether the worker that a job was sent to last runs it.
func (w *World) stillAt(j *job) bool {
	v := j.binding.process
	if v.takenUp != nil {
		return v.alive && v.run != 0 && v.takenUp == j.binding && j.seq == 1
	}
	return v.alive && v.run != 0 && v.binding == j.binding.id && v.running.Sequence == j.seq
}

// judgeRun asks for the cause of a second run (B2, B4): the first was
// rejected, its handler panicked, or one of the two bindings is over.
func (w *World) judgeRun(v *process, d *core.Delivery, b *binding) {
	en := b.entry(d.Sequence)
	j := &w.jobs[en.job]
	if d.ID != j.id || string(d.Payload.Value) != j.id {
		w.fail("payloads stay", "%s was sent as sequence %d of binding %d and arrives as %s with the payload of %s", j.id, d.Sequence, b.id, d.ID, d.Payload.Value)
	}
	if j.life != en.life { // of an earlier session, or done long since
		return
	}
	if last := &j.last; j.starts > 0 && last.binding != nil {
		w.Seen[SecondRuns]++
		again := last.binding == b && last.outcome == panicked
		if !last.binding.ended && !last.binding.left && !b.ended && last.outcome != rejected && !again {
			w.fail("a second run has a cause", "%s runs at %s through binding %d, it ran through binding %d and neither is over", j.id, w.identities[v.identity].name, b.id, last.binding.id)
		}
	}
	if j.ranBefore {
		w.Seen[RunAfterLoad]++
		j.ranBefore = false
	}
	j.starts++
	j.runsAt(v.identity)
	if !b.ended || j.last.binding == nil || j.last.binding.ended {
		j.last = lastRun{binding: b}
	}
}

// noteOutcome notes how a run ended.
func (w *World) noteOutcome(b *binding, seq uint64, outcome runOutcome) {
	en := b.entry(seq)
	j := &w.jobs[en.job]
	if j.life != en.life {
		return
	}
	if outcome == finished {
		j.done = true
	}
	if j.last.binding == b {
		j.last.outcome = outcome
	}
}

// judgeConfirmed: what is confirmed was accepted, is not confirmed yet, and
// some handler finished it.
func (w *World) judgeConfirmed(c *core.Job) {
	j := &w.jobs[jobNumber(c.ID)]
	if w.tracing {
		w.say("confirmed %s", j.id)
	}
	if w.queue != nil && !w.judgeDurable(j) || w.queue == nil && w.toldOnceMore(j) {
		return
	}
	switch {
	case j.state != jobHeld && j.state != jobDead:
		w.fail("one confirmation", "%s is confirmed and not held", j.id)
	case !w.everDone(j):
		w.fail("only what was done is confirmed", "%s is confirmed and no handler finished it", j.id)
	}
	if w.queue == nil {
		w.noteDone(j)
	}
	if m := w.handling.message; w.queue == nil && w.handling.kind == arriveAtProducer && m.kind == core.SendLate && m.id == c.ID {
		w.judgeLate(m)
	}
	j.state = jobConfirmed
	w.undone--
}

func (w *World) judgeLate(m *message) {
	w.Seen[LateConfirmations]++
	if m.session != w.session {
		w.Seen[LateOfEarlier]++
		j := &w.jobs[jobNumber(m.id)]
		if g := w.givenTo(m.to, j, m.epoch, m.number); g == nil || g.outcome != finished || m.epoch >= w.epoch {
			w.fail("only what was done is confirmed", "%s is confirmed by the attempt %d.%d of a worker that did not do it", m.id, m.epoch, m.number)
		}
		return
	}
	if b := w.bindings[w.attempts[m.number-1]-1]; b.violated {
		w.fail("a violator confirms nothing", "%s was confirmed through binding %d, which ended for a violation", m.id, b.id)
	}
}

// judgeBuried: the failures of a dead letter name workers where it ran (B3).
func (w *World) judgeBuried(c *core.Job) {
	w.Seen[DeadLetters]++
	j := &w.jobs[jobNumber(c.ID)]
	if w.tracing {
		w.say("dead letter %s after %d attempts", j.id, len(c.Failures()))
	}
	if len(c.Failures()) != w.opt.Attempts || len(c.Failures()) > j.starts+j.announced {
		w.fail("only a job that ran is charged", "%s is dead after %d charged attempts of %d, it started %d times", j.id, len(c.Failures()), w.opt.Attempts, j.starts)
	}
	for _, f := range c.Failures() {
		if !slices.ContainsFunc(j.ran, func(i int32) bool { return w.identities[i].name == f.Worker }) {
			w.fail("only a job that ran is charged", "%s is charged for %q at %s, where it never ran", j.id, f.Reason, f.Worker)
		}
	}
	j.state = jobDead
}
