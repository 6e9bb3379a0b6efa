package core

import (
	"fmt"
	"time"
)

// ConsumerConfig is the configuration of a consumer controller.
type ConsumerConfig struct {
	// Producer is the name of the producer endpoint to follow.
	Producer string
	// Endpoint is the name of the worker endpoint, Identity what tells it
	// from all others (rule 27), Incarnation what tells this start of its
	// controller from earlier ones, Host the host:port of its actor system.
	Endpoint, Identity, Incarnation, Host string
	// Actor is the address of the worker actor; confirmations from anybody
	// else are dropped (rule 81).
	Actor Peer
	// Window is the demand granted and the capacity of the buffer, in jobs,
	// 1 to MaxWindow.
	Window int
	// ResendInterval is the tick: the cadence of registrations while there is
	// silence, and the least time between two requests for a gap.
	ResendInterval time.Duration
	// FirstNonce is where the nonces of this incarnation begin: at random, so
	// that an answer to an earlier incarnation at the same address is not
	// taken for one to this (rule 75).
	FirstNonce uint64
}

// silentTicks is how many silent ticks in a row a worker still counts as
// registered; a registration answers within one.
const silentTicks = 3

// heartbeatsPerLease is how many signs of life a lease spans. A quiet worker
// registers at every second tick, hence the tick is half as long again.
const heartbeatsPerLease = 3

// Consumer is the consumer controller of one worker endpoint.
type Consumer struct {
	cfg        ConsumerConfig
	out, taken []Effect

	producer  Peer // where it was resolved
	resolving bool
	nonce     uint64
	answered  bool   // the registration of that nonce was
	session   uint64 // 0 while there is no binding
	binding   uint64
	lease     time.Duration

	heard, spoke bool // since the last tick
	silent       int  // silent ticks in a row

	control    uint64
	confirmed  uint64 // every sequence up to here is done
	reported   uint64 // confirmed and, in begun, started, as last sent
	begun      uint64
	requested  uint64      // granted demand
	topUpAt    uint64      // confirmed at the last request
	highest    uint64      // highest sequence received
	buffer     []*Delivery // by sequence, modulo its length
	buffered   int
	running    *running
	skips      map[uint64]struct{} // sequences above confirmed with nothing to do
	exceptions []exception
	flushing   bool
	lastAsk    time.Duration
	asked      bool

	epoch    uint64                // of the producer, and when that was heard last
	epochAt  time.Duration         //
	outcomes [lastOutcomes]outcome // of the last attempts (B15)
	noted    int

	retiredBy uint64 // session that said last that this worker is retired (B13)
	draining  bool
	drainSent uint64 // control number of the last Drain
	drained   bool
}

// running is the one delivery that the worker actor has (rule 80). It is stale
// when the binding it came through is over: its outcome counts for nothing,
// but the worker is busy until it is there.
type running struct {
	session, binding uint64
	delivery         *Delivery
	sequence         uint64 // in the present binding
	stale            bool
	announced        uint64 // control number that announced it, until that is acknowledged: the worker does not have it yet
}

type exception struct {
	Exception
	control uint64 // first control message that carried it, 0 before
}

// NewConsumer returns a consumer controller that waits for Start (rule 73).
func NewConsumer(cfg ConsumerConfig) (*Consumer, error) {
	switch {
	case cfg.Producer == "":
		return nil, fmt.Errorf("producer name: is empty, wanted the name of a producer endpoint")
	case cfg.Identity == "" || cfg.Incarnation == "":
		return nil, fmt.Errorf("worker identity %q, incarnation %q: wanted both", cfg.Identity, cfg.Incarnation)
	case cfg.Actor == "":
		return nil, fmt.Errorf("worker actor: no address, wanted a live local actor")
	case cfg.Window < 1 || cfg.Window > MaxWindow:
		return nil, fmt.Errorf("flow-control window: is %d, wanted 1 to %d", cfg.Window, MaxWindow)
	case cfg.ResendInterval <= 0:
		return nil, fmt.Errorf("resend interval: is %v, wanted more than zero", cfg.ResendInterval)
	}
	return &Consumer{cfg: cfg, nonce: cfg.FirstNonce, buffer: make([]*Delivery, cfg.Window), skips: map[uint64]struct{}{}}, nil
}

// Start begins to look for the producer (rule 74).
func (c *Consumer) Start(time.Duration) { c.resolve() }

// Take returns what is to be done, in order, and forgets it. The slice is
// valid until the next Take.
func (c *Consumer) Take() []Effect {
	clear(c.taken)
	c.out, c.taken = c.taken[:0], c.out
	return c.taken
}

func (c *Consumer) emit(e Effect) { c.out = append(c.out, e) }

// Interval is how often Tick is wanted. The lease shortens it, so that a quiet
// worker is heard three times within it (B5).
func (c *Consumer) Interval() time.Duration {
	if c.lease == 0 {
		return c.cfg.ResendInterval
	}
	return min(c.cfg.ResendInterval, max(time.Millisecond, c.lease/(2*heartbeatsPerLease)))
}

func (c *Consumer) resolve() {
	if c.resolving {
		return
	}
	c.resolving = true
	c.emit(Effect{Kind: Resolve})
}

// Resolved answers a Resolve with the address of the producer's controller, or
// with nobody. Every registration has a nonce of its own (rule 74).
func (c *Consumer) Resolved(_ time.Duration, producer Peer) {
	c.resolving = false
	if producer == "" {
		return
	}
	c.producer = producer
	c.nonce++
	c.answered = false
	c.spoke = true
	c.emit(Effect{Kind: SendRegister, Peer: producer, Registration: &Registration{
		Producer: c.cfg.Producer, Endpoint: c.cfg.Endpoint, Identity: c.cfg.Identity,
		Incarnation: c.cfg.Incarnation, Host: c.cfg.Host, Nonce: c.nonce, Draining: c.draining, RetiredBy: c.retiredBy, Held: c.held(),
	}})
}

// RegisterAck is the producer's answer, taken only from where the producer was
// resolved and only for the latest registration (rule 75). A new session or
// binding begins afresh; the same one goes on where it was (rule 76).
func (c *Consumer) RegisterAck(now time.Duration, from Peer, session, binding uint64, g Grant) {
	if from != c.producer || g.Nonce != c.nonce || session == 0 || binding == 0 || c.older(now, g.Epoch) {
		return
	}
	if session != c.session || binding != c.binding {
		if c.answered { // by two sessions, of which a copy reached the later one: it is not known which that is
			return
		}
		c.forget()
		c.session, c.binding = session, binding
		c.confirmed, c.reported, c.requested, c.highest, c.topUpAt = g.Confirmed, g.Confirmed, g.Confirmed, g.Confirmed, g.Confirmed
		if g.Adopted != nil {
			c.goOn(g.Adopted)
		}
	}
	c.answered = true
	if g.Epoch > 0 { // else the producer has no queue, or has not loaded it yet
		c.epoch = g.Epoch
	}
	c.hear(now)
	c.lease, c.retiredBy = g.Lease, 0
	if g.Retired {
		c.retiredBy = session
	}
	if c.draining {
		c.sendDrain()
		return
	}
	c.request(now, true)
}

// forget drops everything that belongs to the binding that was. Control numbers
// go on: it may come back to that binding, from that of a controller which was
// replaced.
func (c *Consumer) forget() {
	clear(c.buffer)
	clear(c.skips)
	c.session, c.binding, c.begun, c.buffered, c.exceptions = 0, 0, 0, 0, nil
	switch {
	case c.running == nil:
	case c.running.announced != 0:
		c.running = nil
	default:
		c.running.stale = true
	}
}

// hear notes a sign of life of the producer.
func (c *Consumer) hear(now time.Duration) { c.heard, c.silent, c.epochAt = true, 0, now }

func (c *Consumer) current(from Peer, session, binding uint64) bool {
	return c.session != 0 && from == c.producer && session == c.session && binding == c.binding
}

// expected is the next sequence to hand to the worker.
func (c *Consumer) expected() uint64 {
	if c.holds() {
		return c.confirmed + 2
	}
	return c.confirmed + 1
}

// holds tells whether the worker runs a delivery of the present binding.
func (c *Consumer) holds() bool { return c.running != nil && !c.running.stale }

// Batch brings jobs of the binding, which nobody changes any more (rules 77,
// 78).
func (c *Consumer) Batch(now time.Duration, from Peer, session, binding uint64, jobs []*Delivery) {
	if !c.current(from, session, binding) {
		return
	}
	c.hear(now)
	if c.draining {
		return // handed back already
	}
	repeat := false
	for _, d := range jobs {
		switch {
		case d.Sequence > c.requested: // outside the grant
		case d.Sequence <= c.confirmed:
			repeat = true
		case d.Sequence < c.expected(): // equal to the one in flight
		case d.Skip:
			c.skip(d.Sequence)
		default:
			c.keep(d)
		}
	}
	if repeat {
		c.ack()
	}
	c.deliver()
	if c.gap() {
		c.askForGap(now)
	}
	c.setFlush()
}

func (c *Consumer) keep(d *Delivery) {
	if _, skipped := c.skips[d.Sequence]; skipped { // recalled before it came
		return
	}
	place := c.place(d.Sequence)
	if *place != nil && (*place).Sequence == d.Sequence {
		return
	}
	*place = d
	c.buffered++
	c.highest = max(c.highest, d.Sequence)
}

func (c *Consumer) place(sequence uint64) **Delivery {
	return &c.buffer[sequence%uint64(len(c.buffer))]
}

// unbuffer takes a sequence out of the buffer; nil is none.
func (c *Consumer) unbuffer(sequence uint64) *Delivery {
	place := c.place(sequence)
	d := *place
	if d == nil || d.Sequence != sequence {
		return nil
	}
	*place = nil
	c.buffered--
	return d
}

// deliver hands the next job to the worker when it is idle and the job is
// there.
func (c *Consumer) deliver() {
	if c.running != nil || c.buffered == 0 {
		return
	}
	d := c.unbuffer(c.confirmed + 1)
	if d == nil {
		return
	}
	c.running = &running{session: c.session, binding: c.binding, delivery: d, sequence: d.Sequence}
	if d.Announce {
		c.announce()
		return
	}
	c.tell()
}

func (c *Consumer) tell() {
	r := c.running
	c.emit(Effect{Kind: Deliver, Session: r.session, Binding: r.binding, Sequence: r.delivery.Sequence, Delivery: r.delivery})
}

// skip leaves a tombstone: there is nothing to do under this sequence, though
// it may still arrive.
func (c *Consumer) skip(sequence uint64) {
	c.unbuffer(sequence)
	c.skips[sequence] = struct{}{}
	c.highest = max(c.highest, sequence)
	if !c.holds() {
		c.advance(c.confirmed)
	}
}

// advance moves the confirmed sequences up, over tombstones too.
func (c *Consumer) advance(to uint64) {
	c.confirmed = to
	for len(c.skips) > 0 {
		if _, ok := c.skips[c.confirmed+1]; !ok {
			return
		}
		c.confirmed++
		delete(c.skips, c.confirmed)
	}
}

// Recall gives back a job that has not started; what has is kept. Either way
// the producer hears at once (B4).
func (c *Consumer) Recall(now time.Duration, from Peer, session, binding, sequence uint64) {
	if !c.current(from, session, binding) {
		return
	}
	c.hear(now)
	_, skipped := c.skips[sequence]
	if !c.draining && !skipped && sequence >= c.expected() && sequence <= c.requested {
		c.exceptions = append(c.exceptions, exception{Exception: Exception{Sequence: sequence, Kind: Recalled}})
		c.skip(sequence)
		c.deliver() // the one recalled may be all that the next one waited for
	}
	c.ack()
}

// gap tells whether a sequence is missing below the highest received.
func (c *Consumer) gap() bool {
	return c.highest >= c.expected() && uint64(c.buffered+len(c.skips)) < c.highest-c.expected()+1
}

// askForGap asks at most once per interval (rule 79).
func (c *Consumer) askForGap(now time.Duration) {
	if c.asked && now-c.lastAsk < c.cfg.ResendInterval {
		return
	}
	c.request(now, true)
}

// Confirmed is the worker's confirmation. One that does not match the delivery
// in flight is dropped (rule 81).
func (c *Consumer) Confirmed(now time.Duration, from Peer, session, binding, sequence uint64, id string) {
	c.finish(now, from, session, binding, sequence, id, nil)
}

// Rejected tells that the worker did not do the job, or that it could not be
// decoded (rule 85); the producer gives it out again later.
func (c *Consumer) Rejected(now time.Duration, from Peer, session, binding, sequence uint64, id, reason string) {
	c.finish(now, from, session, binding, sequence, id, &reason)
}

func (c *Consumer) finish(now time.Duration, from Peer, session, binding, sequence uint64, id string, rejected *string) {
	r := c.running
	if from != c.cfg.Actor || r == nil || r.announced != 0 || r.session != session || r.binding != binding ||
		r.delivery.Sequence != sequence || r.delivery.ID != id {
		return
	}
	c.running = nil
	c.note(r.delivery, rejected)
	if !r.stale {
		c.advance(r.sequence)
		if rejected != nil {
			c.exceptions = append(c.exceptions, exception{Exception: Exception{Sequence: r.sequence, Kind: Rejected, Reason: *rejected}})
		}
	} else if rejected == nil && c.producer != "" { // B6
		c.emit(Effect{Kind: SendLate, Peer: c.producer, Session: r.session, Delivery: r.delivery})
	}
	if c.draining {
		c.afterDrainStep()
		return
	}
	c.deliver()
	if !r.stale {
		c.report(now, rejected != nil)
	}
}

// report tells the producer of a confirmation, in company where it can: with a
// request once half the window is used up, at once when nothing is left to do,
// else within FlushDelay (rules 79, 82, 83).
func (c *Consumer) report(now time.Duration, urgent bool) {
	switch {
	case c.running == nil && c.gap():
		c.request(now, true)
	case 2*(c.confirmed-c.topUpAt) >= uint64(c.cfg.Window):
		c.request(now, false)
	case urgent || c.running == nil:
		c.ack()
	}
	c.setFlush()
}

// setFlush sees to it that the producer knows within FlushDelay what is done
// and what has started (rule 83, B3).
func (c *Consumer) setFlush() {
	if !c.flushing && c.unreported() {
		c.flushing = true
		c.emit(Effect{Kind: SetFlush})
	}
}

func (c *Consumer) unreported() bool {
	return c.session != 0 && (c.reported < c.confirmed || c.begun < c.expected()-1)
}

// Flush sends what waited for company.
func (c *Consumer) Flush(time.Duration) {
	c.flushing = false
	if c.unreported() {
		c.ack()
	}
}

// Tick does one thing: register when there was silence, repeat a farewell that
// was not acknowledged, ask for a gap, or give a sign of life (rule 84).
func (c *Consumer) Tick(now time.Duration) {
	heard, spoke := c.heard, c.spoke
	c.heard, c.spoke = false, false
	if !heard || c.session == 0 {
		c.silent = min(c.silent+1, silentTicks)
		c.resolve()
		return
	}
	switch {
	case c.draining && !c.drained:
		c.sendDrain()
	case c.running != nil && c.running.announced != 0:
		c.announce()
	case c.gap():
		c.askForGap(now)
	case len(c.exceptions) > 0 || !spoke:
		c.ack()
	}
}

// HandlerRestarted tells that the worker actor was restarted: the delivery it
// had is told again. This is the only way that a worker is told twice (B2).
func (c *Consumer) HandlerRestarted(time.Duration) {
	switch {
	case c.running == nil || c.running.announced != 0:
	case !c.running.stale:
		c.tell()
	default:
		c.running = nil
		if c.draining {
			c.afterDrainStep()
			return
		}
		c.deliver()
	}
}

// ProducerStopped tells that the watched producer controller on this node
// ended. The ticks go on and find its successor (rule 86).
func (c *Consumer) ProducerStopped(_ time.Duration, peer Peer) {
	if peer != c.producer {
		return
	}
	c.forget()
	c.confirmed, c.reported, c.requested, c.highest, c.topUpAt = 0, 0, 0, 0, 0
	c.silent = silentTicks
}

// ConsumerStatus is the state of a consumer controller at one moment.
type ConsumerStatus struct {
	// Registered: it has a binding and the producer answered of late.
	Registered, Draining bool
	Session, Binding     uint64
	// InFlightID is the MessageID of the job that runs, if one does.
	InFlightID string
	// Buffered counts the jobs that wait behind it.
	Buffered int
	// Confirmed is the highest sequence of the binding that is done.
	Confirmed uint64
}

// Status tells what the controller holds.
func (c *Consumer) Status() ConsumerStatus {
	s := ConsumerStatus{
		Registered: c.session != 0 && c.silent < silentTicks, Draining: c.draining,
		Session: c.session, Binding: c.binding, Buffered: c.buffered, Confirmed: c.confirmed,
	}
	if c.running != nil {
		s.InFlightID = c.running.delivery.ID
	}
	return s
}
