package workpull_test

import (
	"context"
	"fmt"
	"time"

	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/workpull"
)

// With a durable queue a job that was stored is done whatever becomes of the
// producer: its successor loads the queue and goes on. A MessageID that is done
// stays known for the deduplication window, so that a client that never heard of
// it may send the job again. An attempt that still runs would go on under the
// successor: jobs that it loads are held back until workers had the time to say
// what they run.
func ExampleWithReliableDurableWorkQueue() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()
	defer memory.Drop("jobs")
	options := workpull.AsReliableWorkPullingProducer(
		workpull.WithReliableDurableWorkQueue(memory.New("jobs")),
		workpull.WithReliableQueueRetry(3, 100*time.Millisecond),
		workpull.WithReliableStoreAhead(10),
		workpull.WithReliableDeduplicationWindow(time.Hour),
		workpull.WithReliableAdoption(10*time.Millisecond),
		workpull.WithReliableDeliveryConfirmation())

	jobs := []string{"a", "b"}
	stored := make(chan string, len(jobs))
	first := must(workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{jobs: jobs, stored: stored}, options))
	fmt.Println("stored:", <-stored, <-stored)
	_ = first.Shutdown(ctx)

	// The client of "b" did not hear that it was stored, and sends it again.
	confirmed := make(chan string, 10)
	must(workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{jobs: []string{"b", "c"}, confirmed: confirmed}, options))
	runs := make(chan string, 10)
	must(workpull.Spawn(ctx, system, "job-worker", &JobWorker{do: func(d *workpull.Delivery) error {
		runs <- d.MessageID()
		return nil
	}}, workpull.AsReliableWorkPullingWorker("job-dispatcher")))
	done := map[string]bool{}
	for len(done) < 3 {
		done[<-confirmed] = true
	}
	fmt.Println("done:", len(done), "of which ran:", len(runs))
	// Output:
	// stored: a b
	// done: 3 of which ran: 3
}
