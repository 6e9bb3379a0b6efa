package workpull_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/remote"

	"github.com/workpull/operator/workpull"
)

// freePort is a port of a host that nobody listens on.
func freePort(host string) int {
	l := must(net.Listen("tcp", net.JoinHostPort(host, "0")))
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A worker in an actor system of its own, with remoting and without a cluster,
// finds its producer by address. The producer asks the node that the worker
// says it is on whether that is so. Who the worker is its host says: not its
// name, nor its address.
func ExampleWithReliableRemoteProducer() {
	ctx := context.Background()
	const here, there = "127.0.0.2", "127.0.0.3" // two hosts
	port := freePort(here)
	home := startJobs(ctx, actor.WithRemote(remote.NewConfig(here, port)))
	defer func() { _ = workpull.Stop(ctx, home) }()
	away := startJobs(ctx, actor.WithRemote(remote.NewConfig(there, freePort(there))))
	defer func() { _ = workpull.Stop(ctx, away) }()

	confirmed := make(chan string, 10)
	dispatcher := must(workpull.Spawn(ctx, home, "job-dispatcher", &JobDispatcher{jobs: []string{"paint"}, confirmed: confirmed},
		workpull.AsReliableWorkPullingProducer(workpull.WithReliableDeliveryConfirmation())))
	until(func() bool { return workpull.Locate(ctx, away, here, port, "job-dispatcher") == nil })
	must(workpull.Spawn(ctx, away, "job-worker", &JobWorker{do: nothing},
		workpull.AsReliableWorkPullingWorker("job-dispatcher",
			workpull.WithReliableRemoteProducer(here, port),
			workpull.WithReliableIdentity("7a1c/boot-1/job-worker"))))
	fmt.Println("confirmed:", <-confirmed)
	for _, w := range must(workpull.Inspect(ctx, dispatcher)).Workers {
		fmt.Println(w.Endpoint, "is", w.Identity)
	}
	// Output:
	// confirmed: paint
	// job-worker is 7a1c/boot-1/job-worker
}
