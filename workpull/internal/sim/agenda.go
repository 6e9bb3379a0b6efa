package sim

import (
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

type eventKind uint8

// Events. Those that carry a message have it in event.message.
const (
	arriveAtProducer eventKind = iota
	arriveAtWorker
	tickProducer
	tickWorker
	produced
	storedAck
	verified
	probed
	sendFailed
	peerLost
	terminated
	recallDue
	resolved
	producerStopped
	flush
	finish
	lookAtDead
	answered
	reachQueue
	respawn
	strike
	release
	restart
	endGhost
)

// Parties of events besides the workers, which are numbered from zero.
const (
	producerParty int32 = -1
	nobody        int32 = -2 // the world itself; never stands still
)

// event is what happens at one moment to one party.
type event struct {
	at      time.Duration
	order   uint64
	arg     uint64
	message *message
	party   int32
	kind    eventKind
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// agenda is a heap of events, the next one on top. It holds values and keeps
// its room, so that it allocates nothing once it has grown.
type agenda []event

func (a *agenda) push(e event) {
	q := append(*a, e)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&q[up]) {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = e
	*a = q
}

func (a *agenda) pop() event {
	q := *a
	top, last := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	*a = q
	if len(q) == 0 {
		return top
	}
	i := 0
	for {
		least := 4*i + 1
		if least >= len(q) {
			break
		}
		for c := least + 1; c < min(4*i+5, len(q)); c++ {
			if q[c].before(&q[least]) {
				least = c
			}
		}
		if !q[least].before(&last) {
			break
		}
		q[i] = q[least]
		i = least
	}
	q[i] = last
	return top
}

// message is what travels between the controllers, or comes back to one of
// them later. A duplicate is the same value under way twice.
type message struct {
	kind    core.Kind // the effect that it carries out
	copies  int       // under way
	from    core.Peer
	to      int32  // address of the worker it goes to
	place   uint32 // generation of the producer's address it goes to
	session uint64
	binding uint64
	number  uint64 // a control number, sequence or token, as the kind has it
	nonce   uint64
	retired bool
	epoch   uint64
	adopted *core.HeldAttempt
	ok      bool
	result  core.ProbeResult
	id      string
	reg     core.Registration
	control *core.Control
	jobs    []*core.Delivery
}

// mail returns an empty message.
func (w *World) mail(kind core.Kind) *message {
	n := len(w.spare)
	if n == 0 {
		return &message{kind: kind}
	}
	m := w.spare[n-1]
	w.spare = w.spare[:n-1]
	*m = message{kind: kind, jobs: m.jobs[:0]}
	return m
}

// over takes one copy of a message back.
func (w *World) over(m *message) {
	if m == nil {
		return
	}
	if m.copies--; m.copies <= 0 {
		w.spare = append(w.spare, m)
	}
}

// at puts an event on the agenda.
func (w *World) at(delay time.Duration, kind eventKind, party int32, arg uint64, m *message) {
	w.order++
	if m != nil {
		m.copies++
	}
	w.agenda.push(event{at: w.now + delay, order: w.order, kind: kind, party: party, arg: arg, message: m})
}
