// Package endpoint is the source of the control service in a producer's pod: the
// controller of a work-pulling producer endpoint.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/runtime/control"
	"github.com/workpull/operator/workpull"
)

// Endpoint implements control.Source.
type Endpoint struct {
	producer *actor.PID
	pods     func() map[string]string
}

var _ control.Source = (*Endpoint)(nil)

// New returns the source of a producer endpoint of this process. Pods maps the
// worker processes that are connected, by what their workers' identities begin
// with, to the names of their pods.
func New(producer *actor.PID, pods func() map[string]string) *Endpoint {
	return &Endpoint{producer: producer, pods: pods}
}

// Inspect implements control.Source.
func (e *Endpoint) Inspect(ctx context.Context) (*control.Snapshot, error) {
	s, err := workpull.Inspect(ctx, e.producer)
	if err != nil {
		return nil, err
	}
	out := &control.Snapshot{
		State: control.State{
			At: control.Moment(s.At), Session: control.Some(s.Session), Epoch: control.Some(s.Epoch),
			Waiting: control.Some(s.Waiting), Buffered: control.Some(s.Buffered), Running: control.Some(s.Running),
			Delayed: control.Some(s.Delayed), Dead: control.Some(s.Dead),
			Accepted: control.Some(s.Accepted), Confirmed: control.Some(s.Confirmed), Requeued: control.Some(s.Requeued),
			Rejected: control.Some(s.Rejected), Recalled: control.Some(s.Recalled),
		},
		Workers: make([]control.Worker, len(s.Workers)),
	}
	if s.Waiting > 0 {
		out.OldestAge = control.Some(s.OldestAge)
	}
	pods := e.pods()
	for i := range s.Workers {
		out.Workers[i] = worker(&s.Workers[i], pods)
	}
	return out, nil
}

func worker(w *workpull.WorkerSnapshot, pods map[string]string) control.Worker {
	out := control.Worker{
		Identity: w.Identity, Pod: pods[process(w.Identity)], Host: w.Host,
		Demand: control.Some(w.Demand), Held: control.Some(w.InFlight),
		IdleSince: control.Moment(w.IdleSince), BoundSince: control.Moment(w.Since),
		Suspended: control.Some(w.Suspended), Draining: control.Some(w.Draining),
		Retired: control.Some(w.Retired), Uncertain: control.Some(w.Uncertain),
	}
	if w.Running {
		out.RunningID, out.RunningAttempt, out.RunningSince = w.RunningID, control.Some(w.RunningAttempt), control.Moment(w.RunningSince)
	}
	return out
}

// process is what the identities of a process begin with: all but the number of
// the endpoint.
func process(identity string) string {
	if slash := strings.LastIndexByte(identity, '/'); slash >= 0 {
		return identity[:slash]
	}
	return identity
}

// Count implements control.Source.
func (e *Endpoint) Count(ctx context.Context) (control.Counts, error) {
	t, err := workpull.Count(ctx, e.producer)
	return control.Counts{Session: t.Session, Accepted: t.Accepted, Confirmed: t.Confirmed}, err
}

// Notify implements control.Source.
func (e *Endpoint) Notify(changes chan<- struct{}) (stop func(), err error) {
	return workpull.Notify(e.producer, changes)
}

// Retire implements control.Source.
func (e *Endpoint) Retire(ctx context.Context, identity string) (control.Retirement, error) {
	r, err := workpull.Retire(ctx, e.producer, identity)
	if err != nil {
		return control.Retirement{}, err
	}
	out := control.Retirement{Identity: identity, Known: r.Known, Session: r.Session}
	if r.Known {
		out.Held = control.Some(r.Held)
	}
	return out, nil
}

// Release implements control.Source.
func (e *Endpoint) Release(ctx context.Context, identity string) error {
	return workpull.Release(ctx, e.producer, identity)
}

// Gone implements control.Source. A report of one process has its node probed,
// and with it every worker there. A worker of the producer's own system is not
// probed: it cannot be gone without that being known.
func (e *Endpoint) Gone(ctx context.Context, podUID, nonce string) (int, error) {
	s, err := workpull.Inspect(ctx, e.producer)
	if err != nil {
		return 0, err
	}
	prefix := podUID + "/"
	if nonce != "" {
		prefix += nonce + "/"
	}
	hosts, count := map[string]struct{}{}, 0
	for i := range s.Workers {
		if w := &s.Workers[i]; strings.HasPrefix(w.Identity, prefix) {
			count++
			if w.Host != "" {
				hosts[w.Host] = struct{}{}
			}
		}
	}
	for hostPort := range hosts {
		host, text, err := net.SplitHostPort(hostPort)
		if err != nil {
			return 0, fmt.Errorf("worker at %s: %w", hostPort, err)
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("worker at %s: %w", hostPort, err)
		}
		if err := workpull.PeerLost(ctx, e.producer.ActorSystem(), host, port); err != nil {
			return 0, err
		}
	}
	return count, nil
}

// Explain implements control.Source.
func (e *Endpoint) Explain(ctx context.Context, id string) (control.Job, error) {
	j, err := workpull.Explain(ctx, e.producer, id)
	if err != nil {
		return control.Job{}, known(err)
	}
	return control.Job{
		State: j.State, Worker: j.Worker, Attempt: control.Some(j.Attempt), Interruptions: control.Some(j.Interruptions),
		History: history(j.History), Due: control.Moment(j.Due), Alone: control.Some(j.Alone),
	}, nil
}

// DeadLetters implements control.Source.
func (e *Endpoint) DeadLetters(ctx context.Context, limit int) ([]control.DeadLetter, error) {
	letters, err := workpull.DeadLetterHistories(ctx, e.producer, limit)
	if err != nil {
		return nil, err
	}
	out := make([]control.DeadLetter, len(letters))
	for i := range letters {
		l := &letters[i]
		out[i] = control.DeadLetter{
			ID: l.MessageID, StoreSequence: control.Some(l.StoreSequence),
			Attempts: control.Some(l.Attempts), Interruptions: control.Some(l.Interruptions), History: history(l.History),
			TypeURL: l.TypeURL,
		}
		if l.TypeURL != "" {
			out[i].PayloadBytes = control.Some(uint64(len(l.Payload)))
		}
	}
	return out, nil
}

// Redrive implements control.Source.
func (e *Endpoint) Redrive(ctx context.Context, id string) error {
	return known(workpull.Redrive(ctx, e.producer, id))
}

// Drop implements control.Source.
func (e *Endpoint) Drop(ctx context.Context, id string) error {
	return known(workpull.Drop(ctx, e.producer, id))
}

func history(attempts []workpull.FailedAttempt) []control.FailedAttempt {
	out := make([]control.FailedAttempt, len(attempts))
	for i, a := range attempts {
		out[i] = control.FailedAttempt{Attempt: control.Some(a.Attempt), Worker: a.Worker, At: control.Moment(a.Time), Reason: a.Reason}
	}
	return out
}

// known turns errors of the library into those of the service.
func known(err error) error {
	switch {
	case errors.Is(err, workpull.ErrUnknownJob):
		return control.ErrUnknownJob
	case errors.Is(err, workpull.ErrNoDeadLetter):
		return control.ErrNoDeadLetter
	}
	return err
}
