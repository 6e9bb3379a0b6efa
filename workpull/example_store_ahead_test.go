package workpull_test

import (
	"context"
	"fmt"

	"github.com/workpull/operator/workpull"
)

// Jobs are accepted before there is a worker, up to a bound; past it no
// RequestNext is open, which is the backpressure. With several credits the
// producer need not wait for one job to be stored before it offers the next.
func ExampleWithReliableStoreAhead() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()

	jobs := []string{"a", "b", "c", "d", "e"}
	stored, confirmed := make(chan string, len(jobs)), make(chan string, len(jobs))
	dispatcher := must(workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{jobs: jobs, stored: stored, confirmed: confirmed},
		workpull.AsReliableWorkPullingProducer(
			workpull.WithReliableStoreAhead(3),
			workpull.WithReliableCredits(2),
			workpull.WithReliableDeliveryConfirmation())))
	fmt.Println("stored:", <-stored, <-stored, <-stored)
	state := must(workpull.Inspect(ctx, dispatcher))
	fmt.Println("workers", len(state.Workers), "accepted", state.Accepted, "waiting", state.Waiting)

	must(workpull.Spawn(ctx, system, "job-worker", &JobWorker{do: nothing},
		workpull.AsReliableWorkPullingWorker("job-dispatcher")))
	for range jobs {
		fmt.Println("confirmed:", <-confirmed)
	}
	// Output:
	// stored: a b c
	// workers 0 accepted 3 waiting 3
	// confirmed: a
	// confirmed: b
	// confirmed: c
	// confirmed: d
	// confirmed: e
}
