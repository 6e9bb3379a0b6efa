package producer

import (
	"log/slog"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/runtime/internal/jobpb"
	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/workpull"
)

// dispatcher is the producer endpoint: it answers the controller's requests
// with jobs from the ledger, and writes into the ledger what becomes of them.
// It is restarted in place after a panic and then hears again of everything
// that was not answered, so it keeps nothing else.
type dispatcher struct {
	ledger *ledger
	logger *slog.Logger

	credits []credit // open, in the order of their tokens
}

// credit is a request for one job that was not answered yet.
type credit struct {
	request *workpull.RequestNext
	from    *actor.PID
}

var _ actor.Actor = (*dispatcher)(nil)

// PreStart has nothing to do.
func (d *dispatcher) PreStart(*actor.Context) error {
	d.credits = nil
	return nil
}

// PostStop has nothing to do.
func (d *dispatcher) PostStop(*actor.Context) error { return nil }

// Receive handles the messages of the controller, and Wake.
func (d *dispatcher) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		if m.IsAuthorizedFor(ctx.Self(), ctx.Sender()) {
			d.request(ctx, m)
		}
	case *workpull.Stored:
		if m.IsAuthorizedFor(ctx.Self(), ctx.Sender()) {
			d.stored(ctx, m)
		}
	case *workpull.DeliveryConfirmed:
		if m.IsAuthorizedFor(ctx.Self(), ctx.Sender()) {
			d.ledger.confirm(m.MessageID())
		}
	case *jobpb.Wake:
		d.serve(ctx)
	}
}

func (d *dispatcher) request(ctx *actor.ReceiveContext, m *workpull.RequestNext) {
	if lost := d.ledger.enter(m.Session()); lost > 0 {
		d.logger.Error("the controller was restarted: jobs that it had accepted are lost", "queue", podenv.QueueMemory, "lost", lost)
	}
	if len(d.credits) > 0 && d.credits[0].request.Session() != m.Session() {
		d.credits = d.credits[:0]
	}
	if r, old := d.ledger.repeated(m.Token()); old {
		d.again(ctx, m, r)
		return
	}
	for _, c := range d.credits {
		if c.request.Token() == m.Token() {
			return
		}
	}
	d.credits = append(d.credits, credit{request: m, from: ctx.Sender()})
	d.serve(ctx)
}

// again repeats the answer to a credit, unless that is stored by now.
func (d *dispatcher) again(ctx *actor.ReceiveContext, m *workpull.RequestNext, r *record) {
	if r == nil {
		return
	}
	if produced, err := workpull.NewProduced(m, r.id, r.job); err == nil {
		ctx.Tell(ctx.Sender(), produced)
	}
}

// serve answers open credits for as long as there are jobs.
func (d *dispatcher) serve(ctx *actor.ReceiveContext) {
	for len(d.credits) > 0 {
		c := d.credits[0]
		r := d.ledger.offer(c.request.Token())
		if r == nil {
			return
		}
		produced, err := workpull.NewProduced(c.request, r.id, r.job)
		if err != nil {
			d.ledger.refuse(c.request.Token(), err)
			continue
		}
		d.ledger.answer(c.request.Token())
		d.credits = d.credits[1:]
		ctx.Tell(c.from, produced)
	}
}

func (d *dispatcher) stored(ctx *actor.ReceiveContext, m *workpull.Stored) {
	ack, err := workpull.NewStoredAck(m)
	if err != nil {
		d.logger.Error("cannot acknowledge a stored job", "id", m.MessageID(), "error", err)
		return
	}
	ctx.Tell(ctx.Sender(), ack)
	d.ledger.accept(m.Token())
}
