package worker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/runtime/internal/jobpb"
	"github.com/workpull/operator/workpull"
)

// endpoint is a worker endpoint: one job at a time. The handler runs beside
// the actor, which stays free to answer, and tells it when it has returned.
type endpoint struct {
	handler  Handler
	handlers context.Context // ends when handlers have to
	metrics  *metrics
	logger   *slog.Logger

	// Of the actor's own turns; they outlive a restart, as the handler does.
	runs    uint64
	current *task
	next    *delivery // came while another job runs
}

// delivery is a job and the controller that waits for its outcome.
type delivery struct {
	*workpull.Delivery
	from *actor.PID
}

// task is a handler at work.
type task struct {
	number uint64
	job    delivery
	begun  time.Time
	err    error // valid once Finished has come
}

var _ actor.Actor = (*endpoint)(nil)

// PreStart has nothing to do.
func (e *endpoint) PreStart(*actor.Context) error { return nil }

// PostStop has nothing to do.
func (e *endpoint) PostStop(*actor.Context) error { return nil }

// Receive handles deliveries and the ends of handlers.
func (e *endpoint) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.Delivery:
		if m.IsAuthorizedFor(ctx.Self(), ctx.Sender()) {
			e.deliver(ctx, delivery{Delivery: m, from: ctx.Sender()})
		}
	case *jobpb.Finished:
		e.finished(ctx, m.GetRun())
	}
}

// deliver starts a job, unless a handler still runs: then it is the same job,
// told again (B2), or one of a new binding, which waits (B6).
func (e *endpoint) deliver(ctx *actor.ReceiveContext, d delivery) {
	switch {
	case e.current == nil:
		e.start(ctx, d)
	case e.current.job.MessageID() == d.MessageID() && e.current.job.Attempt() == d.Attempt():
		e.current.job = d
	default:
		e.next = &d
	}
}

func (e *endpoint) start(ctx *actor.ReceiveContext, d delivery) {
	e.runs++
	r := &task{number: e.runs, job: d, begun: time.Now()}
	e.current = r
	e.metrics.running.Inc()
	self := ctx.Self()
	go func() {
		r.err = e.call(d)
		// The mailbox orders this write before the actor's read.
		if err := actor.Tell(context.WithoutCancel(e.handlers), self, &jobpb.Finished{Run: r.number}); err != nil {
			e.logger.Error("a handler returned after its endpoint had ended", "id", d.MessageID(), "error", err)
		}
	}()
}

// call runs the handler; a panic becomes an error.
func (e *endpoint) call(d delivery) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the handler panicked: %v", cause)
			e.logger.Error("a handler panicked", "id", d.MessageID(), "attempt", d.Attempt(), "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
		}
	}()
	payload, ok := d.Payload().(*jobpb.Job)
	if !ok {
		return fmt.Errorf("the payload is a %s, wanted a %s", name(d.Payload()), name(&jobpb.Job{}))
	}
	return e.handler(e.handlers, &Job{
		ID: d.MessageID(), Attempt: d.Attempt(),
		Body: payload.GetBody(), ContentType: payload.GetContentType(), Header: payload.GetHeader(),
	})
}

func name(m proto.Message) string {
	if m == nil {
		return "nil"
	}
	return string(m.ProtoReflect().Descriptor().FullName())
}

// finished tells the controller the outcome and starts what waits.
func (e *endpoint) finished(ctx *actor.ReceiveContext, number uint64) {
	r := e.current
	if r == nil || r.number != number {
		return
	}
	e.current = nil
	e.metrics.running.Dec()
	outcome, reply, err := e.outcome(r)
	e.metrics.seconds.WithLabelValues(outcome).Observe(time.Since(r.begun).Seconds())
	switch {
	case err != nil:
		e.logger.Error("cannot tell the outcome of a job", "id", r.job.MessageID(), "error", err)
	case reply != nil:
		ctx.Tell(r.job.from, reply)
	}
	if next := e.next; next != nil {
		e.next = nil
		e.start(ctx, *next)
	}
}

// Outcomes of a handler, as the metrics name them.
const (
	done        = "confirmed"
	failed      = "rejected"
	interrupted = "interrupted"
)

// outcome decides what the controller is told. A handler that gave up because
// it was told to leave says nothing of the job: that it goes to another worker
// is then no failure of the job's.
func (e *endpoint) outcome(r *task) (string, proto.Message, error) {
	switch {
	case r.err == nil:
		reply, err := workpull.NewConfirmed(r.job.Delivery)
		return done, reply, err
	case e.handlers.Err() != nil:
		return interrupted, nil, nil
	}
	e.logger.Warn("a job was rejected", "id", r.job.MessageID(), "attempt", r.job.Attempt(), "error", r.err)
	reply, err := workpull.NewRejected(r.job.Delivery, r.err.Error())
	return failed, reply, err
}
