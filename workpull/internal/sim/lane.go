package sim

import (
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// queueMode is what the producer's controller has for a queue.
type queueMode uint8

const (
	inMemory  queueMode = iota
	inQueue             // plain: one store, accept or confirmation at a time
	inBatches           // B8
	queueModes
)

// lane is the world's side of the durable lane: the queue, what is under way to
// it, and books on what the controller has to ask of it.
type lane struct {
	queue      *queue
	epoch      uint64 // that the controller was given
	operations []operation
	under      int        // the operation whose answer the controller waits for, or none
	toStore    []string   // answers of the actor that the queue has to store, in order
	toAccept   []accept   // jobs that it has to accept
	accepting  []accept   // those of the operation under way
	completed  []string   // jobs whose confirmation it has to store, in order
	toldAgain  []string   // jobs that were done before, told once more when the answer under way accepts them
	foreign    bool       // another writer loaded the queue since
	loading    bool       // the controller waits for its load
	failed     bool       // it is over, until it is respawned
	gone       bool       // and there is not even one: it could not be spawned
	expect     core.Stage // the failure that has to come now
	toUnbind   int        // bindings whose end has to be told
}

const none = -1

// accept is a job that the actor acknowledged; done tells that it was done
// before it was submitted again.
type accept struct {
	job  int32
	done bool
}

// durability is what the books say of a job in the queue.
type durability struct {
	stored     bool // there, and not confirmed
	confirmed  bool // there or not, and confirmed
	accepted   bool
	accepting  bool // its accept waits or is under way
	completing bool // its confirmation waits or is under way
	acked      bool // the actor knows that it is stored
	loaded     bool // this life began with a load
}

// operation is one that the controller asked for.
type operation struct {
	session uint64
	*core.QueueOperation
	load     bool
	reached  bool      // the queue
	fate     FaultKind // Drop is none
	half     bool      // of what may be done or not
	after    time.Duration
	again    time.Duration // its answer comes once more after so long; 0 is never
	outcomes []core.StoreOutcome
	state    core.QueueState
	epoch    uint64
	err      error
}

// openQueue is the queue that the first controller starts with.
func (w *World) openQueue() *core.LoadedQueue {
	w.under = none
	if w.opt.Queue == inMemory {
		return nil
	}
	w.queue = newQueue()
	return w.loadNow()
}

// loadNow loads the queue before a controller starts (rule 56).
func (w *World) loadNow() *core.LoadedQueue {
	state, epoch := w.load()
	q, err := core.NewLoadedQueue(state, epoch)
	if err != nil {
		w.fail("the queue keeps its rules", "loaded: %v", err)
	}
	w.epoch = epoch
	w.adopt(&state)
	return q
}

// loadBefore loads the queue of a producer that starts elsewhere; one that
// starts in place asks for it. A load that fails leaves nobody there.
func (w *World) loadBefore(elsewhere bool) (*core.LoadedQueue, bool) {
	if w.queue == nil || !elsewhere {
		return nil, true
	}
	d, k := w.roll(placeQueue)
	if w.strikes(&d, k, LoadFailure) {
		w.gone, w.failed = true, true
		w.respawnSoon(&d)
		return nil, false
	}
	return w.loadNow(), true
}

// away tells that no controller has the queue's jobs now.
func (w *World) away() bool { return w.failed || w.loading }

// forgetLane begins the books of a session.
func (w *World) forgetLane() {
	w.toStore, w.toAccept, w.completed = w.toStore[:0], w.toAccept[:0], w.completed[:0]
	w.accepting, w.toldAgain = w.accepting[:0], w.toldAgain[:0]
	w.under, w.expect = none, ""
	w.failed, w.gone, w.loading = false, false, false
	for i := range w.jobs {
		w.jobs[i].accepting, w.jobs[i].completing = false, false
	}
}

func (w *World) respawnSoon(d *dice) {
	w.at(d.between(100*time.Millisecond, 2*time.Second), respawn, nobody, w.session, nil)
}

// respawn is the explicit ReSpawn of a producer whose controller failed
// (rule 61).
func (w *World) respawn(session uint64) {
	if session != w.session || !w.failed {
		return
	}
	w.Seen[Respawns]++
	d, _ := w.roll(placeQueue)
	w.restartProducer(d.below(2) == 0)
}

func (w *World) askToLoad(e *core.Effect) {
	w.loading = true
	w.launch(operation{session: e.Session, QueueOperation: e.Operation, load: true}, LoadFailure, SlowQueue, RepeatedOutcome, AncientOutcome)
}

func (w *World) commit(e *core.Effect) {
	w.launch(operation{session: e.Session, QueueOperation: e.Operation},
		OperationNotDone, OperationAnswerLost, Fence, OperationConflict, SlowQueue, RepeatedOutcome, AncientOutcome)
}

// launch sends an operation to the queue; what befalls it is decided here.
func (w *World) launch(o operation, kinds ...FaultKind) {
	if w.under != none { // rule 57
		w.fail("one operation at a time", "operation %d begins while %d is under way", o.Number, w.operations[w.under].Number)
	}
	d, k := w.roll(placeQueue)
	fate, ok := w.fate(&d, k, kinds...)
	before := d.upTo(time.Millisecond)
	o.after = d.upTo(2 * time.Millisecond)
	o.half = d.below(2) == 0
	ancient := none
	if ok && fate == AncientOutcome {
		ancient = w.ancient(&o)
	}
	if ok && (fate != AncientOutcome || ancient != none) {
		w.struck(k, fate)
		o.fate = fate
		switch fate {
		case AncientOutcome:
			w.at(0, answered, producerParty, uint64(ancient), nil)
		case SlowQueue:
			before, o.after = d.upTo(2*time.Second), d.upTo(2*time.Second)
		case RepeatedOutcome:
			o.again = d.between(0, 5*time.Millisecond)
		}
	}
	w.under = len(w.operations)
	w.operations = append(w.operations, o)
	w.at(before, reachQueue, nobody, uint64(w.under), nil)
}

// ancient is the latest operation of an older session that has the number of
// this one, and was carried out.
func (w *World) ancient(o *operation) int {
	for n := len(w.operations) - 1; n >= 0; n-- {
		if a := &w.operations[n]; a.session != o.session && a.Number == o.Number && a.load == o.load && a.reached {
			return n
		}
	}
	return none
}

// reachQueue carries an operation out, whether or not the incarnation that
// asked for it is still there.
func (w *World) reachQueue(n int) {
	o := &w.operations[n]
	o.reached = true
	switch {
	case o.load && o.fate == LoadFailure && o.half: // rule 66
		o.err = errUnavailable
	case o.load:
		o.state, o.epoch = w.load()
		w.foreign = o.session != w.session
		if o.fate == LoadFailure {
			o.err = errUnavailable
		}
	default:
		w.foreign = w.foreign || o.fate == Fence
		o.err = w.queue.befall(o.fate, func() error { return w.carryOut(o) })
		w.judgeOutcome(o)
	}
	if w.tracing {
		w.say("queue: operation %d of session %d: %+v: %v", o.Number, o.session, *o.QueueOperation, o.err)
	}
	w.at(o.after, answered, producerParty, uint64(n), nil)
	if o.fate == RepeatedOutcome {
		w.at(o.after+o.again, answered, producerParty, uint64(n), nil)
	}
}

// load is what the queue holds that is not confirmed.
func (w *World) load() (core.QueueState, uint64) {
	epoch, cursor, jobs := w.queue.load()
	state := core.QueueState{Cursor: cursor}
	for _, s := range jobs {
		if !w.jobs[jobNumber(s.id)].stored {
			w.fail("no stored job is lost", "%s is loaded, the books do not have it", s.id)
		}
		state.Jobs = append(state.Jobs, core.StoredJob{ID: s.id, Sequence: s.seq, Payload: core.Payload{TypeURL: "job", Value: s.payload}, Accepted: s.accepted})
	}
	held := 0
	for i := range w.jobs {
		if w.jobs[i].stored {
			held++
		}
	}
	if held != len(jobs) {
		w.fail("no stored job is lost", "%d jobs are loaded, the books have %d", len(jobs), held)
	}
	return state, epoch
}

// carryOut does what a commit asks for, in the order of its fields.
func (w *World) carryOut(o *operation) error {
	q := w.queue
	for i := range o.Stores {
		s := &o.Stores[i]
		seq := s.Sequence
		if w.opt.Queue == inBatches { // rule 68: the queue gives it
			seq = q.cursor + 1
		}
		first, already, err := q.store(o.Epoch, seq, s.ID, s.Payload.Value)
		if err != nil {
			return err
		}
		outcome := core.StoreOutcome{Sequence: first.seq, Already: already}
		if already {
			outcome.Payload = core.Payload{TypeURL: "job", Value: first.payload}
		} else {
			j := &w.jobs[jobNumber(s.ID)]
			j.durability = durability{stored: true, acked: j.acked}
		}
		o.outcomes = append(o.outcomes, outcome)
	}
	for _, id := range o.Accepts {
		if err := q.accept(o.Epoch, id); err != nil {
			return err
		}
	}
	for _, id := range o.Confirms {
		if err := q.confirm(o.Epoch, id); err != nil {
			return err
		}
		j := &w.jobs[jobNumber(id)]
		j.stored, j.confirmed = false, true
	}
	return nil
}

// answered lets the controller hear of an operation.
func (w *World) answered(n int) {
	o := &w.operations[n]
	if n != w.under || w.failed {
		w.answerStale(o)
		return
	}
	w.under = none
	if o.load {
		w.loading = false
		if o.err != nil { // rule 56
			w.expect = core.StageLoad
		} else {
			w.epoch = o.epoch
			w.adopt(&o.state)
		}
		w.core.Loaded(w.now, o.session, o.Number, o.state, o.epoch, o.err)
		w.settleExpected()
		return
	}
	if o.err == nil {
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
	w.core.Committed(w.now, o.session, o.Number, o.outcomes, o.err, fresh)
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
	if o.load {
		w.core.Loaded(w.now, o.session, o.Number, o.state, o.epoch, o.err)
	} else {
		w.core.Committed(w.now, o.session, o.Number, o.outcomes, o.err, w.session+1)
	}
	if effects := w.core.Take(); len(effects) > 0 || w.core.Session() != session {
		w.fail("a stale answer changes nothing", "the answer to operation %d of session %d brings %d effects, the first of kind %d", o.Number, o.session, len(effects), effects[0].Kind)
	}
}

// adopt takes over what the controller loaded: each job begins another life,
// since what earlier sessions began is no concern of this one.
func (w *World) adopt(state *core.QueueState) {
	for i := range state.Jobs {
		s := &state.Jobs[i]
		j := &w.jobs[jobNumber(s.ID)]
		if !s.Accepted {
			w.Seen[LoadedUnaccepted]++
		}
		if j.state == jobConfirmed || j.state == jobDropped {
			w.undone++
		}
		ran := j.starts > 0
		j.begin(jobHeld)
		j.accepted, j.loaded = s.Accepted, ran
	}
	for i := range w.jobs {
		j := &w.jobs[i]
		switch {
		case j.stored:
		case j.state == jobDropped: // for the queue it is done
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
