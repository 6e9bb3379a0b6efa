package main

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// payloadBytes is the size of every job.
const payloadBytes = 200

// noise is what a payload consists of: the same bytes each time, but none that
// a network would compress.
var noise = func() [payloadBytes]byte {
	var b [payloadBytes]byte
	_, _ = rand.NewChaCha8([32]byte{}).Read(b[:]) // it does not fail
	return b
}()

// stamped is a payload that begins with a number.
func stamped(number uint64) proto.Message {
	payload := slices.Clone(noise[:])
	binary.LittleEndian.PutUint64(payload, number)
	return wrapperspb.Bytes(payload)
}

// stampOf is the number with which a delivery's payload begins.
func stampOf(d *workpull.Delivery) uint64 {
	return binary.LittleEndian.Uint64(d.Payload().(*wrapperspb.BytesValue).GetValue())
}

// credits are the requests that a producer actor has not answered, oldest
// first.
type credits struct {
	granted    uint64 // highest token
	open       []*workpull.RequestNext
	controller *actor.PID // whose they are
}

// grant notes a request, but not its repetition.
func (c *credits) grant(ctx *actor.ReceiveContext, m *workpull.RequestNext) {
	if m.Token() > c.granted {
		c.granted, c.controller = m.Token(), ctx.Sender()
		c.open = append(c.open, m)
	}
}

// offer answers the oldest request.
func (c *credits) offer(ctx *actor.ReceiveContext, id int, payload proto.Message) {
	produced, err := workpull.NewProduced(c.open[0], strconv.Itoa(id), payload)
	if err != nil {
		ctx.Err(err)
		return
	}
	c.open = slices.Delete(c.open, 0, 1) // keeps its place: nothing is allocated that is not the pattern's
	ctx.Tell(c.controller, produced)
}

// acknowledge answers Stored.
func acknowledge(ctx *actor.ReceiveContext, m *workpull.Stored) {
	ack, err := workpull.NewStoredAck(m)
	if err != nil {
		ctx.Err(err)
		return
	}
	ctx.Tell(ctx.Sender(), ack)
}

// quiet is what the actors here do at start and stop.
type quiet struct{}

// PreStart implements actor.Actor.
func (quiet) PreStart(*actor.Context) error { return nil }

// PostStop implements actor.Actor.
func (quiet) PostStop(*actor.Context) error { return nil }

// source is a producer actor that answers every request at once, from when it
// is opened.
type source struct {
	quiet
	credits
	payload   proto.Message
	begun     bool
	offered   int
	confirmed atomic.Int64
}

func newSource() *source { return &source{payload: stamped(0)} }

// Receive implements actor.Actor.
func (s *source) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		s.grant(ctx, m)
		s.offerAll(ctx)
	case *emptypb.Empty:
		s.begun = true
		s.offerAll(ctx)
	case *workpull.Stored:
		acknowledge(ctx, m)
	case *workpull.DeliveryConfirmed:
		s.confirmed.Add(1)
	}
}

func (s *source) offerAll(ctx *actor.ReceiveContext) {
	for s.begun && len(s.open) > 0 {
		s.offered++
		s.offer(ctx, s.offered, s.payload)
	}
}

// sink is a worker actor that confirms.
type sink struct {
	quiet
	handle func(d *workpull.Delivery) // if there is one
	done   *atomic.Int64              // counts jobs, if there is one
}

// Receive implements actor.Actor.
func (s *sink) Receive(ctx *actor.ReceiveContext) {
	d, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	if s.handle != nil {
		s.handle(d)
	}
	if s.done != nil {
		s.done.Add(1)
	}
	confirmed, err := workpull.NewConfirmed(d)
	if err != nil {
		ctx.Err(err)
		return
	}
	ctx.Tell(ctx.Sender(), confirmed)
}
