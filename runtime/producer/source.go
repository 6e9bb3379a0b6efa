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
	links *node.LinkServer

	asking sync.Mutex // held over one question, so that others wait for its answer
	last   workpull.Snapshot
	asked  time.Time
}

var _ endpoint = (*source)(nil)

func (s *source) connect(pid *actor.PID, links *node.LinkServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid, s.links = pid, links
}

func (s *source) parts() (*actor.PID, *node.LinkServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid, s.links
}

func (s *source) wake(ctx context.Context) error {
	pid, _ := s.parts()
	if pid == nil {
		return errStarting
	}
	return actor.Tell(context.WithoutCancel(ctx), pid, &jobpb.Wake{})
}

func (s *source) inspect(ctx context.Context) (workpull.Snapshot, error) {
	pid, _ := s.parts()
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
	s.ledger.observe(snapshot.InFlight)
	return snapshot, nil
}

func (s *source) pods() map[string]string {
	if _, links := s.parts(); links != nil {
		return links.Pods()
	}
	return nil
}
