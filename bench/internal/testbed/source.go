package testbed

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/workpull/operator/workpull"
)

// Credits are the requests that a producer actor has not answered, oldest
// first.
type Credits struct {
	granted    uint64 // highest token
	open       []*workpull.RequestNext
	controller *actor.PID // whose they are
}

// Grant notes a request, but not its repetition.
func (c *Credits) Grant(ctx *actor.ReceiveContext, m *workpull.RequestNext) {
	if m.Token() > c.granted {
		c.granted, c.controller = m.Token(), ctx.Sender()
		c.open = append(c.open, m)
	}
}

// Open is how many there are.
func (c *Credits) Open() int { return len(c.open) }

// Offer answers the oldest request, of which there is one.
func (c *Credits) Offer(ctx *actor.ReceiveContext, id string, payload proto.Message) {
	produced, err := workpull.NewProduced(c.open[0], id, payload)
	if err != nil {
		ctx.Err(err)
		return
	}
	c.open = slices.Delete(c.open, 0, 1) // keeps its place: nothing is allocated that is not the pattern's
	ctx.Tell(c.controller, produced)
}

// Acknowledge answers Stored.
func Acknowledge(ctx *actor.ReceiveContext, m *workpull.Stored) {
	ack, err := workpull.NewStoredAck(m)
	if err != nil {
		ctx.Err(err)
		return
	}
	ctx.Tell(ctx.Sender(), ack)
}

// Quiet is what the actors here do at start and stop.
type Quiet struct{}

// PreStart implements actor.Actor.
func (Quiet) PreStart(*actor.Context) error { return nil }

// PostStop implements actor.Actor.
func (Quiet) PostStop(*actor.Context) error { return nil }

// Source is a producer actor that answers every request at once, from when it
// is opened.
type Source struct {
	Quiet
	Credits
	jobs      func(n int) (id string, payload proto.Message)
	begun     bool
	offered   int
	confirmed atomic.Int64
}

// NewSource returns a source of jobs that are all alike but for their
// MessageIDs, which are numbers: so that nothing is measured that is not the
// pattern's.
func NewSource() *Source {
	payload := Stamped(0)
	return NewSourceOf(func(n int) (string, proto.Message) { return strconv.Itoa(n), payload })
}

// NewSourceOf returns a source of the jobs that the function makes, for numbers
// from 1 on.
func NewSourceOf(jobs func(n int) (id string, payload proto.Message)) *Source {
	return &Source{jobs: jobs}
}

// Confirmed is for how many jobs DeliveryConfirmed came.
func (s *Source) Confirmed() int64 { return s.confirmed.Load() }

// Receive implements actor.Actor.
func (s *Source) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		s.Grant(ctx, m)
		s.offerAll(ctx)
	case *emptypb.Empty:
		s.begun = true
		s.offerAll(ctx)
	case *workpull.Stored:
		Acknowledge(ctx, m)
	case *workpull.DeliveryConfirmed:
		s.confirmed.Add(1)
	}
}

func (s *Source) offerAll(ctx *actor.ReceiveContext) {
	for s.begun && len(s.open) > 0 {
		s.offered++
		id, payload := s.jobs(s.offered)
		s.Offer(ctx, id, payload)
	}
}

// Sink is a worker actor that confirms.
type Sink struct {
	Quiet
	Handle func(d *workpull.Delivery) // if there is one
	Done   *atomic.Int64              // counts jobs, if there is one
}

// Receive implements actor.Actor.
func (s *Sink) Receive(ctx *actor.ReceiveContext) {
	d, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	if s.Handle != nil {
		s.Handle(d)
	}
	if s.Done != nil {
		s.Done.Add(1)
	}
	confirmed, err := workpull.NewConfirmed(d)
	if err != nil {
		ctx.Err(err)
		return
	}
	ctx.Tell(ctx.Sender(), confirmed)
}
