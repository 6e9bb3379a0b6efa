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

// ReliableDeliveryStage names where a terminal failure happened.
type ReliableDeliveryStage string

// Stages of a terminal failure.
const (
	ReliableDeliveryStageLoad     = ReliableDeliveryStage(core.StageLoad)
	ReliableDeliveryStageStore    = ReliableDeliveryStage(core.StageStore)
	ReliableDeliveryStageAccept   = ReliableDeliveryStage(core.StageAccept)
	ReliableDeliveryStageConfirm  = ReliableDeliveryStage(core.StageConfirm)
	ReliableDeliveryStageProtocol = ReliableDeliveryStage(core.StageProtocol)
)

// ReliableDeliveryFailed is published once when an endpoint's controller ends
// while the endpoint lives (rules 61, 91). ReSpawn makes a new controller.
type ReliableDeliveryFailed struct {
	endpoint, role string
	stage          ReliableDeliveryStage
	err            error
	at             time.Time
}

// Endpoint is the endpoint's name.
func (f ReliableDeliveryFailed) Endpoint() string { return f.endpoint }

// Role of the controller: "producer" or "worker".
func (f ReliableDeliveryFailed) Role() string { return f.role }

// Stage where it failed.
func (f ReliableDeliveryFailed) Stage() ReliableDeliveryStage { return f.stage }

// Err is the cause.
func (f ReliableDeliveryFailed) Err() error { return f.err }

// Time when it failed.
func (f ReliableDeliveryFailed) Time() time.Time { return f.at }

// String tells all of it in one line.
func (f ReliableDeliveryFailed) String() string {
	return fmt.Sprintf("%s controller of %s failed at stage %s: %v", f.role, f.endpoint, f.stage, f.err)
}

// DeadLettered is published when a job is out of attempts and was put aside.
// It stays with the producer's controller until Redrive or Drop.
type DeadLettered struct {
	endpoint string
	job      DeadLetter
}

// Endpoint is the producer endpoint's name.
func (d DeadLettered) Endpoint() string { return d.endpoint }

// Job is the dead letter with its history.
func (d DeadLettered) Job() DeadLetter { return d.job }

// eventBuffer is how many events a subscription holds that nobody has read.
const eventBuffer = 64

// Subscription receives the pattern's events of one system.
type Subscription struct {
	hub     *hub
	events  chan ReliableDeliveryFailed
	dead    chan DeadLettered
	dropped atomic.Uint64
}

// C gives terminal failures. It is closed by Close and when the system stops.
func (s *Subscription) C() <-chan ReliableDeliveryFailed { return s.events }

// DeadLetters gives jobs that are out of attempts. It is closed as C is.
func (s *Subscription) DeadLetters() <-chan DeadLettered { return s.dead }

// Dropped counts events that found the buffer full.
func (s *Subscription) Dropped() uint64 { return s.dropped.Load() }

// Close ends the subscription.
func (s *Subscription) Close() { s.hub.remove(s) }

// Subscribe subscribes to the pattern's events of a system: they cannot be
// published on the system's own stream. Up to 64 of each kind wait to be read;
// later ones are dropped and counted.
func Subscribe(ctx context.Context, system actor.ActorSystem) (*Subscription, error) {
	n, err := nodeOf(ctx, system, nil)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return n.events.add(), nil
}

// hub passes events on to subscriptions and never blocks.
type hub struct {
	mu     sync.Mutex
	closed bool
	all    map[*Subscription]struct{}
}

func (h *hub) add() *Subscription {
	s := &Subscription{hub: h, events: make(chan ReliableDeliveryFailed, eventBuffer), dead: make(chan DeadLettered, eventBuffer)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		s.end()
		return s
	}
	if h.all == nil {
		h.all = map[*Subscription]struct{}{}
	}
	h.all[s] = struct{}{}
	return s
}

func (h *hub) remove(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.all[s]; ok {
		delete(h.all, s)
		s.end()
	}
}

func (h *hub) publish(f ReliableDeliveryFailed) {
	h.each(func(s *Subscription) { offer(s, s.events, f) })
}

func (h *hub) bury(d DeadLettered) {
	h.each(func(s *Subscription) { offer(s, s.dead, d) })
}

func (h *hub) each(f func(*Subscription)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.all {
		f(s)
	}
}

func offer[T any](s *Subscription, to chan<- T, event T) {
	select {
	case to <- event:
	default:
		s.dropped.Add(1)
	}
}

// end closes the channels; the hub's lock is held.
func (s *Subscription) end() {
	close(s.events)
	close(s.dead)
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.all {
		s.end()
	}
	h.all = nil
}

// publish tells subscribers and the log of a terminal failure.
func (n *node) publish(e *endpoint, stage ReliableDeliveryStage, err error) {
	f := ReliableDeliveryFailed{endpoint: e.spec.name, role: e.spec.role.String(), stage: stage, err: err, at: time.Now()}
	n.system.Logger().Error(f.String())
	n.events.publish(f)
}
