package workpull_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/workpull/operator/workpull"
)

// Inspect tells what a producer's controller holds, at the cost of a look at
// each worker; Explain tells where one job is and why.
func ExampleInspect() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()

	stored, confirmed := make(chan string, 10), make(chan string, 10)
	dispatcher := must(workpull.Spawn(ctx, system, "job-dispatcher",
		&JobDispatcher{jobs: []string{"broken", "long", "next"}, stored: stored, confirmed: confirmed},
		workpull.AsReliableWorkPullingProducer(
			workpull.WithReliableRetryPolicy(5, time.Hour),
			workpull.WithReliableDeliveryConfirmation())))
	running, finish := make(chan struct{}), make(chan struct{})
	must(workpull.Spawn(ctx, system, "job-worker", &JobWorker{do: func(d *workpull.Delivery) error {
		switch d.MessageID() {
		case "broken":
			return errors.New("a bolt is missing")
		case "long":
			close(running)
			<-finish
		}
		return nil
	}}, workpull.AsReliableWorkPullingWorker("job-dispatcher", workpull.WithReliableIdentity("pod-1"))))
	<-running
	for range 3 {
		<-stored
	}
	until(func() bool { return must(workpull.Explain(ctx, dispatcher, "broken")).State == "delayed" })

	state := must(workpull.Inspect(ctx, dispatcher))
	fmt.Println("in flight", state.InFlight, "delayed", state.Delayed, "rejected", state.Rejected)
	fmt.Println(state.Workers[0].Identity, "runs", state.Workers[0].RunningID)
	broken := must(workpull.Explain(ctx, dispatcher, "broken"))
	fmt.Println("broken is", broken.State, "for attempt", broken.Attempt, "since", broken.History[0].Reason)
	next := must(workpull.Explain(ctx, dispatcher, "next"))
	fmt.Println("next is", next.State, "at", next.Worker)

	close(finish)
	fmt.Println("confirmed:", <-confirmed, <-confirmed)
	_, err := workpull.Explain(ctx, dispatcher, "long")
	fmt.Println("long is done:", errors.Is(err, workpull.ErrUnknownJob))
	// Output:
	// in flight 2 delayed 1 rejected 1
	// pod-1 runs long
	// broken is delayed for attempt 2 since a bolt is missing
	// next is buffered at pod-1
	// confirmed: long next
	// long is done: true
}
