package workpull_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/workpull/operator/workpull"
)

// A worker that cannot do a job rejects it. The job waits its backoff and is
// given out again; after its last attempt it is a dead letter with its
// history, which can be listed, given another chance, or dropped.
func ExampleWithReliableRetryPolicy() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()
	events := must(workpull.Subscribe(ctx, system))
	defer events.Close()

	confirmed := make(chan string, 10)
	dispatcher := must(workpull.Spawn(ctx, system, "job-dispatcher", &JobDispatcher{jobs: []string{"print", "scan"}, confirmed: confirmed},
		workpull.AsReliableWorkPullingProducer(
			workpull.WithReliableRetryPolicy(2, 10*time.Millisecond),
			workpull.WithReliableRetryInterval(20*time.Millisecond), // when the backoff is looked at
			workpull.WithReliableDeliveryConfirmation())))
	var paper atomic.Bool
	must(workpull.Spawn(ctx, system, "job-worker", &JobWorker{do: func(d *workpull.Delivery) error {
		if d.MessageID() == "print" && !paper.Load() {
			return errors.New("out of paper")
		}
		return nil
	}}, workpull.AsReliableWorkPullingWorker("job-dispatcher")))

	fmt.Println("confirmed:", <-confirmed)
	dead := <-events.DeadLetters()
	fmt.Println("dead:", dead.Job().MessageID, "of", dead.Endpoint())
	for _, letter := range must(workpull.DeadLetters(ctx, dispatcher, 100)) {
		for _, failed := range letter.History {
			fmt.Println("attempt", failed.Attempt, "of", letter.MessageID, "failed:", failed.Reason)
		}
	}

	paper.Store(true)
	if err := workpull.Redrive(ctx, dispatcher, "print"); err != nil {
		panic(err)
	}
	fmt.Println("confirmed:", <-confirmed)
	fmt.Println("nothing to drop:", errors.Is(workpull.Drop(ctx, dispatcher, "print"), workpull.ErrNoDeadLetter))
	// Output:
	// confirmed: scan
	// dead: print of job-dispatcher
	// attempt 1 of print failed: out of paper
	// attempt 2 of print failed: out of paper
	// confirmed: print
	// nothing to drop: true
}
