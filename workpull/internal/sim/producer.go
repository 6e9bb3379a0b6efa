package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// producer is the producer's side: its actor, its controller, and what the
// shell around the controller does.
type producer struct {
	core        *core.Producer
	session     uint64
	address     core.Peer
	place       uint32 // generation of the address
	pausedUntil time.Duration
	lastTick    time.Duration
	late        time.Duration // sum of the ticks' lateness
	accepted    uint64        // in this session
	tokens      []token       // those granted in this session, from 1
	again       []int32       // jobs to submit once more, after a restart
	submitted   int
	attempts    []int32 // binding id - 1 by attempt token - 1, in this session
	posting     *message
	claim       *core.HeldAttempt // what has to go on under the binding of claimant,
	claimant    uint64            // if that comes about
	claimed     int               // in this step
	handling    event
}

// token is a credit and what the producer actor answered it with.
type token struct {
	job      int32 // -1 while it has no answer
	life     uint32
	due      time.Duration
	produced bool // the controller has the answer
	acked    bool
	told     bool // Stored was
	finished bool // and the job was done by then: it runs no more
	dropped  bool // or given up
	// remembered: the controller knew by itself that it was done, and ofMemory:
	// it still did when it was told Stored.
	remembered, ofMemory bool
}

// job is what the world knows of one.
type job struct {
	id        string
	payload   []byte
	state     jobState
	life      uint32 // counts submissions that found it not held
	starts    int    // handler entries in this life, since it was last redriven
	announced int    // and starts that were announced
	done      bool   // a handler finished it in this life
	ran       []int32
	attempt   uint32
	binding   *binding // of the last dispatch
	seq       uint64
	last      lastRun
	given     []given       // attempts of any life, where the queue gave them out
	notBefore time.Duration // when its backoff is over, of one that was loaded
	doneAt    time.Duration // when it was done, and the session in which it was
	doneIn    uint64
	durability
}

// begin lets a job begin another life.
func (j *job) begin(state jobState) {
	j.starts, j.announced, j.ran = 0, 0, j.ran[:0]
	j.beginAgain(state)
}

// beginAgain is the same for one whose attempts are not forgotten.
func (j *job) beginAgain(state jobState) {
	j.state, j.done, j.notBefore = state, false, 0
	j.binding, j.last = nil, lastRun{}
	j.life++
}

// runsAt notes that it entered a handler there.
func (j *job) runsAt(identity int32) {
	if !slices.Contains(j.ran, identity) {
		j.ran = append(j.ran, identity)
	}
}

type jobState uint8

const (
	jobOut       jobState = iota // not held: new, confirmed, dropped, or lost with a producer
	jobStored                    // Stored was told
	jobHeld                      // accepted
	jobDead                      // accepted, and a dead letter
	jobConfirmed                 // not held: done
	jobDropped                   // not held: somebody gave it up
)

// lastRun is the latest run of a job that counts.
type lastRun struct {
	binding *binding
	outcome runOutcome
}

type runOutcome uint8

const (
	runs runOutcome = iota
	finished
	rejected
	panicked
)

func (w *World) startProducer() error {
	p, err := core.NewProducer(core.ProducerConfig{
		Name: "jobs", Actor: "actor", RetryInterval: retryInterval,
		Credits: w.opt.Credits, StoreAhead: w.opt.StoreAhead, Lease: lease, Confirmations: true, Packed: w.opt.Packed,
		Durable: w.opt.Queue != inMemory, Batches: w.opt.Queue == inBatches,
		Pages: w.opt.Pages, PageBytes: w.opt.Page, Keeps: w.opt.Keeps, Remembers: w.opt.Remembers, Reloads: w.opt.Reloads,
		Window: w.opt.Known, Settle: w.opt.Settle,
		MaxAttempts: w.opt.Attempts, FirstBackoff: firstBackoff, LastBackoff: lastBackoff,
	})
	if err != nil {
		return err
	}
	w.core, w.session, w.address = p, 1<<40, "controller0"
	p.Start(0, w.session, w.openQueue())
	w.settleProducer()
	w.at(retryInterval, tickProducer, producerParty, p.Generation(), nil)
	return nil
}

// restartProducer begins a new session, in place or at another address. The
// pool was in memory: the actor submits again what it has seen no confirmation
// for.
func (w *World) restartProducer(elsewhere bool) {
	if elsewhere {
		before := w.mail(core.RegisterAck)
		before.from = w.address
		before.copies++
		w.place++
		w.address = core.Peer("controller" + strconv.Itoa(int(w.place)))
		for _, v := range w.processes {
			if v.alive && v.local {
				w.at(0, producerStopped, v.index, 0, before)
			}
		}
		w.over(before)
	}
	w.beginSession(w.session + 1)
	queue, ok := w.loadBefore(elsewhere)
	if !ok {
		return
	}
	w.core.Start(w.now, w.session, queue)
	if queue != nil {
		w.judgeResumed()
	}
	w.at(retryInterval, tickProducer, producerParty, w.core.Generation(), nil)
	w.settleProducer()
}

// beginSession keeps the books of a new session. What was in memory only the
// actor submits again.
func (w *World) beginSession(session uint64) {
	w.endBindings()
	for i := range w.identities {
		w.identities[i].retired = false
	}
	w.again = w.again[:0]
	for i := range w.jobs {
		j := &w.jobs[i]
		switch {
		case w.queue != nil:
			if !j.acked {
				w.again = append(w.again, int32(i))
			}
		case j.state == jobStored || j.state == jobHeld || j.state == jobDead || j.state == jobOut:
			j.state = jobOut
			w.again = append(w.again, int32(i))
		}
	}
	w.session = session
	w.tokens, w.attempts, w.accepted, w.late, w.lastTick = w.tokens[:0], w.attempts[:0], 0, 0, w.now
	w.forgetLane()
}

func (w *World) endBindings() {
	for _, b := range w.bindings {
		if b != nil {
			b.ended = true
		}
	}
	for i := range w.identities {
		w.identities[i].binding = nil
	}
}

// atProducer lets an event reach the producer's controller.
func (w *World) atProducer(e *event) {
	w.handling = *e
	m := e.message
	if w.gone { // nobody is there
		return
	}
	switch e.kind {
	case arriveAtProducer:
		w.receive(m)
	case tickProducer:
		w.tick(e.arg)
	case produced:
		w.produced(m.session, uint32(m.number))
	case storedAck:
		w.storedAck(m.session, uint32(m.number))
	case verified:
		w.verified(m)
	case probed:
		w.probed(m)
	case sendFailed:
		w.noteSuspension(e.arg)
		w.core.SendFailed(w.now, e.arg)
	case peerLost:
		w.core.PeerLost(w.now, hostName(int32(e.arg)))
	case terminated:
		w.terminated(int32(e.arg))
	case answered:
		w.answered(int(e.arg))
	case recallDue:
		w.core.RecallDue(w.now)
	case lookAtDead:
		w.lookAtDead(int32(e.arg))
	}
}

func (w *World) tick(generation uint64) {
	if generation != w.core.Generation() {
		w.core.Tick(w.now, generation) // rule 18: stale
		return
	}
	w.late += max(0, w.now-w.lastTick-retryInterval)
	w.lastTick = w.now
	w.core.Tick(w.now, generation)
	w.settleProducer()
	w.checkLeases()
	d, k := w.roll(placeProducerTick)
	after := retryInterval
	if w.strikes(&d, k, LateTick) {
		after += d.upTo(3 * time.Second)
	}
	w.at(after, tickProducer, producerParty, generation, nil)
}

// settleProducer carries out what the controller asks for.
func (w *World) settleProducer() {
	for effects := w.core.Take(); len(effects) > 0; effects = w.core.Take() {
		for i := range effects {
			if w.failed { // rule 91
				w.fail("a controller that failed does no more", "it asks for %d", effects[i].Kind)
			}
			w.produce(&effects[i])
		}
	}
	w.post()
}

func (w *World) produce(e *core.Effect) {
	switch e.Kind {
	case core.RequestNext:
		w.answer(e.Session, e.Token)
	case core.Stored:
		w.acknowledge(e)
	case core.DeliveryConfirmed:
		w.judgeConfirmed(e.Job)
	case core.Verify:
		w.verify(e)
	case core.Probe:
		w.probe(e)
	case core.Bound:
		w.judgeBound(e)
	case core.Unbound:
		w.judgeUnbound(e)
	case core.RegisterAck:
		w.judgeGrant(e)
		m := w.mail(e.Kind)
		m.session, m.binding, m.number, m.nonce, m.retired = e.Session, e.Binding, e.Confirmed, e.Nonce, e.Retired
		m.epoch, m.adopted = e.Epoch, e.Adopted
		w.sendToWorker(m)
	case core.ControlAck:
		m := w.mail(e.Kind)
		m.session, m.binding, m.number = e.Session, e.Binding, e.Control
		w.sendToWorker(m)
	case core.Recall:
		w.Seen[Recalls]++
		m := w.mail(e.Kind)
		m.session, m.binding, m.number = e.Session, e.Binding, e.Sequence
		w.sendToWorker(m)
	case core.Dispatch:
		w.judgeDispatch(e)
		w.dispatch(e)
	case core.SetRecall:
		w.at(core.RecallDelay, recallDue, producerParty, 0, nil)
	case core.DeadLettered:
		w.judgeBuried(e.Job)
		w.lookSoon(jobNumber(e.Job.ID))
	case core.Load:
		w.askToLoad(e)
	case core.Commit:
		w.judgeCommit(e)
		w.commit(e)
	case core.Fetch:
		w.fetch(e)
	case core.Save:
		w.judgeSave(e)
		w.commit(e)
	case core.Restarted:
		w.judgeRestarted(e)
	case core.Failed:
		w.judgeFailed(e)
	}
}

// dispatch packs what goes to one binding in one turn into one message, as the
// outbox does.
func (w *World) dispatch(e *core.Effect) {
	if m := w.posting; m != nil && m.binding == e.Binding && m.session == e.Session {
		m.jobs = append(m.jobs, e.Delivery)
		return
	}
	w.post()
	m := w.mail(core.Dispatch)
	m.session, m.binding, m.jobs = e.Session, e.Binding, append(m.jobs, e.Delivery)
	w.posting = m
}

func (w *World) post() {
	if m := w.posting; m != nil {
		w.posting = nil
		w.transmitToWorker(m)
	}
}

func (w *World) sendToWorker(m *message) {
	w.post()
	w.transmitToWorker(m)
}
