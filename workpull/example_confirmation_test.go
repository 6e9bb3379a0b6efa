package workpull_test

import (
	"context"
	"fmt"

	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// Orders is a producer that keeps account of what it gave away: a number in
// the order of the stored jobs when a job is accepted, and the same number
// again when the job is done.
type Orders struct {
	list     []string
	answered *workpull.Produced
	notices  chan<- string
}

func (o *Orders) PreStart(*actor.Context) error { return nil }
func (o *Orders) PostStop(*actor.Context) error { return nil }

func (o *Orders) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *workpull.RequestNext:
		if !m.IsAuthorizedFor(ctx.Self(), ctx.Sender()) {
			return // not from this endpoint's own controller
		}
		if o.answered == nil || o.answered.Token() != m.Token() {
			if len(o.list) == 0 {
				return // it comes again
			}
			o.answered = must(workpull.NewProduced(m, o.list[0], wrapperspb.String("an order")))
			o.list = o.list[1:]
		}
		ctx.Tell(ctx.Sender(), o.answered)
	case *workpull.Stored:
		ctx.Tell(ctx.Sender(), must(workpull.NewStoredAck(m)))
	case *workpull.DeliveryConfirmed:
		o.notices <- fmt.Sprintf("%s is done, number %d", m.MessageID(), m.StoreSequence())
	}
}

// With WithReliableDeliveryConfirmation the producer actor is told of each job
// that a worker has done. The notice is best effort and may repeat.
func ExampleWithReliableDeliveryConfirmation() {
	ctx := context.Background()
	system := startJobs(ctx)
	defer func() { _ = workpull.Stop(ctx, system) }()

	notices := make(chan string, 10)
	must(workpull.Spawn(ctx, system, "orders", &Orders{list: []string{"bread", "milk", "tea"}, notices: notices},
		workpull.AsReliableWorkPullingProducer(workpull.WithReliableDeliveryConfirmation())))
	must(workpull.Spawn(ctx, system, "baker", &JobWorker{do: nothing},
		workpull.AsReliableWorkPullingWorker("orders")))
	for range 3 {
		fmt.Println(<-notices)
	}
	// Output:
	// bread is done, number 1
	// milk is done, number 2
	// tea is done, number 3
}
