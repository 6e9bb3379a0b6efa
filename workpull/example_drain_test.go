package workpull_test

import (
	"context"
	"fmt"

	"github.com/workpull/operator/workpull"
)

// Drain has a worker leave in order: what it has not started goes to others at
// once, what it runs is finished, and then Drain returns.
func ExampleDrain() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()

	confirmed := make(chan string, 10)
	must(workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{jobs: []string{"long", "short"}, confirmed: confirmed},
		workpull.AsReliableWorkPullingProducer(workpull.WithReliableDeliveryConfirmation())))
	running, finish := make(chan struct{}), make(chan struct{})
	leaving := must(workpull.Spawn(ctx, system, "leaving", &JobWorker{do: func(*workpull.Delivery) error {
		close(running)
		<-finish
		return nil
	}}, workpull.AsReliableWorkPullingWorker("job-dispatcher")))
	<-running

	drained := make(chan error)
	go func() { drained <- workpull.Drain(ctx, leaving) }()
	must(workpull.Spawn(ctx, system, "staying", &JobWorker{do: nothing},
		workpull.AsReliableWorkPullingWorker("job-dispatcher")))
	fmt.Println("confirmed:", <-confirmed)
	close(finish)
	fmt.Println("confirmed:", <-confirmed)
	fmt.Println("drained:", <-drained == nil)
	// Output:
	// confirmed: short
	// confirmed: long
	// drained: true
}
