package sim

import "github.com/workpull/operator/workpull/internal/core"

// What befalls a job is kept in the queue (B3): the books say what the next
// controller has to begin with.

// noteResumed notes what the queue kept of a job that was loaded.
func (w *World) noteResumed(n int32, k *core.Progress) {
	if k == nil {
		return
	}
	j := &w.jobs[n]
	switch {
	case k.Dropped:
		w.Seen[ResumedDropped]++
		j.state, j.completing = jobDropped, true
		w.undone--
		w.completed = append(w.completed, j.id)
	case k.Dead:
		w.Seen[ResumedDead]++
		j.state = jobDead
		w.lookSoon(n)
	case k.Delayed && k.Due > w.now:
		w.Seen[ResumedDelayed]++
		j.notBefore = k.Due
	}
}

// judgeResumed: what the queue kept of a job is what the controller begins with.
func (w *World) judgeResumed() {
	for i := range w.resuming {
		l := &w.resuming[i]
		k := l.Progress
		if k == nil {
			k = &core.Progress{}
		}
		j := &w.jobs[jobNumber(l.ID)]
		s, held := w.core.Explain(l.ID)
		if !held || s.Attempt != max(1, k.Attempt) || s.Interruptions != k.Interruptions || len(s.Failures) != len(k.Failures) {
			w.fail("what was kept is not forgotten", "%s is loaded with %+v and is %+v", l.ID, *k, s)
		}
		is := map[string]bool{core.StateConfirming: k.Dropped, core.StateDead: k.Dead, core.StateDelayed: j.notBefore > w.now}
		for state, want := range is {
			if (s.State == state) != want {
				w.fail("what was kept is not forgotten", "%s is loaded with %+v and is %q", l.ID, *k, s.State)
			}
		}
		if j.notBefore > w.now && s.Due != j.notBefore {
			w.fail("a job waits for its backoff", "%s is due at %s, it is to be at %s", l.ID, s.Due, j.notBefore)
		}
	}
	w.resuming = nil
}

// judgeSave: what is kept is that of jobs which the queue has, and whose
// confirmation is not asked for.
func (w *World) judgeSave(e *core.Effect) {
	o := e.Operation
	w.judgeEpoch(o)
	if len(o.Saves) == 0 || !w.opt.Keeps {
		w.fail("the queue is asked what there is to ask", "operation %d saves %d", o.Number, len(o.Saves))
	}
	for i := range o.Saves {
		k := &o.Saves[i]
		w.Seen[Saves]++
		j := &w.jobs[jobNumber(k.ID)]
		if k.Attempt == 0 || k.Dropped != (j.state == jobDropped) && !k.Dead || int(k.Attempt)-1 > j.starts+j.announced {
			w.fail("the truth is kept", "%s is kept as %+v, it started %d times, in state %d", k.ID, *k.Progress, j.starts, j.state)
		}
	}
}

// noteSaved notes what the queue knows from here on: a job that was given up is
// to be confirmed.
func (w *World) noteSaved(o *operation) {
	for i := range o.Saves {
		k := &o.Saves[i]
		if j := &w.jobs[jobNumber(k.ID)]; k.Dropped && j.state == jobDropped {
			w.completed = append(w.completed, j.id)
		}
	}
}

// judgeKept: while nothing is under way the queue has what befell a job, but for
// interruptions since its last charge (rule 47).
func (w *World) judgeKept(j *job, s *core.JobState) {
	q := w.queue.known[j.id]
	if !w.opt.Keeps || w.foreign || w.under != none || q == nil || s.State == core.StateConfirming {
		return
	}
	k := q.progress
	if k == nil {
		k = &core.Progress{Attempt: 1}
	}
	if k.Attempt != s.Attempt || k.Interruptions > s.Interruptions || len(k.Failures) != len(s.Failures) || k.Dead != (s.State == core.StateDead) ||
		s.State == core.StateDelayed && (!k.Delayed || k.Due != s.Due) {
		w.fail("what was kept is not forgotten", "%s is %+v, the queue has %+v", j.id, *s, *k)
	}
}
