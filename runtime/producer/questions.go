package producer

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/workpull/operator/workpull"
)

// job answers what is known of one job.
func (i *intake) job(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	known, ok := i.ledger.find(id)
	if !ok {
		deny(w, http.StatusNotFound, fmt.Sprintf("job %q is not known", id), fmt.Sprintf(
			"a job that was accepted since %s (the queue is in memory) and is among the last %d finished of the last %s",
			i.started.Format(time.RFC3339), maxFinished, finishedAge))
		return
	}
	status := JobStatus{ID: id, State: Waiting, Received: known.received.UTC(), Accepted: stamp(known.accepted), Confirmed: stamp(known.finished)}
	switch known.phase {
	case confirmed:
		status.State = Done
	case accepted:
		i.locate(r, &status)
	}
	answer(w, http.StatusOK, status)
}

// locate finds the worker that runs a job.
func (i *intake) locate(r *http.Request, status *JobStatus) {
	snapshot, err := i.endpoint.inspect(r.Context())
	if err != nil {
		return // it is accepted, which is what is known
	}
	for _, worker := range snapshot.Workers {
		if worker.RunningID == status.ID {
			status.State, status.Attempt = Running, worker.RunningAttempt
			status.Worker, status.Pod = worker.Identity, podOf(worker.Identity, i.endpoint.pods())
			return
		}
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
		Producer: i.producer, Queue: "memory", Since: i.started.UTC(), Accepting: i.accepting(),
		Lost: i.ledger.losses(), Workers: []WorkerStatus{},
	}
	snapshot, err := i.endpoint.inspect(r.Context())
	if err != nil {
		if status.Accepting == "yes" {
			status.Accepting = "no: " + err.Error()
		}
		answer(w, http.StatusServiceUnavailable, status)
		return
	}
	status.fill(snapshot, i.endpoint.pods())
	answer(w, http.StatusOK, status)
}

func (s *Status) fill(from workpull.Snapshot, pods map[string]string) {
	s.Waiting, s.InFlight, s.Delayed = from.Waiting, from.InFlight, from.Delayed
	s.Accepted, s.Confirmed, s.Requeued, s.Rejected = from.Accepted, from.Confirmed, from.Requeued, from.Rejected
	for _, w := range from.Workers {
		if w.RunningID != "" {
			s.Running++
		}
		s.Workers = append(s.Workers, WorkerStatus{
			Identity: w.Identity, Pod: podOf(w.Identity, pods), Host: w.Host, Demand: w.Demand, InFlight: w.InFlight,
			Running: w.RunningID, Attempt: w.RunningAttempt, Since: w.Since.UTC(), Suspended: w.Suspended, Draining: w.Draining,
		})
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
