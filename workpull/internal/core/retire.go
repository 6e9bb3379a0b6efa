package core

import "time"

// Retirement is what the controller knows of a worker that it was told to
// retire (B13).
type Retirement struct {
	// Session of the producer that answers: a new one may know less.
	Session uint64
	// Known tells whether the worker has a binding. One that has none may hold
	// anything: it is unknown, not empty.
	Known bool
	// Held counts the jobs that the worker may hold: what was dispatched and
	// is neither confirmed nor back. What is on its way to it is among them.
	Held int
}

// Retire gives a worker nothing from here on, through every binding that it
// may have, until Release. It takes nothing away: what the worker holds it may
// finish.
func (p *Producer) Retire(identity string) Retirement {
	p.retired[identity] = true
	b := p.byIdentity[identity]
	if b == nil {
		return Retirement{Session: p.session}
	}
	b.retired = true
	p.index(b)
	return Retirement{Session: p.session, Known: true, Held: b.held}
}

// Release ends the retirement of a worker.
func (p *Producer) Release(now time.Duration, identity string) {
	delete(p.retired, identity)
	if b := p.byIdentity[identity]; b != nil {
		b.retired = false
		p.index(b)
		p.pump(now)
	}
}
