// Package control is what the operator and a producer's pod say to each other:
// the gRPC service workpull.control.v1, its server and its client.
//
// The producer's controller grants every job, so it knows what waits, what runs
// and who is idle. It pushes that to the operator (Client.Watch), which decides
// by it who comes and who goes, and has workers retired before it takes them
// away (Client.Retire, B13).
//
// The server is in the producer's pod:
//
//	listener, err := net.Listen("tcp", address)
//	err = control.Serve(ctx, listener, endpoint.New(pid, links.Pods))
//
// Package endpoint has the Source that the work-pulling library stands behind;
// this package and the client know nothing of it, nor of GoAkt. Whoever stands in
// for a producer, as a load test does, serves a Source of its own.
//
// The client is the operator's, one for each producer:
//
//	client, err := control.Dial("dns:///emails-control.shop.svc:9004", credentials)
//	client.Watch(ctx, func(view control.View) { … })
//
// # What is not known
//
// A number that is absent on the wire is not known, which is neither zero nor
// what it was before: every number is a Known. A View grows stale 5 s after the
// last state came, whatever the reason, and says since when; nothing is ever
// guessed. A worker that the controller has no binding with is unknown and may
// hold anything.
//
// # What it costs
//
// One inspection of the controller, whose cost goes with the number of workers,
// serves all watchers, and none is made while nobody watches. States are pushed
// at least once a second, and at once when waiting jobs or idle workers come to
// be or cease; after each there is a pause of 50 ms, or of twenty times what it
// took. A watcher is sent what has changed since the state that it was sent
// before. One that reads slowly skips states: all that is kept for it is the
// state it has, and one message of 1 MiB at most. There are 16 watchers at most.
//
// Rates are measured all the time, by a question of constant cost, so that they
// are known at once to an operator that has just started.
//
// # Security
//
// There are no credentials yet: both ends take gRPC options (grpc.Creds and
// interceptors for Serve, grpc.WithTransportCredentials for Dial) so that mutual
// TLS and a check of the operator's identity can be added without a change here.
// Dial refuses to go without any: who wants a connection in the clear says
// insecure.NewCredentials().
package control
