package workpull

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/workpull/internal/core"
)

// Totals are what a producer's controller has counted since it started, in jobs.
type Totals struct {
	// Session of the controller: the counts begin again with each.
	Session                                                    uint64
	Accepted, Confirmed, Requeued, Rejected, Recalled, Adopted uint64
}

// Count tells what a producer endpoint's controller has counted. Unlike Inspect
// it costs the same however many workers there are, so that rates can be taken
// all the time.
func Count(ctx context.Context, producer *actor.PID) (Totals, error) {
	var totals Totals
	err := order(ctx, producer, func(p *core.Producer, _ time.Duration) { totals = Totals(p.Totals()) })
	if err != nil {
		return Totals{}, fmt.Errorf("count: %w", err)
	}
	return totals, nil
}

// Notify sends to the channel when the waiting jobs of a producer endpoint, or
// its workers that hold nothing and ask for a job, turn from none to some or
// from some to none, until stop is called. It never waits: where the channel
// has no room it sends nothing, so that one with room for one value misses no
// change. It goes on when the endpoint's controller is replaced. The endpoint
// must be of this system.
func Notify(producer *actor.PID, changes chan<- struct{}) (stop func(), err error) {
	e, ok := endpointOf(producer)
	if !ok || e.spec.role != producerRole {
		return nil, fmt.Errorf("notify of changes: %w", ErrNotEndpoint)
	}
	return e.pulses.add(changes), nil
}

// pulses are the channels of Notify for one endpoint.
type pulses struct {
	listening atomic.Int32 // so that nobody is asked when nobody listens

	mu   sync.Mutex
	last uint64
	to   map[uint64]chan<- struct{}
}

func (p *pulses) add(changes chan<- struct{}) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.to == nil {
		p.to = map[uint64]chan<- struct{}{}
	}
	p.last++
	key := p.last
	p.to[key] = changes
	p.listening.Store(int32(len(p.to)))
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.to, key)
		p.listening.Store(int32(len(p.to)))
	}
}

// beat tells of a change.
func (p *pulses) beat() {
	if p.listening.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, changes := range p.to {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
}
