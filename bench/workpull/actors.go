package main

import (
	"strconv"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// source is a producer actor that answers every request at once, until it has
// offered all of its jobs.
type source struct {
	payload     proto.Message // 200 bytes
	jobs        int
	offered     int
	answered    uint64 // highest token answered
	confirmed   int
	begun, done chan struct{}
}

func newSource(jobs int) *source {
	return &source{
		payload: wrapperspb.Bytes(make([]byte, 200)), jobs: jobs,
		begun: make(chan struct{}), done: make(chan struct{}),
	}
}

// PreStart implements actor.Actor.
func (s *source) PreStart(*actor.Context) error { return nil }

// PostStop implements actor.Actor.
func (s *source) PostStop(*actor.Context) error { return nil }

// Receive implements actor.Actor.
func (s *source) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		if m.Token() <= s.answered || s.offered == s.jobs {
			return
		}
		s.answered = m.Token()
		s.offered++
		produced, err := workpull.NewProduced(m, strconv.Itoa(s.offered), s.payload)
		if err != nil {
			ctx.Err(err)
			return
		}
		ctx.Tell(ctx.Sender(), produced)
	case *workpull.Stored:
		ack, err := workpull.NewStoredAck(m)
		if err != nil {
			ctx.Err(err)
			return
		}
		ctx.Tell(ctx.Sender(), ack)
	case *workpull.DeliveryConfirmed:
		s.confirmed++
		if s.confirmed == 1 {
			close(s.begun)
		}
		if s.confirmed == s.jobs {
			close(s.done)
		}
	}
}

// sink is a worker actor that confirms at once.
type sink struct{}

// PreStart implements actor.Actor.
func (sink) PreStart(*actor.Context) error { return nil }

// PostStop implements actor.Actor.
func (sink) PostStop(*actor.Context) error { return nil }

// Receive implements actor.Actor.
func (sink) Receive(ctx *actor.ReceiveContext) {
	d, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	confirmed, err := workpull.NewConfirmed(d)
	if err != nil {
		ctx.Err(err)
		return
	}
	ctx.Tell(ctx.Sender(), confirmed)
}
