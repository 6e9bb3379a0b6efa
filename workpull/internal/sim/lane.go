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
	under      int      // the operation whose answer the controller waits for, or none
	fetching   int      // that for payloads, beside it
	toStore    []string // answers of the actor that the queue has to store, in order
	toAccept   []accept // jobs that it has to accept
	accepting  []accept // those of the operation under way
	completed  []string // jobs whose confirmation it has to store, in order
	toldAgain  []again  // jobs that were done before, told once more in this turn
	loadedAt   time.Duration
	resuming   []core.StoredJob // what was loaded, until the controller has taken it up
	foreign    bool             // another writer loaded the queue since
	loading    bool             // the controller waits for its load
	failed     bool             // it is over, until it is respawned
	gone       bool             // and there is not even one: it could not be spawned
	expect     core.Stage       // the failure that has to come now
	toUnbind   int              // bindings whose end has to be told
}

const none = -1

// accept is a job that the actor acknowledged; done tells that it was done
// before it was submitted again, dropped that it was given up.
type accept struct {
	job           int32
	done, dropped bool
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
	ranBefore  bool // and it ran in an earlier one
}

// operation is one that the controller asked for.
type operation struct {
	session uint64
	*core.QueueOperation
	load     bool
	fetch    bool
	reached  bool      // the queue
	fate     FaultKind // Drop is none
	half     bool      // of what may be done or not
	after    time.Duration
	again    time.Duration // its answer comes once more after so long; 0 is never
	outcomes []core.StoreOutcome
	payloads []core.Payload
	state    core.QueueState
	epoch    uint64
	err      error
}

// openQueue is the queue that the first controller starts with.
func (w *World) openQueue() *core.LoadedQueue {
	w.under, w.fetching = none, none
	if w.opt.Queue == inMemory {
		return nil
	}
	w.queue = newQueue(0)
	if w.opt.Remembers {
		w.queue.window = w.opt.Known
	}
	return w.loadNow()
}

// loadNow loads the queue before a controller starts (rule 56).
func (w *World) loadNow() *core.LoadedQueue {
	state, epoch := w.load()
	q, err := core.NewLoadedQueue(state, epoch)
	if err != nil {
		w.fail("the queue keeps its rules", "loaded: %v", err)
	}
	w.epoch, w.foreign = epoch, false
	w.takeOverQueue(&state)
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
	w.under, w.fetching, w.expect = none, none, ""
	w.failed, w.gone, w.loading = false, false, false
	w.foreign = w.foreign || w.queue != nil && w.queue.epoch != w.epoch // a load whose answer nobody waits for any more
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
	w.restartProducer(w.opt.Reloads || d.below(2) == 0)
}

// askToLoad: a controller that begins anew loads only what is its own (B16).
func (w *World) askToLoad(e *core.Effect) {
	if want := w.epoch; e.Operation.Epoch != want && (w.opt.Reloads || e.Operation.Epoch != 0) {
		w.fail("one writer", "the queue is loaded if its epoch is %d, the controller had %d", e.Operation.Epoch, want)
	}
	w.loading = true
	w.launch(operation{session: e.Session, QueueOperation: e.Operation, load: true}, LoadFailure, SlowQueue, RepeatedOutcome, AncientOutcome)
}

func (w *World) commit(e *core.Effect) {
	w.launch(operation{session: e.Session, QueueOperation: e.Operation},
		OperationNotDone, OperationAnswerLost, Fence, FenceUnseen, OperationConflict, SlowQueue, RepeatedOutcome, AncientOutcome)
}

// launch sends an operation to the queue; what befalls it is decided here.
func (w *World) launch(o operation, kinds ...FaultKind) {
	slot := w.slotOf(&o)
	if *slot != none { // rule 57
		w.fail("one operation at a time", "operation %d begins while %d is under way", o.Number, w.operations[*slot].Number)
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
	*slot = len(w.operations)
	w.operations = append(w.operations, o)
	w.at(before, reachQueue, nobody, uint64(*slot), nil)
}

// slotOf is where an operation under way is noted: payloads are asked for beside
// the others.
func (w *World) slotOf(o *operation) *int {
	if o.fetch {
		return &w.fetching
	}
	return &w.under
}

// ancient is the latest operation of an older session that has the number of
// this one, and was carried out.
func (w *World) ancient(o *operation) int {
	for n := len(w.operations) - 1; n >= 0; n-- {
		if a := &w.operations[n]; a.session != o.session && a.Number == o.Number && a.load == o.load && a.fetch == o.fetch && a.reached {
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
	w.queue.now = w.now
	switch {
	case o.load && o.fate == LoadFailure && o.half: // rule 66
		o.err = errUnavailable
	case o.load && o.Epoch != 0 && !w.queue.owned(o.Epoch): // B16
		o.err = errFenced
		w.judgeOutcome(o)
	case o.load:
		o.state, o.epoch = w.load()
		w.foreign = o.session != w.session
		if o.fate == LoadFailure {
			o.err = errUnavailable
			w.foreign = true // nobody owns it
		}
	default:
		w.foreign = w.foreign || o.fate == Fence || o.fate == FenceUnseen
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
	d, _ := w.roll(placeQueue)
	first := int(d.below(6))
	for i, s := range jobs {
		if !w.jobs[jobNumber(s.id)].stored {
			w.fail("no stored job is lost", "%s is loaded, the books do not have it", s.id)
		}
		job := core.StoredJob{ID: s.id, Sequence: s.seq, Payload: core.Payload{TypeURL: "job", Value: s.payload}, Accepted: s.accepted, Progress: s.progress}
		if w.opt.Pages && i >= first {
			job.Payload, job.Paged = core.Payload{}, true
		}
		state.Jobs = append(state.Jobs, job)
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
	if o.fetch {
		var err error
		o.payloads, err = q.payloads(o.Epoch, o.Fetches)
		return err
	}
	if len(o.Saves) > 0 {
		return q.save(o.Epoch, o.Saves)
	}
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
		outcome := core.StoreOutcome{Sequence: first.seq, Already: already, Dropped: already && first.dropped()}
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
