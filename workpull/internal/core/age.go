package core

import "time"

// The age of the oldest waiting job (B12) without a time in each of a million
// jobs: marks say which store sequence was accepted when. A mark is made when a
// job is accepted, but no closer to the last than a 64th of the time that the
// oldest has then waited, so that an age is too high by no more than that, or by
// ageStep; by twice that where a very long backlog has thinned them out.

const (
	// ageStep is the least time between two marks.
	ageStep = 10 * time.Millisecond
	// maxMarks bounds them: when there are as many, every second one goes.
	maxMarks = 256
)

// ages are the marks, in ascending order of both.
type ages struct{ marks []mark }

// mark: what has this store sequence or a higher one was accepted no earlier.
type mark struct {
	sequence uint64
	at       time.Duration
}

// note tells that a job was accepted, and which waiting one is the oldest.
func (a *ages) note(now time.Duration, sequence, oldest uint64) {
	for len(a.marks) > 1 && a.marks[1].sequence <= oldest { // nothing that waits needs the first
		a.marks = a.marks[1:]
	}
	last := a.marks[len(a.marks)-1]
	if sequence <= last.sequence || now-last.at < max(ageStep, (now-a.marks[0].at)/64) {
		return
	}
	if len(a.marks) == maxMarks {
		for i := range maxMarks / 2 {
			a.marks[i] = a.marks[2*i]
		}
		a.marks = a.marks[:maxMarks/2]
	}
	a.marks = append(a.marks, mark{sequence: sequence, at: now})
}

// of is about how long ago a store sequence was accepted. It is told too low for
// a job from before the first mark: one that waited for its backoff, came back
// from a worker, or was loaded.
func (a *ages) of(now time.Duration, sequence uint64) time.Duration {
	at := a.marks[0].at
	for _, m := range a.marks {
		if m.sequence > sequence {
			break
		}
		at = m.at
	}
	return now - at
}

// oldest is the lowest store sequence among the jobs that are next, 0 when none
// waits.
func (p *Producer) oldest() uint64 {
	lowest := uint64(0)
	for _, l := range [...]*pool{&p.waiting, &p.loaded, &p.solos} {
		if l.head != nil && (lowest == 0 || l.head.StoreSequence < lowest) {
			lowest = l.head.StoreSequence
		}
	}
	return lowest
}
