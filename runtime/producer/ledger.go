package producer

import (
	"container/list"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/workpull/operator/runtime/internal/jobpb"
	"github.com/workpull/operator/workpull"
)

// What is remembered of finished jobs, so that a client can ask for them and
// a job that is posted twice runs once: the last maxFinished, for finishedAge.
const (
	maxFinished = 10_000
	finishedAge = time.Hour
)

// phase is how far a job has come with this intake.
type phase uint8

const (
	queued    phase = iota // waits for the endpoint to ask for it
	offered                // handed to the endpoint, not stored yet
	accepted               // stored: a worker will get it
	confirmed              // done
	refused                // the endpoint cannot take it; see record.err
)

// record is one job. It is guarded by its ledger.
type record struct {
	id       string
	phase    phase
	job      *jobpb.Job // until it is accepted
	err      error      // why it is refused
	received time.Time
	accepted time.Time
	finished time.Time

	settled chan struct{} // closed once accepted, confirmed or refused
	waiters int           // requests that wait for settled
	place   *list.Element // in queue while queued, in done once confirmed
}

// view is a copy of what a record says.
type view struct {
	phase                        phase
	err                          error
	received, accepted, finished time.Time
}

var (
	// errFull refuses a job because too many wait.
	errFull = errors.New("too many jobs wait")
	// errAbandoned tells a client that its job was not accepted here.
	errAbandoned = errors.New("another producer took over before the job was accepted")
)

// ledger knows every job of the intake. Its memory is bounded: by the limit on
// waiting jobs, by what workers hold, and by maxFinished.
type ledger struct {
	clock clock.PassiveClock
	limit int // jobs that may wait

	mu       sync.Mutex
	records  map[string]*record
	queue    *list.List // of *record, queued
	offers   map[uint64]*record
	done     *list.List // of *record, confirmed, oldest first
	session  uint64
	answered uint64 // highest token of the session that got a job
	open     int    // queued, offered or accepted
	lost     uint64

	// durable: what was accepted outlives the controller, and its queue may
	// hold jobs of which this ledger has no record.
	durable  bool
	foreign  int // such jobs
	inFlight int // jobs at workers when the endpoint was last asked
	dead     int // dead letters then
}

func newLedger(clock clock.PassiveClock, limit int, durable bool) *ledger {
	return &ledger{
		clock: clock, limit: limit, durable: durable,
		records: map[string]*record{}, queue: list.New(), offers: map[uint64]*record{}, done: list.New(),
	}
}

// submit enters a job, or finds the one with that id. The caller waits for
// settled and then calls leave.
func (l *ledger) submit(id string, job *jobpb.Job) (r *record, known bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	if r, known = l.records[id]; known {
		r.waiters++
		return r, true, nil
	}
	if l.pending() >= l.limit {
		return nil, false, errFull
	}
	r = &record{id: id, job: job, received: l.clock.Now(), settled: make(chan struct{}), waiters: 1}
	r.place = l.queue.PushBack(r)
	l.records[id] = r
	l.open++
	return r, false, nil
}

// leave ends the wait of one request. A job that nobody waits for and that was
// not offered yet is given up: its client was never told that it was taken.
func (l *ledger) leave(r *record) view {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.waiters--
	if r.waiters == 0 && r.phase == queued {
		l.drop(r, errors.New("given up"))
	}
	return r.view()
}

func (l *ledger) drop(r *record, err error) {
	if r.phase == queued {
		l.queue.Remove(r.place)
	}
	r.phase, r.err, r.job, r.place = refused, err, nil, nil
	delete(l.records, r.id)
	l.open--
	close(r.settled)
}

// find returns what is known of a job.
func (l *ledger) find(id string) (view, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	r, ok := l.records[id]
	if !ok {
		return view{}, false
	}
	return r.view(), true
}

func (r *record) view() view {
	return view{phase: r.phase, err: r.err, received: r.received, accepted: r.accepted, finished: r.finished}
}

// full tells whether a new job would be refused now.
func (l *ledger) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending() >= l.limit
}

// pending is how many jobs wait, those among them that a queue had from before.
func (l *ledger) pending() int { return l.open + l.foreign - l.inFlight - l.dead }

// observe notes what the endpoint's controller holds.
func (l *ledger) observe(held workpull.Snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight, l.dead = held.InFlight, held.Dead
	if l.durable {
		// What was just stored may be there already and still on offer here.
		all := held.Waiting + held.Delayed + held.InFlight + held.Dead
		l.foreign = max(0, all-(l.open-l.queue.Len()))
	}
}

// enter begins a session of the endpoint's controller. What was offered and not
// stored is offered again. What the last session had stored is gone with it
// where it was in memory; a durable queue has it still, and is asked about it
// from now on, since the notice that it is done may have been lost with the
// session. It returns how many jobs are lost.
func (l *ledger) enter(session uint64) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == session {
		return 0
	}
	first := l.session == 0
	l.session, l.answered = session, 0
	for token, r := range l.offers {
		delete(l.offers, token)
		r.phase = queued
		r.place = l.queue.PushFront(r)
	}
	if first {
		return 0
	}
	gone := 0
	for _, r := range l.records {
		if r.phase == accepted {
			delete(l.records, r.id)
			l.open--
			gone++
		}
	}
	if l.durable {
		l.foreign += gone
		return 0
	}
	l.lost += uint64(gone)
	return gone
}

// abandon gives up all that is not done, because another producer has the queue.
// Clients that wait are told; what was accepted is the other's now.
func (l *ledger) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		switch r.phase {
		case queued, offered:
			l.drop(r, errAbandoned)
		case accepted:
			delete(l.records, r.id)
			l.open--
		}
	}
	clear(l.offers)
	l.foreign, l.inFlight, l.dead = 0, 0, 0
}

// repeated returns the job that a credit was answered with and that is not
// stored yet. Old tells that the credit had its answer: it must get no other
// (rule 9), and a request for it may cross the answer in the mail.
func (l *ledger) repeated(token uint64) (r *record, old bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offers[token], token <= l.answered
}

// offer takes the next queued job for a credit. Credits come in the order of
// their tokens.
func (l *ledger) offer(token uint64) *record {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.queue.Front()
	if first == nil {
		return nil
	}
	r := l.queue.Remove(first).(*record)
	r.phase, r.place = offered, nil
	l.offers[token] = r
	return r
}

// answer notes that a credit got its job.
func (l *ledger) answer(token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = max(l.answered, token)
}

// refuse takes an offered job back for good.
func (l *ledger) refuse(token uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.offers[token]; ok {
		delete(l.offers, token)
		l.drop(r, err)
	}
}

// accept notes that an offered job is stored. A repeat changes nothing.
func (l *ledger) accept(token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.offers[token]
	if !ok {
		return
	}
	delete(l.offers, token)
	r.phase, r.accepted, r.job = accepted, l.clock.Now(), nil
	close(r.settled)
}

// confirm notes that a job is done. A repeat changes nothing (rule 53).
func (l *ledger) confirm(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.records[id]
	switch {
	case !ok && l.durable: // from before this process, or this session
		r = &record{id: id, settled: make(chan struct{})}
		close(r.settled)
		l.records[id] = r
		l.foreign = max(0, l.foreign-1)
	case !ok || r.phase != accepted:
		return
	default:
		l.open--
	}
	r.phase, r.finished = confirmed, l.clock.Now()
	r.place = l.done.PushBack(r)
	l.inFlight = max(0, l.inFlight-1)
	l.forget()
}

// forget drops finished jobs beyond what is remembered.
func (l *ledger) forget() {
	before := l.clock.Now().Add(-finishedAge)
	for first := l.done.Front(); first != nil; first = l.done.Front() {
		r := first.Value.(*record)
		if l.done.Len() <= maxFinished && r.finished.After(before) {
			return
		}
		l.done.Remove(first)
		delete(l.records, r.id)
	}
}

// unfinished counts jobs that were accepted and are not done.
func (l *ledger) unfinished() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open - l.queue.Len() - len(l.offers)
}

// losses counts jobs that were accepted and then lost by a restart of the
// controller.
func (l *ledger) losses() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}
