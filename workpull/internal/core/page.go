package core

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Paging (B11): of a long backlog the controller holds identities, and the
// queue the payloads. Those of the first jobs are there or on their way, so
// that dispatch does not wait for the queue.

const (
	// pageBytes is about how much is asked for at once, and twice that, beside
	// what was given out, is how much of the pool is held in memory, and of what
	// waits for its backoff.
	pageBytes = 4 << 20
	// maxPage bounds the payloads that are asked for at once.
	maxPage = 1024
	// guessedSize of a payload before any was seen, in bytes.
	guessedSize = 64 << 10
)

// paging is what is under way to the queue for payloads.
type paging struct {
	wanted []*Job // in the order in which they are asked for
	asked  []*Job
	number uint64 // of the operation under way, 0 is none
	mean   int    // size of a payload, in bytes
}

// paged tells that a job's payload is left with the queue.
func (p *Producer) paged(j *Job) bool { return p.cfg.Pages && j.Payload == nil }

// pageSize is how many payloads make up a page.
func (p *Producer) pageSize() int {
	return max(1, min(maxPage, p.cfg.PageBytes/cmp.Or(p.paging.mean, guessedSize)))
}

// weigh takes the size of a payload into the mean.
func (p *Producer) weigh(payload *Payload) {
	mean := cmp.Or(p.paging.mean, guessedSize)
	p.paging.mean = max(1, mean+(len(payload.TypeURL)+len(payload.Value)-mean)/16)
}

// leave leaves the payload of a job with the queue if enough are held before
// it.
func (p *Producer) leave(l *pool, j *Job) {
	if p.cfg.Pages && (l.rest != nil || l.covered >= 2*p.pageSize()) {
		j.Payload = nil
	}
}

// leaveBuried leaves the payloads of dead letters with the queue, once whoever
// was told of them has had the time to look.
func (p *Producer) leaveBuried() {
	for _, j := range p.buried {
		if j.state == jobDead {
			j.Payload = nil
		}
	}
	p.buried = nil
}

// page sees to it that the payloads of the first jobs are there.
func (p *Producer) page() {
	if !p.cfg.Pages {
		return
	}
	n := p.pageSize()
	for _, l := range [...]*pool{&p.solos, &p.waiting} {
		if l.covered > n {
			continue
		}
		for l.rest != nil && l.covered < 2*n {
			if j := l.cover(); p.paged(j) {
				p.want(j)
			}
		}
	}
	p.fetch(n)
}

// want asks for a job's payload with the next page.
func (p *Producer) want(j *Job) {
	if !j.fetching {
		j.fetching = true
		p.paging.wanted = append(p.paging.wanted, j)
	}
}

// fetch asks for the next page when none is under way.
func (p *Producer) fetch(n int) {
	g := &p.paging
	if g.number != 0 || len(g.wanted) == 0 || p.stopped {
		return
	}
	g.asked, g.wanted = split(g.wanted, n)
	p.lane.last++
	g.number = p.lane.last
	ids := make([]string, len(g.asked))
	for i, j := range g.asked {
		ids[i] = j.ID
	}
	p.emit(Effect{Kind: Fetch, Session: p.session, Operation: &QueueOperation{Number: g.number, Epoch: p.lane.epoch, Fetches: ids}})
}

// Fetched answers Fetch with the payloads in its order. A stale answer changes
// nothing (rules 57, 63). An error is that of Committed; fresh is a random
// session for it.
func (p *Producer) Fetched(now time.Duration, session, number uint64, payloads []Payload, err error, fresh uint64) {
	g := &p.paging
	if p.stopped || session != p.session || g.number == 0 || number != g.number {
		return
	}
	if err == nil && len(payloads) != len(g.asked) {
		err = fmt.Errorf("%d payloads of %d jobs: %w", len(payloads), len(g.asked), ErrQueueConflict)
	}
	if errors.Is(err, ErrQueueFenced) || errors.Is(err, ErrQueueConflict) { // rule 61
		p.fail(StageLoad, err)
		return
	}
	if err != nil {
		p.reset(now, fresh)
		return
	}
	asked := g.asked
	g.asked, g.number = nil, 0
	for i, j := range asked {
		j.fetching = false
		p.weigh(&payloads[i])
		if j.state == jobConfirming { // while it was on its way
			p.lane.confirms = append(p.lane.confirms, j)
			continue
		}
		if p.paged(j) {
			payload := payloads[i] // not a whole page for one that is left of it
			j.Payload = &payload
		}
	}
	p.pump(now)
}
