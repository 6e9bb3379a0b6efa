package sim

// again is a job that was done when it was submitted, and of which the producer
// may be told once more, or has to be.
type again struct {
	id   string
	must bool
}

// remembersItself tells whether the controller remembers what is done (B9).
func (w *World) remembersItself() bool { return w.opt.Known > 0 && !w.opt.Remembers }

// noteDone notes when a job was done, or given up.
func (w *World) noteDone(j *job) {
	j.doneAt, j.doneIn = w.now, w.session
}

// remembered tells whether the controller knows a job as done (B9).
func (w *World) remembered(j *job) bool {
	return w.remembersItself() && j.doneIn == w.session && w.now-j.doneAt < w.opt.Known
}

// mayTellAgain notes what an acknowledgement may bring: the producer is told again
// of a job that was done, and never of one that was given up.
func (w *World) mayTellAgain(t *token, j *job) {
	over := j.state == jobConfirmed && j.doneIn == w.session
	switch {
	case t.finished:
		if !t.dropped {
			w.toldAgain = append(w.toldAgain, again{j.id, j.state == jobConfirmed && t.life == j.life})
		}
	case w.remembersItself() && over && t.life == j.life:
		w.toldAgain = append(w.toldAgain, again{j.id, false})
	}
}

// toldOnceMore tells whether a confirmation is the repetition of an earlier one.
func (w *World) toldOnceMore(j *job) bool {
	for i, a := range w.toldAgain {
		if a.id == j.id {
			w.Seen[ToldAgain]++
			w.toldAgain = append(w.toldAgain[:i], w.toldAgain[i+1:]...)
			return true
		}
	}
	return false
}

// judgeTold: who submits a job again that is done hears of it (B9).
func (w *World) judgeTold() {
	for _, a := range w.toldAgain {
		if a.must && !w.failed {
			w.fail("a resubmission hears that it is done", "%s was done when it was submitted again, and nobody was told", a.id)
		}
	}
	w.toldAgain = w.toldAgain[:0]
}
