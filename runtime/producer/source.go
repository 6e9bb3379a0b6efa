package producer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/runtime/internal/jobpb"
	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/workpull"
)

const (
	// inspectAge is how old an answer of the controller may be: many clients
	// may ask, and each answer costs time in proportion to the workers.
	inspectAge = 50 * time.Millisecond
	// inspectTimeout bounds one question.
	inspectTimeout = time.Second
)

// errStarting is the answer before there is an endpoint.
var errStarting = errors.New("the endpoint is starting")

// source is the endpoint that runs in this process.
type source struct {
	ledger *ledger

	mu    sync.Mutex
	pid   *actor.PID
	queue durable // nil in memory
	links *node.LinkServer

	asking sync.Mutex // held over one question, so that others wait for its answer
	last   workpull.Snapshot
	asked  time.Time
}

var _ endpoint = (*source)(nil)

// connect says which endpoint runs now, and which queue it has.
func (s *source) connect(pid *actor.PID, queue durable) {
	s.mu.Lock()
	s.pid, s.queue = pid, queue
	s.mu.Unlock()
	s.asking.Lock() // what was asked of another counts no more
	defer s.asking.Unlock()
	s.asked = time.Time{}
}

// link says where workers hold their connections.
func (s *source) link(links *node.LinkServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = links
}

func (s *source) parts() (*actor.PID, durable, *node.LinkServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid, s.queue, s.links
}

func (s *source) wake(ctx context.Context) error {
	pid, _, _ := s.parts()
	if pid == nil {
		return errStarting
	}
	return actor.Tell(context.WithoutCancel(ctx), pid, &jobpb.Wake{})
}

func (s *source) inspect(ctx context.Context) (workpull.Snapshot, error) {
	pid, _, _ := s.parts()
	if pid == nil {
		return workpull.Snapshot{}, errStarting
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if !s.asked.IsZero() && time.Since(s.asked) < inspectAge {
		return s.last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	snapshot, err := workpull.Inspect(ctx, pid)
	if err != nil {
		return workpull.Snapshot{}, err
	}
	s.last, s.asked = snapshot, time.Now()
	s.ledger.observe(snapshot)
	return snapshot, nil
}

func (s *source) explain(ctx context.Context, id string) (workpull.JobState, error) {
	pid, _, _ := s.parts()
	if pid == nil {
		return workpull.JobState{}, errStarting
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return workpull.Explain(ctx, pid, id)
}

func (s *source) completed(ctx context.Context, id string) (workpull.CompletedMessage, bool, error) {
	_, queue, _ := s.parts()
	if queue == nil {
		return workpull.CompletedMessage{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return queue.Completed(ctx, id)
}

func (s *source) pods() map[string]string {
	if _, _, links := s.parts(); links != nil {
		return links.Pods()
	}
	return nil
}
