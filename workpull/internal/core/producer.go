package core

import (
	"container/heap"
	"fmt"
	"math"
	"time"
)

// ProducerConfig is the configuration of a producer controller.
type ProducerConfig struct {
	// Name of the producer endpoint; registrations for others are dropped.
	Name string
	// Actor is the address of the producer actor; messages of the handshake
	// from anybody else are dropped (rules 6, 15).
	Actor Peer
	// RetryInterval is the tick at which RequestNext and Stored are told
	// again.
	RetryInterval time.Duration
	// Credits is how many RequestNext may be open at once; 0 is 1 (B8).
	Credits int
	// StoreAhead is how many jobs are accepted beyond demand (B7).
	StoreAhead int
	// Lease of a worker's controller; 0 is DefaultLease (B5).
	Lease time.Duration
	// Durable tells that there is a queue, which the controller loads first and
	// asks to store, accept and confirm (rules 55-63). Batches tells that it
	// takes many of these in one commit, and gives the sequences (B8).
	Durable, Batches bool
	// Pages, Keeps, Remembers and Reloads tell that the queue gives out
	// payloads (B11), keeps what befalls jobs (B3), remembers what is done (B9)
	// and can be loaded again on a condition (B16).
	Pages, Keeps, Remembers, Reloads bool
	// PageBytes is about how much is asked for at once; 0 is 4 MiB (B11).
	PageBytes int
	// Window is how long a MessageID that is done stays known, 0 for no longer
	// than the queue wants (B9).
	Window time.Duration
	// Settle is for how long jobs that were loaded are held back, so that
	// workers which run them can say so (B15); 0 is not at all, and nothing is
	// adopted then.
	Settle time.Duration
	// Confirmations asks for DeliveryConfirmed (rule 52).
	Confirmations bool
	// Packed gives a job to the worker that was used last among those that
	// hold nothing, so that the others stay idle and can go; the default is
	// round-robin (rule 42).
	Packed bool
	// MaxAttempts is after how many charged attempts a job becomes a dead
	// letter; 0 is never (B3).
	MaxAttempts int
	// FirstBackoff and LastBackoff are how long a job waits after its first
	// charged attempt and at most; it doubles in between. Zero values are one
	// second and one minute.
	FirstBackoff, LastBackoff time.Duration
}

// Default backoff of a job after a charged attempt.
const (
	DefaultFirstBackoff = time.Second
	DefaultLastBackoff  = time.Minute
)

// Producer is the producer controller. Each start (Start) is an incarnation of
// its own.
type Producer struct {
	cfg        ProducerConfig
	out, taken []Effect

	session    uint64
	generation uint64
	stopped    bool

	handshakes handshakes
	lane       lane
	cursor     uint64 // last store sequence

	jobs    map[string]*Job // every job held, by MessageID
	waiting pool
	loaded  pool // those that a load brought, until settled (B15)
	settled time.Duration
	memory  memory
	paging  paging
	buried  []*Job // since the last tick
	solos   pool   // suspects: each goes to a worker that holds nothing else (B3)
	delayed delayed
	dead    pool

	ages ages

	bindings   map[uint64]*binding
	byPeer     map[Peer]*binding
	byIdentity map[string]*binding
	verifying  map[Peer]struct{}
	early      []successor // verified before the queue was loaded (B15)
	successors map[uint64]successor
	ended      map[uint64]*endedBinding

	slots []*binding // in registration order, nil where one ended
	sets
	unused     stack           // vacant bindings, the last used first
	retired    map[string]bool // identities that are given nothing (B13)
	turn       int             // slot to look at next (rule 42)
	recallTurn int             // slot to look at next, for a worker that is stuck
	recallSet  bool            // RecallDue is on its way
	reserved   int             // bindings that are emptied for a suspect
	demand     int             // free demand of all bindings
	tokens     uint64

	lastTick time.Duration
	paused   time.Duration // time for which ticks came late: leases stood still

	accepted, confirmed, requeued, rejected, recalled, adopted uint64
}

// successor is a verified registration that waits for a probe of the binding
// that holds its identity at another address (B14).
type successor struct {
	peer    Peer
	reg     Registration
	binding uint64
}

// NewProducer returns a producer controller that waits for Start. It refuses a
// configuration that is not whole and substitutes nothing (rule 1).
func NewProducer(cfg ProducerConfig) (*Producer, error) {
	switch {
	case cfg.Name == "":
		return nil, fmt.Errorf("producer name: is empty, wanted the endpoint's name")
	case cfg.Actor == "":
		return nil, fmt.Errorf("producer actor: no address, wanted a live local actor")
	case cfg.RetryInterval <= 0:
		return nil, fmt.Errorf("retry interval: is %v, wanted more than zero", cfg.RetryInterval)
	case cfg.Credits < 0:
		return nil, fmt.Errorf("credits: is %d, wanted at least one", cfg.Credits)
	case cfg.StoreAhead < 0:
		return nil, fmt.Errorf("store-ahead: is %d, wanted zero or more", cfg.StoreAhead)
	case cfg.MaxAttempts < 0:
		return nil, fmt.Errorf("attempts: at most %d, wanted at least one, or zero for no end", cfg.MaxAttempts)
	case cfg.FirstBackoff < 0 || cfg.LastBackoff < 0:
		return nil, fmt.Errorf("backoff: from %v to %v, wanted more than zero", cfg.FirstBackoff, cfg.LastBackoff)
	case cfg.Batches && !cfg.Durable:
		return nil, fmt.Errorf("batches: there is no queue that takes them")
	case (cfg.Pages || cfg.Keeps || cfg.Remembers || cfg.Reloads || cfg.Settle != 0) && !cfg.Durable:
		return nil, fmt.Errorf("a queue's abilities: there is no queue")
	case cfg.PageBytes < 0:
		return nil, fmt.Errorf("page: is %d bytes, wanted more than zero", cfg.PageBytes)
	case cfg.Window < 0 || cfg.Settle < 0:
		return nil, fmt.Errorf("deduplication window %v, settling time %v: wanted zero or more", cfg.Window, cfg.Settle)
	case cfg.Lease < 0:
		return nil, fmt.Errorf("lease: is %v, wanted more than zero", cfg.Lease)
	}
	if cfg.Credits == 0 {
		cfg.Credits = 1
	}
	if cfg.PageBytes == 0 {
		cfg.PageBytes = pageBytes
	}
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.FirstBackoff == 0 {
		cfg.FirstBackoff = DefaultFirstBackoff
	}
	if cfg.LastBackoff == 0 {
		cfg.LastBackoff = max(DefaultLastBackoff, cfg.FirstBackoff)
	}
	if cfg.LastBackoff < cfg.FirstBackoff {
		return nil, fmt.Errorf("backoff: from %v to %v, wanted the last not below the first", cfg.FirstBackoff, cfg.LastBackoff)
	}
	return &Producer{cfg: cfg}, nil
}

// Start begins an incarnation under a new session: everything volatile is
// gone, and timers of earlier incarnations are stale (rule 2). A queue that was
// loaded already comes with it; otherwise one is loaded first (rules 55, 56).
func (p *Producer) Start(now time.Duration, session uint64, queue *LoadedQueue) {
	own := p.lane.epoch
	if p.lane.loading {
		own = p.lane.own
	}
	*p = Producer{
		cfg: p.cfg, out: p.out[:0], taken: p.taken,
		session:    session,
		generation: p.generation + 1,
		jobs:       map[string]*Job{},
		bindings:   map[uint64]*binding{},
		byPeer:     map[Peer]*binding{},
		byIdentity: map[string]*binding{},
		verifying:  map[Peer]struct{}{},
		successors: map[uint64]successor{},
		ended:      map[uint64]*endedBinding{},
		retired:    map[string]bool{},
		lastTick:   now,
		memory:     memory{jobs: map[string]*Job{}},
		ages:       ages{marks: []mark{{at: now}}},
	}
	if p.cfg.Durable {
		p.lane = lane{durable: true, own: own, dropped: map[string]struct{}{}}
		if queue == nil {
			p.load()
			return
		}
		p.takeOver(now, &queue.State, queue.Epoch)
	}
	p.pump(now)
}

// Session of this incarnation.
func (p *Producer) Session() uint64 { return p.session }

// Epoch of the queue, 0 without one.
func (p *Producer) Epoch() uint64 { return p.lane.epoch }

// Generation is that of the timer; it rises with each Start (rule 18).
func (p *Producer) Generation() uint64 { return p.generation }

// Stopped tells whether a terminal failure ended the controller.
func (p *Producer) Stopped() bool { return p.stopped }

// Take returns what is to be done, in order, and forgets it. The slice is
// valid until the next Take.
func (p *Producer) Take() []Effect {
	clear(p.taken)
	p.out, p.taken = p.taken[:0], p.out
	return p.taken
}

func (p *Producer) emit(e Effect) { p.out = append(p.out, e) }

// fail is the one terminal failure of an incarnation (rule 91).
func (p *Producer) fail(stage Stage, err error) {
	p.stopped = true
	p.emit(Effect{Kind: Failed, Session: p.session, Terminal: &Terminal{Stage: stage, Err: err}})
}

// Tick resends what the producer actor has not answered, brings back jobs
// whose backoff is over, and judges leases. A tick of an older incarnation is
// ignored (rule 18).
func (p *Producer) Tick(now time.Duration, generation uint64) {
	if p.stopped || generation != p.generation {
		return
	}
	if late := now - p.lastTick - p.cfg.RetryInterval; late > 0 {
		p.paused += late // B5: our own pause is nobody's silence
	}
	p.lastTick = now
	p.handshakes.each(func(h *handshake) { p.retell(h) })
	p.forgetEnded(now)
	p.forgetDone(now)
	p.settle(now)
	p.leaveBuried()
	for len(p.delayed) > 0 && p.delayed[0].trouble.due <= now {
		p.enqueue(heap.Pop(&p.delayed).(*Job))
	}
	for _, b := range p.slots {
		if b == nil {
			continue
		}
		if p.leaseClock(now)-b.heard > p.cfg.Lease {
			p.end(now, b, ReasonLease)
			continue
		}
		if b.doubted {
			p.probe(b)
		}
		p.expireRecalls(now, b)
	}
	p.pump(now)
}

// leaseClock stands still while the controller itself is kept from running.
func (p *Producer) leaseClock(now time.Duration) time.Duration { return now - p.paused }

// pump gives out what can be given, then asks for more (rules 4, 51).
func (p *Producer) pump(now time.Duration) {
	if p.stopped || p.lane.loading {
		return
	}
	p.dispatch(now)
	if p.stopped {
		return
	}
	p.openCredits()
	p.page()
	p.pumpLane()
	p.considerRecall(now)
}

// dispatch gives the pool's head to the next worker with free demand
// (rules 42-44).
func (p *Producer) dispatch(now time.Duration) {
	p.dispatchSolos(now)
	for p.waiting.length > 0 && !p.paged(p.waiting.head) {
		b := p.choose()
		if b == nil {
			return // rule 43
		}
		if b.dispatched == math.MaxUint64 {
			p.fail(StageProtocol, fmt.Errorf("worker %s: %w", b.reg.Identity, ErrExhausted))
			return
		}
		p.turn = b.slot + 1
		j := p.waiting.popFront()
		p.assign(now, b, j)
		p.recallOlder(now, j.StoreSequence)
	}
}

// choose is the next worker with free demand, in registration order, or, where
// dispatch is packed, the one used last of those that hold nothing.
func (p *Producer) choose() *binding {
	if p.cfg.Packed && p.unused.head != nil {
		return p.unused.head
	}
	if slot, ok := p.eligible.next(p.turn); ok {
		return p.slots[slot]
	}
	return nil
}

// assign gives a job to a binding: recorded before it is sent (rule 44).
func (p *Producer) assign(now time.Duration, b *binding, j *Job) {
	p.place(now, b, j)
	p.index(b)
	p.send(b, j)
}

// place gives a job the next sequence of a binding.
func (p *Producer) place(now time.Duration, b *binding, j *Job) {
	b.dispatched++
	p.tokens++
	b.used = true
	j.state, j.binding, j.sequence, j.token = jobDispatched, b, b.dispatched, p.tokens
	b.jobs.push(j)
	b.held++
	if b.held == 1 {
		b.progressed = now
	}
}

func (p *Producer) send(b *binding, j *Job) {
	p.emit(Effect{
		Kind: Dispatch, Peer: b.peer, Link: &b.link, Session: p.session, Binding: b.id, Sequence: j.sequence,
		Delivery: &Delivery{Sequence: j.sequence, ID: j.ID, Attempt: j.Attempt, Token: j.token, Epoch: p.lane.epoch, Payload: j.Body(), Announce: j.solo},
	})
}

// sets are the bindings by what can be done with them.
type sets struct {
	eligible slotSet // free demand, and holds no more than it should
	vacant   slotSet // free demand, and holds nothing
	idle     slotSet // vacant, and nothing is recalled for it
	fresh    slotSet // holds a buffered job that might be recalled
	stuck    slotSet // holds one behind a job that does not progress
	emptied  slotSet // takes nothing until it is empty, for a suspect
}

// index brings the sum of demand and the sets up to date after b changed.
func (p *Producer) index(b *binding) {
	if b.held == 0 || b.ended {
		p.reserve(b, false)
		b.alone = false
	}
	free := b.free()
	p.demand += free - b.counted
	b.counted = free
	p.eligible.put(b.slot, free > 0 && b.held < b.depth())
	p.vacant.put(b.slot, free > 0 && b.held == 0)
	p.unused.put(b, free > 0 && b.held == 0)
	p.idle.put(b.slot, free > 0 && b.held == 0 && !b.expecting)
	loaded := b.loaded()
	p.fresh.put(b.slot, loaded && !b.stuck)
	p.stuck.put(b.slot, loaded && b.stuck)
	p.emptied.put(b.slot, b.reserved)
}
