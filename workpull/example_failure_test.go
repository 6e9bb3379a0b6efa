package workpull_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// Careless is a dispatcher that answers one request with two jobs, once.
type Careless struct {
	JobDispatcher
	careful bool
}

func (c *Careless) Receive(ctx *actor.ReceiveContext) {
	request, ok := ctx.Message().(*workpull.RequestNext)
	if c.careful || !ok {
		c.JobDispatcher.Receive(ctx)
		return
	}
	c.careful = true
	for _, job := range []string{"one", "two"} {
		ctx.Tell(ctx.Sender(), must(workpull.NewProduced(request, job, wrapperspb.String(job))))
	}
}

// A producer actor that breaks the protocol loses its controller: subscribers
// are told once. The actor lives, and ReSpawn gives it a new controller.
func ExampleSubscribe() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()
	events := must(workpull.Subscribe(ctx, system))
	defer events.Close()

	confirmed := make(chan string, 10)
	must(workpull.Spawn(ctx, system, "job-dispatcher", &Careless{JobDispatcher: JobDispatcher{jobs: []string{"three"}, confirmed: confirmed}},
		workpull.AsReliableWorkPullingProducer(workpull.WithReliableDeliveryConfirmation())))
	must(workpull.Spawn(ctx, system, "job-worker", &JobWorker{do: nothing},
		workpull.AsReliableWorkPullingWorker("job-dispatcher",
			workpull.WithReliableResendInterval(20*time.Millisecond)))) // when it looks for its producer

	failed := <-events.C()
	fmt.Println("the", failed.Role(), "controller of", failed.Endpoint(), "failed at stage", failed.Stage())
	fmt.Println(failed.Err())

	must(workpull.ReSpawn(ctx, system, "job-dispatcher"))
	fmt.Println("confirmed:", <-confirmed)
	// Output:
	// the producer controller of job-dispatcher failed at stage protocol
	// protocol violation: token 1 was answered with "one" before and with "two" now
	// confirmed: three
}
