package core

import "time"

// What befalls a job is kept in the queue, so that attempts, backoff and dead
// letters outlive the controller (B3). That is written beside the jobs' own
// way: what is charged, delayed or dead does not wait for it. A requeue that
// charges nothing writes nothing (rule 47): interruptions and deaths that were
// nobody's fault are kept with the next charge.

// unsaved notes that the queue has to learn what befell the job.
func (p *Producer) unsaved(j *Job) {
	if p.cfg.Keeps && !j.unsaved {
		j.unsaved = true
		p.lane.saves = append(p.lane.saves, j)
	}
}

// progress is what the queue keeps of the job.
func (j *Job) progress() *Progress {
	t := j.record()
	return &Progress{
		Attempt: j.Attempt, Interruptions: t.interruptions, Deaths: t.deaths,
		Failures: append([]Failure(nil), t.failures...), Due: t.due,
		Delayed: j.state == jobDelayed, Dead: j.state == jobDead, Dropped: j.dropped,
	}
}

// saving takes jobs whose progress the queue does not have yet. What is done
// needs none, unless it was given up: that has to be known first.
func (p *Producer) saving(n int) []*Job {
	l := &p.lane
	var taken []*Job
	for len(l.saves) > 0 && len(taken) < n {
		j := l.saves[0]
		l.saves = l.saves[1:]
		j.unsaved = false
		if p.jobs[j.ID] == j && j.state != jobConfirming {
			taken = append(taken, j)
		}
	}
	return taken
}

// save has the queue keep what it does not have yet, if there is any such.
func (p *Producer) save() bool {
	c := commit{saves: p.saving(maxBatch)}
	if len(c.saves) == 0 {
		return false
	}
	p.lane.last++
	c.operation = &QueueOperation{Number: p.lane.last, Epoch: p.lane.epoch}
	for _, j := range c.saves {
		c.operation.Saves = append(c.operation.Saves, SavedProgress{ID: j.ID, Progress: j.progress()})
	}
	p.lane.under = c
	p.emit(Effect{Kind: Save, Session: p.session, Operation: c.operation})
	return true
}

// saved notes that the queue has it. A dead letter that is given up is
// confirmed now, unless it was given up while what was written was older.
func (p *Producer) saved(now time.Duration, j *Job) {
	if j.state == jobDropping && !j.unsaved {
		p.complete(now, j)
	}
}

// resume takes up what the queue kept of a job, and tells whether it waits for
// anything but a worker. A clock that was set back delays it no further than
// the policy does.
func (p *Producer) resume(now time.Duration, j *Job, k *Progress) (elsewhere bool) {
	j.Attempt = max(1, k.Attempt)
	t := j.befallen()
	t.interruptions, t.deaths, t.failures = k.Interruptions, k.Deaths, keepLast(k.Failures)
	j.solo = k.Deaths >= deathsBeforeSolo
	switch {
	case k.Dropped:
		j.dropped = true
		p.complete(now, j)
	case k.Dead:
		j.state = jobDead
		p.dead.pushBack(j)
	case k.Delayed && k.Due > now:
		t.due = min(k.Due, now+p.cfg.LastBackoff)
		p.delay(j)
	default:
		return false
	}
	return true
}
