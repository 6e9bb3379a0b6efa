package core

import (
	"math"
	"time"
)

// handshake is one credit on its way: granted → Stored told → done (rule 3).
type handshake struct {
	token uint64
	state handshakeState
	id    string // once answered
	job   *Job   // once stored
	// payload is the controller's snapshot, until the queue has it.
	payload Payload
}

// answer completes the store.
func (h *handshake) answer(job *Job) { h.state, h.job, h.payload = stored, job, Payload{} }

type handshakeState uint8

const (
	granted   handshakeState = iota
	storing                  // the queue has not answered
	stored                   // told Stored
	accepting                // acknowledged, the queue has not answered
	done
)

// handshakes holds the open credits in token order. Tokens are contiguous, so
// one is found by its distance from the first; those that are done leave as
// soon as all before them are.
type handshakes struct {
	first uint64 // token of list[0]
	list  []handshake
	open  int
}

// last is the highest token ever granted.
func (h *handshakes) last() uint64 { return h.first + uint64(len(h.list)) - 1 }

func (h *handshakes) grant() *handshake {
	if h.first == 0 {
		h.first = 1
	}
	h.list = append(h.list, handshake{token: h.last() + 1})
	h.open++
	return &h.list[len(h.list)-1]
}

// find returns the handshake of a token that was granted, and nil when it is
// completed and forgotten.
func (h *handshakes) find(token uint64) *handshake {
	if token < h.first {
		return nil
	}
	return &h.list[token-h.first]
}

func (h *handshakes) wasGranted(token uint64) bool {
	return token > 0 && h.first > 0 && token <= h.last()
}

func (h *handshakes) complete(at *handshake) {
	at.state, at.id, at.job = done, "", nil
	h.open--
	n := 0
	for n < len(h.list) && h.list[n].state == done {
		n++
	}
	if n == 0 {
		return
	}
	h.first += uint64(n)
	h.list = h.list[:copy(h.list, h.list[n:])]
}

func (h *handshakes) each(f func(*handshake)) {
	for i := range h.list {
		if h.list[i].state != done {
			f(&h.list[i])
		}
	}
}

// openCredits asks the producer actor for jobs while the pool and the credits
// that are out stay below the demand and the store-ahead (rule 4, B7, B8).
// Jobs that wait for their backoff use up store-ahead: they take memory too.
func (p *Producer) openCredits() {
	ahead := max(0, p.cfg.StoreAhead-len(p.delayed))
	for p.handshakes.open < p.cfg.Credits && p.waiting.length+p.loaded.length+p.solos.length+p.handshakes.open < p.demand+ahead {
		p.retell(p.handshakes.grant())
	}
}

// retell tells the producer actor once more what it has not answered
// (rules 5, 14, 17).
func (p *Producer) retell(h *handshake) {
	switch h.state {
	case granted:
		p.emit(Effect{Kind: RequestNext, Session: p.session, Token: h.token})
	case stored:
		p.emit(Effect{Kind: Stored, Session: p.session, Token: h.token, Job: h.job})
	}
}

// Produced is the producer actor's answer to a RequestNext. Payload is a
// snapshot that nobody changes any more (rule 10).
func (p *Producer) Produced(now time.Duration, from Peer, session, token uint64, id string, payload Payload) {
	if p.stopped || from != p.cfg.Actor || session != p.session { // rule 6
		return
	}
	if !p.handshakes.wasGranted(token) { // rule 9
		p.fail(StageProtocol, violation("Produced %q carries token %d, which was never granted", id, token))
		return
	}
	h := p.handshakes.find(token)
	switch {
	case h == nil || h.state == done: // rule 8
		return
	case h.state != granted && h.id != id: // rule 9
		p.fail(StageProtocol, violation("token %d was answered with %q before and with %q now", token, h.id, id))
		return
	case h.state != granted: // rule 7
		return
	}
	h.id = id
	job, known := p.jobs[id]
	if !known {
		job, known = p.recollect(now, id)
	}
	if !known && p.lane.durable {
		h.state, h.payload = storing, payload
		p.lane.stores = append(p.lane.stores, token)
		p.pumpLane()
		return
	}
	if !known {
		if p.cursor == math.MaxUint64 { // rule 19
			p.fail(StageProtocol, ErrExhausted)
			return
		}
		p.cursor++
		job = &Job{ID: id, StoreSequence: p.cursor, Attempt: 1, Payload: &payload}
		p.jobs[id] = job
	}
	h.answer(job)
	p.retell(h)
}

// StoredAck completes a handshake: the job is accepted and joins the pool
// unless it is in it, or at a worker, already (rule 16).
func (p *Producer) StoredAck(now time.Duration, from Peer, session, token uint64) {
	if p.stopped || from != p.cfg.Actor || session != p.session { // rule 15
		return
	}
	if !p.handshakes.wasGranted(token) {
		p.fail(StageProtocol, violation("StoredAck carries token %d, which was never granted", token))
		return
	}
	h := p.handshakes.find(token)
	if h == nil || h.state == done { // a duplicate
		return
	}
	switch {
	case h.state == granted || h.state == storing:
		p.fail(StageProtocol, violation("StoredAck for token %d came before Stored", token))
		return
	case h.state == accepting: // a duplicate
		return
	case p.lane.durable:
		p.accept(now, h)
	default:
		job := h.job
		p.handshakes.complete(h)
		p.admit(now, job)
		p.repeat(job)
	}
	p.pump(now)
}
