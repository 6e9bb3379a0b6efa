package workpull_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// JobDispatcher produces jobs, one for each RequestNext.
type JobDispatcher struct {
	produced int
	last     *workpull.Produced
	done     sync.WaitGroup
}

func (d *JobDispatcher) PreStart(*actor.Context) error { return nil }
func (d *JobDispatcher) PostStop(*actor.Context) error { return nil }

func (d *JobDispatcher) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		switch {
		case d.last != nil && d.last.Session() == m.Session() && d.last.Token() == m.Token():
			ctx.Tell(ctx.Sender(), d.last) // asked again: the same answer
		case d.produced < 30:
			d.produced++
			job := fmt.Sprintf("job-%d", d.produced)
			produced, err := workpull.NewProduced(m, job, wrapperspb.String("resize "+job))
			if err != nil {
				ctx.Err(err)
				return
			}
			d.last = produced
			ctx.Tell(ctx.Sender(), produced)
		}
	case *workpull.Stored:
		ack, err := workpull.NewStoredAck(m)
		if err != nil {
			ctx.Err(err)
			return
		}
		ctx.Tell(ctx.Sender(), ack)
	case *workpull.DeliveryConfirmed:
		d.done.Done()
	}
}

// JobWorker does one job at a time.
type JobWorker struct{}

func (w *JobWorker) PreStart(*actor.Context) error { return nil }
func (w *JobWorker) PostStop(*actor.Context) error { return nil }

func (w *JobWorker) Receive(ctx *actor.ReceiveContext) {
	if m, ok := ctx.Message().(*workpull.Delivery); ok {
		_ = m.Payload().(*wrapperspb.StringValue).GetValue() // the work
		confirmed, err := workpull.NewConfirmed(m)
		if err != nil {
			ctx.Err(err)
			return
		}
		ctx.Tell(ctx.Sender(), confirmed)
	}
}

// A dispatcher and three workers: each pulls up to ten jobs at its own pace,
// and every job is confirmed.
func Example() {
	ctx := context.Background()
	system, err := actor.NewActorSystem("jobs", actor.WithLogger(log.DiscardLogger))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := system.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = workpull.Stop(ctx, system) }()

	jobs := &JobDispatcher{}
	jobs.done.Add(30)
	dispatcher, err := workpull.Spawn(ctx, system, "job-dispatcher", jobs,
		workpull.AsReliableWorkPullingProducer(
			workpull.WithReliableDeliveryConfirmation()))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"job-worker-1", "job-worker-2", "job-worker-3"} {
		if _, err := workpull.Spawn(ctx, system, name, &JobWorker{},
			workpull.AsReliableWorkPullingWorker("job-dispatcher",
				workpull.WithReliableFlowControlWindow(10),
				workpull.WithReliableResendInterval(100*time.Millisecond))); err != nil {
			fmt.Println(err)
			return
		}
	}
	jobs.done.Wait()
	state, err := workpull.Inspect(ctx, dispatcher)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("accepted", state.Accepted, "confirmed", state.Confirmed, "waiting", state.Waiting)
	// Output: accepted 30 confirmed 30 waiting 0
}
