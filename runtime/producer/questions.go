package producer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/workpull/operator/workpull"
)

// job answers what is known of one job: by this process, by the controller that
// holds it, or by the queue that knows that it is done.
func (i *intake) job(w http.ResponseWriter, r *http.Request) {
	status := JobStatus{ID: r.PathValue("id"), State: Waiting}
	known, ok := i.ledger.find(status.ID)
	status.Received, status.Accepted, status.Confirmed = stamp(known.received), stamp(known.accepted), stamp(known.finished)
	switch {
	case ok && known.phase == confirmed:
		status.State = Done
	case ok && known.phase != accepted:
	default:
		held, err := i.locate(r.Context(), &status)
		switch {
		case held, ok: // it is accepted, which is what is known
		case err != nil:
			denyFor(w, http.StatusServiceUnavailable, retryAfter, fmt.Sprintf("nobody can be asked about job %q now", status.ID), "the same request later")
			return
		default:
			deny(w, http.StatusNotFound, fmt.Sprintf("job %q is not known", status.ID), i.remembered())
			return
		}
	}
	answer(w, http.StatusOK, status)
}

// remembered says which jobs are known.
func (i *intake) remembered() string {
	if i.ledger.durable {
		return fmt.Sprintf("a job that the queue (%s) holds, or that was done within the last %s, or is among the last %d finished since %s of the last %s",
			i.queue, i.window, maxFinished, i.started.Format(time.RFC3339), finishedAge)
	}
	return fmt.Sprintf("a job that was accepted since %s (the queue is in memory) and is among the last %d finished of the last %s",
		i.started.Format(time.RFC3339), maxFinished, finishedAge)
}

// locate asks where a job is, and fills that in. A job that is done while it is
// asked for is not held any more when the queue is asked, which knows it then.
func (i *intake) locate(ctx context.Context, status *JobStatus) (held bool, err error) {
	state, err := i.endpoint.explain(ctx, status.ID)
	if err == nil {
		status.fill(state, i.endpoint.pods())
		return true, nil
	}
	if !errors.Is(err, workpull.ErrUnknownJob) {
		return false, err
	}
	done, known, err := i.endpoint.completed(ctx, status.ID)
	if err != nil || !known {
		return false, err
	}
	status.State, status.Confirmed = Done, stamp(done.Time())
	if done.Dropped() {
		status.State = Dropped
	}
	return true, nil
}

// States of workpull.JobState that a client is told by another name; buffered
// jobs are at a worker and have not reached its handler.
var statesOfJobs = map[string]State{"running": Running, "delayed": Delayed, "dead": Dead}

func (s *JobStatus) fill(from workpull.JobState, pods map[string]string) {
	if state, ok := statesOfJobs[from.State]; ok {
		s.State = state
	}
	s.Attempt = from.Attempt
	if s.State == Running {
		s.Worker, s.Pod = from.Worker, podOf(from.Worker, pods)
	}
}

func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// status answers what the producer does.
func (i *intake) status(w http.ResponseWriter, r *http.Request) {
	status := Status{
		Producer: i.producer, Queue: i.queue, Since: i.started.UTC(), Accepting: i.accepting(),
		Lost: i.ledger.losses(), Workers: []WorkerStatus{},
	}
	snapshot, err := i.endpoint.inspect(r.Context())
	if err != nil {
		if status.Accepting == accepting {
			status.Accepting = "no: " + err.Error()
		}
		answer(w, http.StatusServiceUnavailable, status)
		return
	}
	status.fill(snapshot, i.endpoint.pods())
	answer(w, http.StatusOK, status)
}

func (s *Status) fill(from workpull.Snapshot, pods map[string]string) {
	s.Waiting, s.InFlight, s.Delayed, s.Dead = from.Waiting, from.InFlight, from.Delayed, from.Dead
	s.Accepted, s.Confirmed, s.Requeued, s.Rejected = from.Accepted, from.Confirmed, from.Requeued, from.Rejected
	s.Running = from.Running
	for _, w := range from.Workers {
		worker := WorkerStatus{
			Identity: w.Identity, Pod: podOf(w.Identity, pods), Host: w.Host, Demand: w.Demand, InFlight: w.InFlight,
			Since: w.Since.UTC(), Suspended: w.Suspended, Draining: w.Draining,
		}
		if w.Running { // else the oldest only lies there
			worker.Running, worker.Attempt = w.RunningID, w.RunningAttempt
		}
		s.Workers = append(s.Workers, worker)
	}
}

// podOf finds the pod of an endpoint, whose identity is that of its process
// and its own number.
func podOf(identity string, pods map[string]string) string {
	process := identity
	if slash := strings.LastIndexByte(identity, '/'); slash >= 0 {
		process = identity[:slash]
	}
	return pods[process]
}
