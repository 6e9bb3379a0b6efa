package sim

import "github.com/workpull/operator/workpull/internal/core"

// checkLeases: whoever was silent for longer than the lease, and the lateness
// of the controller's own ticks, has lost its binding (B5).
func (w *World) checkLeases() {
	for i := range w.identities {
		if b := w.identities[i].binding; b != nil && w.now-b.heard > lease+(w.late-b.late)+retryInterval {
			w.fail("a lease ends", "%s was silent for %s and has its binding", w.identities[i].name, w.now-b.heard)
		}
	}
}

// checkWorker holds a consumer controller to its window (rules 73, 78).
func (w *World) checkWorker(v *process) {
	if s := v.consumer.Status(); s.Buffered > w.opt.Window || s.Buffered < 0 {
		w.fail("the buffer is bounded", "%s holds %d jobs, its window is %d", w.identities[v.identity].name, s.Buffered, w.opt.Window)
	}
}

// recount counts everything again: the controllers' own sums, and each job
// that the world knows to be held.
func (w *World) recount() {
	if err := w.core.Check(); err != nil {
		w.fail("the producer's sums agree with a recount", "%v", err)
	}
	for _, at := range w.slots {
		if v := w.processes[at]; v.alive {
			if err := v.consumer.Check(); err != nil {
				w.fail("the worker's sums agree with a recount", "%s: %v", w.identities[v.identity].name, err)
			}
		}
	}
	if w.away() {
		return
	}
	w.judgePayloads()
	held := 0
	for i := range w.jobs {
		j := &w.jobs[i]
		s, ok := w.core.Explain(j.id)
		done := ok && s.State == core.StateConfirming
		if done != j.completing {
			w.fail("confirmations are kept until they are stored", "%s is %q, its confirmation waits: %v", j.id, s.State, j.completing)
		}
		if done {
			continue
		}
		if s.State == core.StateDelayed && s.Due < w.lastTick {
			w.fail("a job waits for its backoff", "%s was due at %s, the last tick was at %s", j.id, s.Due, w.lastTick)
		}
		if ok && j.stored && s.State != core.StateStored {
			w.judgeKept(j, &s)
		}
		switch j.state {
		case jobStored:
			ok = ok && s.State == core.StateStored
		case jobHeld:
			held++
			ok = ok && s.State != core.StateStored && s.State != core.StateDead
		case jobDead:
			held++
			ok = ok && s.State == core.StateDead
		default:
			ok = !ok
		}
		if !ok {
			w.fail("no accepted job is lost", "%s is %q, which is not what became of it (%d)", j.id, s.State, j.state)
		}
	}
	s := w.core.Snapshot(w.now)
	if sum := s.Waiting + s.InFlight + s.Delayed + s.Dead; sum != held || s.Accepted != w.accepted {
		w.fail("no accepted job is lost", "%d jobs are held and %d accepted, the controller says %d and %d", held, w.accepted, sum, s.Accepted)
	}
}
