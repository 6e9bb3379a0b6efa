package workpull_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// JobDispatcher produces jobs, one for each RequestNext: those that it begins
// with, and those that it is told of as a StringValue.
type JobDispatcher struct {
	jobs      []string
	stored    chan<- string // told of each job that is accepted, if not nil
	confirmed chan<- string // told of each job that is done, if not nil

	session    uint64
	controller *actor.PID                    // who asks
	open       []*workpull.RequestNext       // requests that wait for a job
	answers    map[uint64]*workpull.Produced // by token, until Stored
}

func (d *JobDispatcher) PreStart(*actor.Context) error { return nil }
func (d *JobDispatcher) PostStop(*actor.Context) error { return nil }

func (d *JobDispatcher) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		d.requested(ctx, m)
	case *wrapperspb.StringValue:
		d.jobs = append(d.jobs, m.GetValue())
	case *workpull.Stored:
		ctx.Tell(ctx.Sender(), must(workpull.NewStoredAck(m)))
		if _, first := d.answers[m.Token()]; first && d.stored != nil {
			d.stored <- m.MessageID()
		}
		delete(d.answers, m.Token())
	case *workpull.DeliveryConfirmed:
		if d.confirmed != nil {
			d.confirmed <- m.MessageID()
		}
	}
	d.offer(ctx)
}

// requested notes a request. One that comes again gets the answer that it got.
func (d *JobDispatcher) requested(ctx *actor.ReceiveContext, m *workpull.RequestNext) {
	if d.session != m.Session() { // the controller started anew
		d.session, d.open, d.answers = m.Session(), nil, map[uint64]*workpull.Produced{}
	}
	d.controller = ctx.Sender()
	if answer, answered := d.answers[m.Token()]; answered {
		ctx.Tell(d.controller, answer)
		return
	}
	for _, r := range d.open {
		if r.Token() == m.Token() {
			return
		}
	}
	d.open = append(d.open, m)
}

// offer answers as many requests as there are jobs.
func (d *JobDispatcher) offer(ctx *actor.ReceiveContext) {
	for len(d.open) > 0 && len(d.jobs) > 0 {
		request, job := d.open[0], d.jobs[0]
		d.open, d.jobs = d.open[1:], d.jobs[1:]
		produced := must(workpull.NewProduced(request, job, wrapperspb.String(job)))
		d.answers[request.Token()] = produced
		ctx.Tell(d.controller, produced)
	}
}

// JobWorker does one job at a time. A job that ends with an error is rejected.
type JobWorker struct {
	do func(*workpull.Delivery) error
}

func (w *JobWorker) PreStart(*actor.Context) error { return nil }
func (w *JobWorker) PostStop(*actor.Context) error { return nil }

func (w *JobWorker) Receive(ctx *actor.ReceiveContext) {
	delivery, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	if err := w.do(delivery); err != nil {
		ctx.Tell(ctx.Sender(), must(workpull.NewRejected(delivery, err.Error())))
		return
	}
	ctx.Tell(ctx.Sender(), must(workpull.NewConfirmed(delivery)))
}

// nothing is a job that takes no time and always succeeds.
func nothing(*workpull.Delivery) error { return nil }

// must keeps the examples short: a real program handles its errors.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// startJobs starts an actor system.
func startJobs(ctx context.Context, options ...actor.Option) actor.ActorSystem {
	system := must(actor.NewActorSystem("jobs", append(options, actor.WithLogger(log.DiscardLogger))...))
	if err := system.Start(ctx); err != nil {
		panic(err)
	}
	return system
}

// until waits for what nobody announces, half a minute at most.
func until(condition func() bool) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); !condition(); <-ticker.C {
		if time.Now().After(deadline) {
			panic("waited for half a minute")
		}
	}
}

// A dispatcher and three workers: each pulls up to ten jobs at its own pace,
// and every job is confirmed.
func Example() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()

	var jobs []string
	for i := range 30 {
		jobs = append(jobs, fmt.Sprint("image-", i))
	}
	confirmed := make(chan string, len(jobs))
	dispatcher := must(workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{jobs: jobs, confirmed: confirmed},
		workpull.AsReliableWorkPullingProducer(
			workpull.WithReliableDeliveryConfirmation())))
	for _, name := range []string{"job-worker-1", "job-worker-2", "job-worker-3"} {
		must(workpull.Spawn(ctx, system, name, &JobWorker{do: nothing},
			workpull.AsReliableWorkPullingWorker("job-dispatcher",
				workpull.WithReliableFlowControlWindow(10))))
	}
	for range jobs {
		<-confirmed
	}
	state := must(workpull.Inspect(ctx, dispatcher))
	fmt.Println("accepted", state.Accepted, "confirmed", state.Confirmed, "waiting", state.Waiting)
	// Output: accepted 30 confirmed 30 waiting 0
}
