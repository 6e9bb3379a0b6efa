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
// Jobs are kept in the memory of the producer's controller and end with it,
// unless they are kept in a queue: see WithReliableDurableWorkQueue. With one,
// Stored and DeliveryConfirmed are told when they are durable. The producer actor
// keeps a job until it is told Stored: a RequestNext of another session says that
// whoever asked before has ended.
//
// # Failures
//
// Subscribe gives the terminal failures of controllers and the jobs that are
// out of attempts. Inspect tells what a producer's controller holds, Explain
// where one job is, WorkerStatus what a worker holds. Drain has a worker leave
// in order, Retire has a producer give a worker nothing more.
//
// # A map of the package
//
// Each part has an example that runs, in the file that is named.
//
//   - The whole, in small, and a dispatcher and a worker to begin with: Spawn,
//     AsReliableWorkPullingProducer, AsReliableWorkPullingWorker, Inspect and
//     Stop (example_test.go).
//   - Confirmation notices: WithReliableDeliveryConfirmation, DeliveryConfirmed
//     and IsAuthorizedFor (example_confirmation_test.go).
//   - Failure events: Subscribe, ReliableDeliveryFailed and ReSpawn
//     (example_failure_test.go).
//   - Rejection, attempts and dead letters: NewRejected,
//     WithReliableRetryPolicy, DeadLetters, Redrive and Drop
//     (example_rejection_test.go).
//   - Drain of a worker: Drain (example_drain_test.go).
//   - Retirement by the producer: Retire and Release (example_retire_test.go).
//   - Jobs before there are workers, and several credits:
//     WithReliableStoreAhead, WithReliableCredits (example_store_ahead_test.go).
//   - A worker attached by address: WithReliableRemoteProducer,
//     WithReliableIdentity and Locate (example_attached_test.go).
//   - A queue that outlives the controller, deduplication and adoption:
//     WithReliableDurableWorkQueue, WithReliableDeduplicationWindow,
//     WithReliableAdoption (example_queue_test.go).
//   - Snapshot and explanation: Inspect, Explain (example_inspect_test.go).
//
// Beneath the package, internal/core holds both controllers as pure state
// machines, internal/codec and internal/wire what they say to each other
// between nodes, internal/outbox how it is sent.
//
// # Members that leave
//
// In a cluster an endpoint goes to another member when its own is stopped with
// Stop, if its kind is known there: see Register and WithRelocationDisabled.
//
// # The end
//
// Stop the actor system with Stop, not with its own method: see there.
package workpull
