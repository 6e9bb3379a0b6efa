package workpull_test

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// Retire has a producer give a worker nothing more, whatever the worker does;
// Release ends that. A worker that is not registered is unknown: it may hold
// anything.
func ExampleRetire() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()

	stored, confirmed := make(chan string, 10), make(chan string, 10)
	dispatcher := must(workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{jobs: []string{"first"}, stored: stored, confirmed: confirmed},
		workpull.AsReliableWorkPullingProducer(
			workpull.WithReliableStoreAhead(10), // a retired worker asks for nothing
			workpull.WithReliableDeliveryConfirmation())))
	must(workpull.Spawn(ctx, system, "job-worker", &JobWorker{do: nothing},
		workpull.AsReliableWorkPullingWorker("job-dispatcher", workpull.WithReliableIdentity("pod-1"))))
	fmt.Println("stored:", <-stored, "confirmed:", <-confirmed)

	for _, identity := range []string{"pod-1", "pod-2"} {
		r := must(workpull.Retire(ctx, dispatcher, identity))
		fmt.Println(identity, "known:", r.Known, "holds:", r.Held)
	}
	if err := system.NoSender().Tell(ctx, dispatcher, wrapperspb.String("second")); err != nil {
		panic(err)
	}
	job := <-stored
	fmt.Println(job, "is", must(workpull.Explain(ctx, dispatcher, job)).State)

	if err := workpull.Release(ctx, dispatcher, "pod-1"); err != nil {
		panic(err)
	}
	fmt.Println("confirmed:", <-confirmed)
	// Output:
	// stored: first confirmed: first
	// pod-1 known: true holds: 0
	// pod-2 known: false holds: 0
	// second is waiting
	// confirmed: second
}
