// Package workpull is the work-pulling pattern on GoAkt v3: one producer, a
// dynamic set of uniform workers, each job handed to exactly one worker at a
// time, each worker pulling at its own pace.
//
// # Producer
//
// A producer endpoint is an actor spawned with AsReliableWorkPullingProducer.
// It is asked for a job by RequestNext and answers with Produced. Once its job
// is stored it is told Stored and answers with StoredAck; the job is accepted
// from then on. With WithReliableDeliveryConfirmation it is told
// DeliveryConfirmed when a worker has done the job.
//
//	dispatcher, err := workpull.Spawn(ctx, system, "dispatcher", &Dispatcher{},
//		workpull.AsReliableWorkPullingProducer(
//			workpull.WithReliableStoreAhead(1000),
//			workpull.WithReliableDeliveryConfirmation()))
//
// # Worker
//
// A worker endpoint is an actor spawned with AsReliableWorkPullingWorker. It
// is given one Delivery at a time and answers with Confirmed, or with Rejected
// when it cannot do the job now. It finds its producer in its own system, in
// its cluster, or with WithReliableRemoteProducer at an address.
//
//	_, err := workpull.Spawn(ctx, system, "worker-1", &Worker{},
//		workpull.AsReliableWorkPullingWorker("dispatcher",
//			workpull.WithReliableFlowControlWindow(10)))
//
// # What is guaranteed
//
// Nothing is sent to a worker beyond the demand that it granted. A job is at
// one worker at a time; what a worker held when it ended goes back to the head
// of the queue. A live worker's running job never expires, however long it
// takes. A job may run twice when its worker was cut off for longer than the
// lease, or died between the end of the job and its confirmation: handlers
// should be idempotent, and Delivery.AttemptToken fences their side effects.
//
// Jobs are kept in the memory of the producer's controller: they end with it.
//
// # Failures
//
// Subscribe gives the terminal failures of controllers and the jobs that are
// out of attempts. Inspect tells what a producer's controller holds, Explain
// where one job is, WorkerStatus what a worker holds. Drain has a worker leave
// in order, Retire has a producer give a worker nothing more.
//
// # The end
//
// Stop the actor system with Stop, not with its own method: see there.
package workpull
