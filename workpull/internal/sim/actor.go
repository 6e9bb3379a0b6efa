package sim

import (
	"strconv"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// answer is the producer actor: it has one answer for each token, and none
// before there is a job.
func (w *World) answer(session, number uint64) {
	switch {
	case int(number) == len(w.tokens)+1:
		w.tokens = append(w.tokens, token{job: -1})
	case int(number) > len(w.tokens):
		w.fail("tokens are contiguous", "token %d was granted after %d", number, len(w.tokens))
		return
	}
	t := &w.tokens[number-1]
	if t.job < 0 && !w.choose(t, number) {
		return
	}
	if t.due > w.now && !t.produced { // the answer is on its way
		return
	}
	d, k := w.roll(placeActor)
	m := w.mail(core.RequestNext)
	m.session, m.number = session, number
	w.at(0, produced, producerParty, 0, m)
	if w.strikes(&d, k, RepeatedAnswer) {
		w.at(d.upTo(time.Second), produced, producerParty, 0, m)
	}
}

// choose finds the job that answers a token.
func (w *World) choose(t *token, number uint64) bool {
	d, k := w.roll(placeActor)
	fate, ok := w.fate(&d, k, LateAnswer, Resubmission)
	switch {
	case ok && fate == Resubmission && w.submitted > 0:
		w.struck(k, fate)
		t.job = int32(d.below(uint64(w.submitted)))
		if s := w.jobs[t.job].state; w.queue == nil && (s == jobConfirmed || s == jobDropped) && !w.remembered(&w.jobs[t.job]) {
			w.undone++
			w.jobs[t.job].state = jobOut
		}
	case len(w.again) > 0:
		t.job = w.again[0]
		w.again = w.again[1:]
	case w.submitted < w.opt.Jobs:
		t.job = w.newJob()
		t.due = w.opt.Faulty * time.Duration(int(t.job)/w.opt.Burst*w.opt.Burst) / time.Duration(w.opt.Jobs)
	default:
		return false
	}
	if ok && fate == LateAnswer {
		w.struck(k, fate)
		t.due = max(t.due, w.now) + d.between(retryInterval, 6*retryInterval)
	}
	if t.due > w.now {
		m := w.mail(core.RequestNext)
		m.session, m.number = w.session, number
		w.at(t.due-w.now, produced, producerParty, 0, m)
	}
	return true
}

func (w *World) newJob() int32 {
	n := w.submitted
	w.submitted++
	w.undone++
	id := jobNames(n)
	w.jobs = append(w.jobs, job{id: id, payload: []byte(id)})
	return int32(n)
}

func (w *World) produced(session uint64, number uint32) {
	if session != w.session {
		w.core.Produced(w.now, "actor", session, uint64(number), "stale", core.Payload{})
		return
	}
	t := &w.tokens[number-1]
	j := &w.jobs[t.job]
	if !t.produced {
		t.produced = true
		t.remembered = w.remembered(j)
		if w.queue != nil {
			w.noteProduced(j)
		} else if t.remembered && (j.state == jobConfirmed || j.state == jobDropped) {
			w.Seen[ResubmittedDone]++
			t.finished, t.dropped = true, j.state == jobDropped
		} else if j.state != jobStored && j.state != jobHeld && j.state != jobDead {
			if j.state != jobOut { // a resubmission that was chosen while it was held
				w.undone++
			}
			j.begin(jobStored)
		}
		t.life = j.life
	}
	if w.tracing {
		w.say("actor: Produced %s for token %d", j.id, number)
	}
	w.core.Produced(w.now, "actor", session, uint64(number), j.id, core.Payload{TypeURL: "job", Value: j.payload})
}

// acknowledge is what the actor does on Stored.
func (w *World) acknowledge(e *core.Effect) {
	if w.queue != nil {
		w.judgeStored(e)
	}
	d, k := w.roll(placeActor)
	fate, ok := w.fate(&d, k, LateAnswer, RepeatedAnswer)
	m := w.mail(core.Stored)
	m.session, m.number = e.Session, e.Token
	after := time.Duration(0)
	if ok {
		w.struck(k, fate)
		if fate == LateAnswer {
			after = d.between(retryInterval, 4*retryInterval)
		} else {
			w.at(d.upTo(time.Second), storedAck, producerParty, 0, m)
		}
	}
	w.at(after, storedAck, producerParty, 0, m)
}

func (w *World) storedAck(session uint64, number uint32) {
	if session == w.session {
		t := &w.tokens[number-1]
		j := &w.jobs[t.job]
		if w.queue != nil {
			w.noteAck(t, j)
		} else if !t.acked && t.life == j.life && j.state != jobStored {
			w.mayTellAgain(t, j)
		} else if !t.acked && j.state == jobStored && t.life == j.life { // rule 16
			j.state = jobHeld
			w.accepted++
		}
		t.acked = true
	}
	w.core.StoredAck(w.now, "actor", session, uint64(number))
	w.settleProducer()
	w.judgeTold()
}

// lookAtDead is the operator, who gives a dead letter another chance, or gives
// it up.
func (w *World) lookAtDead(n int32) {
	j := &w.jobs[n]
	if w.away() {
		return // it is back by the time that somebody looks again
	}
	dead := j.state == jobDead && !j.completing
	d, _ := w.roll(placeDead)
	if d.below(4) == 0 {
		if w.core.Drop(w.now, j.id) != dead {
			w.fail("dead letters", "dropping %s: told %v, it is dead: %v", j.id, !dead, dead)
		}
		if dead {
			w.Seen[Dropped]++
			j.state = jobDropped
			w.undone--
			switch {
			case w.queue == nil:
				w.noteDone(j)
			case w.opt.Keeps: // the queue has to know first that it was given up
				j.completing = true
			default:
				w.noteCompleted(n)
			}
		}
		return
	}
	if w.core.Redrive(w.now, j.id) != dead {
		w.fail("dead letters", "redriving %s: told %v, it is dead: %v", j.id, !dead, dead)
	}
	if dead {
		w.Seen[Redriven]++
		j.state, j.attempt = jobHeld, 1
		if !w.opt.Keeps { // else the attempts may come back, if the queue does not hear of this
			j.starts, j.announced = 0, 0
		}
	}
}

// lookSoon lets the operator look at a dead letter.
func (w *World) lookSoon(n int32) { w.at(time.Second, lookAtDead, producerParty, uint64(n), nil) }

// jobNames and jobNumber turn the number of a job into its MessageID and back.
func jobNames(n int) string { return "j" + strconv.Itoa(n) }

func jobNumber(id string) int32 {
	n, err := strconv.Atoi(id[1:])
	if err != nil {
		return -1
	}
	return int32(n)
}
