package main

import (
	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/queue/internal/crash"
	"github.com/workpull/operator/workpull"
)

// credit is a RequestNext, which may come again.
type credit struct{ session, token uint64 }

// dispatcher is the producer actor. It hands out its jobs, one for each credit.
type dispatcher struct {
	jobs     []string
	book     *crash.Log
	answered map[credit]bool
}

func newDispatcher(jobs []string, book *crash.Log) *dispatcher {
	return &dispatcher{jobs: jobs, book: book, answered: map[credit]bool{}}
}

func (d *dispatcher) PreStart(*actor.Context) error { return nil }
func (d *dispatcher) PostStop(*actor.Context) error { return nil }

func (d *dispatcher) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		c := credit{m.Session(), m.Token()}
		if d.answered[c] || len(d.jobs) == 0 {
			return
		}
		job := d.jobs[0]
		produced, err := workpull.NewProduced(m, job, wrapperspb.String(job))
		if err != nil {
			d.book.Write(crash.Failed, err.Error())
			return
		}
		d.jobs, d.answered[c] = d.jobs[1:], true
		d.book.Write(crash.Offered, job)
		ctx.Tell(ctx.Sender(), produced)
	case *workpull.Stored:
		d.book.Write(crash.Acknowledged, m.MessageID())
		ack, err := workpull.NewStoredAck(m)
		if err != nil {
			d.book.Write(crash.Failed, err.Error())
			return
		}
		ctx.Tell(ctx.Sender(), ack)
	case *workpull.DeliveryConfirmed:
		d.book.Write(crash.Confirmed, m.MessageID())
	}
}

// worker does a job by writing that it does.
type worker struct{ book *crash.Log }

func (w *worker) PreStart(*actor.Context) error { return nil }
func (w *worker) PostStop(*actor.Context) error { return nil }

func (w *worker) Receive(ctx *actor.ReceiveContext) {
	d, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	w.book.Write(crash.Run, d.MessageID())
	if p, ok := d.Payload().(*wrapperspb.StringValue); !ok || p.GetValue() != d.MessageID() {
		w.book.Write(crash.Failed, "the payload of "+d.MessageID()+" is another's")
	}
	confirmed, err := workpull.NewConfirmed(d)
	if err != nil {
		w.book.Write(crash.Failed, err.Error())
		return
	}
	w.book.Write(crash.Ran, d.MessageID())
	ctx.Tell(ctx.Sender(), confirmed)
}
