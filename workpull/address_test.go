package workpull_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/address"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/workpull"
	"github.com/workpull/operator/workpull/internal/wire"
)

// Workers without cluster membership find the producer by address (B14), and
// by a name that resolves to it (part 5, trap 7).
func TestJobsByAddress(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost"} {
		t.Run(host, func(t *testing.T) {
			home, port := startRemote(t)
			away, awayPort := startRemote(t)
			l := newLedger()
			var all sync.WaitGroup
			all.Add(3)
			for _, name := range []string{"w1", "w2", "w3"} {
				var first sync.Once
				spawnWorker(t, away, name, &worker{ledger: l, handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
					first.Do(func() { all.Done(); all.Wait() })
					return true
				}}, workpull.WithReliableFlowControlWindow(10), workpull.WithReliableRemoteProducer(host, port))
			}
			d := newDispatcher(jobNames(300)...)
			producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation())
			require.Eventually(t, func() bool { return d.confirmations() == 300 }, patience, glance)
			for _, job := range jobNames(300) {
				require.Equal(t, 1, l.ran(job), job)
			}
			s := inspectProducer(t, producer)
			require.Len(t, s.Workers, 3)
			for _, w := range s.Workers {
				require.Equal(t, hostPort(awayPort), w.Host)
			}
		})
	}
}

// A worker far away and one of the producer's own system serve one producer
// at once (B14).
func TestWorkersNearAndFar(t *testing.T) {
	home, port := startRemote(t)
	away, _ := startRemote(t)
	d := newDispatcher(jobNames(100)...)
	l := newLedger()
	var all sync.WaitGroup
	all.Add(2)
	handle := func() func(*actor.ReceiveContext, *workpull.Delivery) bool {
		var first sync.Once
		return func(*actor.ReceiveContext, *workpull.Delivery) bool {
			first.Do(func() { all.Done(); all.Wait() })
			return true
		}
	}
	spawnWorker(t, home, "near", &worker{ledger: l, handle: handle()})
	spawnWorker(t, away, "far", &worker{ledger: l, handle: handle()}, workpull.WithReliableRemoteProducerFunc(
		func(context.Context) (string, int, error) { return "127.0.0.1", port, nil }))
	spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation())
	require.Eventually(t, func() bool { return d.confirmations() == 100 }, patience, glance)
	require.Equal(t, 100, l.distinct())
}

// The address is asked for anew at each attempt, and a function that fails or
// panics costs an attempt and no more.
func TestTheAddressIsResolvedAnew(t *testing.T) {
	home, port := startRemote(t)
	away, _ := startRemote(t)
	d := newDispatcher(jobNames(5)...)
	spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation())
	var calls atomic.Int32
	spawnWorker(t, away, "w", &worker{}, workpull.WithReliableRemoteProducerFunc(func(context.Context) (string, int, error) {
		switch calls.Add(1) {
		case 1:
			return "", 0, errors.New("not known yet")
		case 2:
			panic("a bug of the user's")
		case 3:
			return "127.0.0.1", 1, nil // refused
		}
		return "127.0.0.1", port, nil
	}))
	require.Eventually(t, func() bool { return d.confirmations() == 5 }, patience, glance)
}

// Without a cluster and without an address only the own system is looked at
// (rule 25).
func TestNoRemoteProducerWithoutAWayToIt(t *testing.T) {
	home, _ := startRemote(t)
	away, _ := startRemote(t)
	producer := spawnProducer(t, home, newDispatcher("job-0"))
	w := spawnWorker(t, away, "w", &worker{}, workpull.WithReliableResendInterval(5*time.Millisecond))
	require.Never(t, func() bool {
		s, err := workpull.WorkerStatus(context.Background(), w)
		return err != nil || s.Registered || len(inspectProducer(t, producer).Workers) > 0
	}, 200*time.Millisecond, glance)
}

// Registrations that are not what they say leave no trace (rules 22-24).
func TestForgedRegistrationsAreDropped(t *testing.T) {
	home, port := startRemote(t)
	away, awayPort := startRemote(t)
	producer := spawnProducer(t, home, newDispatcher())
	spawnWorker(t, home, "near", &worker{})
	far := spawnWorker(t, away, "far", &worker{}, workpull.WithReliableRemoteProducer("127.0.0.1", port))
	_, err := workpull.Spawn(context.Background(), away, "of-another", &worker{},
		workpull.AsReliableWorkPullingWorker("another", workpull.WithReliableRemoteProducer("127.0.0.1", port)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(inspectProducer(t, producer).Workers) == 2 }, patience, glance)
	before := inspectProducer(t, producer)

	client := remote.NewRemoting()
	defer client.Close()
	controller := producer.Children()[0]
	to := address.NewWithParent(controller.Name(), systemName, "127.0.0.1", port, producer.Address())
	sender := func(host string, port int, endpoint, name string) *address.Address {
		return address.NewWithParent(name, systemName, host, port, address.New(endpoint, systemName, host, port))
	}
	companionOf := func(system actor.ActorSystem, endpoint string) string {
		return mustLocal(t, system, endpoint).Children()[0].Name()
	}
	genuine := &wire.Register{Producer: "dispatcher", Endpoint: "far", Identity: far.ID(), Incarnation: "made-up", Nonce: 1, Host: hostPort(awayPort)}
	for name, c := range map[string]struct {
		from   *address.Address
		change func(*wire.Register)
	}{
		"another incarnation":              {sender("127.0.0.1", awayPort, "far", companionOf(away, "far")), func(*wire.Register) {}},
		"a controller that is not":         {sender("127.0.0.1", awayPort, "far", "Workpull-controller-0"), func(*wire.Register) {}},
		"an actor that is no controller":   {sender("127.0.0.1", awayPort, "far", "far2"), func(*wire.Register) {}},
		"the worker of another":            {sender("127.0.0.1", awayPort, "of-another", companionOf(away, "of-another")), func(r *wire.Register) { r.Endpoint = "of-another" }},
		"a local one from elsewhere":       {sender("127.0.0.1", port, "near", companionOf(home, "near")), func(r *wire.Register) { r.Endpoint, r.Host = "near", "" }},
		"a node that is not there":         {sender("127.0.0.1", 1, "far", companionOf(away, "far")), func(*wire.Register) {}},
		"an empty identity":                {sender("127.0.0.1", awayPort, "far", companionOf(away, "far")), func(r *wire.Register) { r.Identity = "" }},
		"another system":                   {address.NewWithParent("Workpull-controller-1", "other", "127.0.0.1", awayPort, address.New("far", "other", "127.0.0.1", awayPort)), func(*wire.Register) {}},
		"a sender without a parent":        {address.New("far", systemName, "127.0.0.1", awayPort), func(*wire.Register) {}},
		"another producer than registered": {sender("127.0.0.1", awayPort, "far", companionOf(away, "far")), func(r *wire.Register) { r.Producer = "another" }},
	} {
		t.Run(name, func(t *testing.T) {
			forged := proto.Clone(genuine).(*wire.Register)
			c.change(forged)
			require.NoError(t, client.RemoteTell(context.Background(), c.from, to, forged))
		})
	}
	require.Never(t, func() bool {
		s := inspectProducer(t, producer)
		return len(s.Workers) != 2 || s.Requeued != before.Requeued
	}, 600*time.Millisecond, 10*time.Millisecond)
}

// Two pods may carry one endpoint name; their identities tell them apart, and
// the second with a first one's identity is refused while that lives (B14).
func TestIdentitiesNotNamesTellWorkersApart(t *testing.T) {
	home, port := startRemote(t)
	producer := spawnProducer(t, home, newDispatcher())
	attach := func(identity string) (actor.ActorSystem, *actor.PID) {
		system, _ := startRemote(t)
		return system, spawnWorker(t, system, "w", &worker{}, workpull.WithReliableRemoteProducer("127.0.0.1", port), workpull.WithReliableIdentity(identity))
	}
	identities := func() []string {
		var names []string
		for _, w := range inspectProducer(t, producer).Workers {
			names = append(names, w.Identity)
		}
		return names
	}
	first, _ := attach("uid-1")
	attach("uid-2")
	require.Eventually(t, func() bool { return len(identities()) == 2 }, patience, glance)
	host := func() string { return inspectProducer(t, producer).Workers[0].Host }
	firstHost := host()
	attach("uid-1")
	require.Never(t, func() bool { return len(identities()) != 2 || host() != firstHost }, 300*time.Millisecond, 10*time.Millisecond)
	require.NoError(t, workpull.Stop(context.Background(), first))
	require.Eventually(t, func() bool {
		workers := inspectProducer(t, producer).Workers
		if len(workers) != 2 {
			return false
		}
		for _, w := range workers {
			if w.Identity == "uid-1" && w.Host != firstHost {
				return true
			}
		}
		return false
	}, patience, glance)
}

// A worker that stops in order is found gone by a probe: its end is not seen
// on another node (part 5, trap 11).
func TestPeerLostProbes(t *testing.T) {
	home, port := startRemote(t)
	away, awayPort := startRemote(t)
	d := newDispatcher(jobNames(4)...)
	producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation())
	release := make(chan struct{})
	stuck := spawnWorker(t, away, "stuck", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool { <-release; return true }},
		workpull.WithReliableRemoteProducer("127.0.0.1", port))
	require.Eventually(t, func() bool { return inspectProducer(t, producer).InFlight == 4 }, patience, glance)

	require.NoError(t, workpull.PeerLost(context.Background(), home, "127.0.0.1", awayPort))
	require.Never(t, func() bool { return inspectProducer(t, producer).InFlight != 4 }, 100*time.Millisecond, 10*time.Millisecond,
		"a worker that lives keeps its jobs")

	require.NoError(t, stuck.Shutdown(context.Background()))
	spawnWorker(t, home, "survivor", &worker{})
	require.NoError(t, workpull.PeerLost(context.Background(), home, "127.0.0.1", awayPort))
	require.Eventually(t, func() bool { return d.confirmations() == 4 }, patience, glance)
	close(release)
}

// A worker that is silent for longer than the lease loses its jobs (B5).
func TestTheLeaseEndsASilentWorker(t *testing.T) {
	home, port := startRemote(t)
	away, _ := startRemote(t)
	d := newDispatcher(jobNames(2)...)
	producer := spawnProducer(t, home, d, workpull.WithReliableLease(300*time.Millisecond), workpull.WithReliableDeliveryConfirmation())
	release := make(chan struct{})
	defer close(release)
	stuck := spawnWorker(t, away, "stuck", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool { <-release; return true }},
		workpull.WithReliableRemoteProducer("127.0.0.1", port), workpull.WithReliableResendInterval(time.Minute))
	require.Eventually(t, func() bool { return inspectProducer(t, producer).InFlight == 2 }, patience, glance)
	require.Never(t, func() bool { return inspectProducer(t, producer).Requeued > 0 }, time.Second, 20*time.Millisecond,
		"S29: the controller of a long job gives signs of life, whatever the resend interval")
	require.NoError(t, stuck.Shutdown(context.Background()))
	spawnWorker(t, home, "survivor", &worker{})
	require.Eventually(t, func() bool { return d.confirmations() == 2 }, patience, glance)
}

// A producer that starts again under its name and address gets its workers
// back: their controllers find the new session (rules 74-76).
func TestAProducerThatStartsAgain(t *testing.T) {
	port := testport.Free(t, 1)[0]
	home := startSystem(t, actor.WithRemote(remote.NewConfig("127.0.0.1", port)))
	away, _ := startRemote(t)
	first := newDispatcher(jobNames(3)...)
	spawnProducer(t, home, first, workpull.WithReliableDeliveryConfirmation())
	spawnWorker(t, away, "w", &worker{}, workpull.WithReliableRemoteProducer("127.0.0.1", port))
	require.Eventually(t, func() bool { return first.confirmations() == 3 }, patience, glance)
	require.NoError(t, workpull.Stop(context.Background(), home))

	home = startSystem(t, actor.WithRemote(remote.NewConfig("127.0.0.1", port)))
	second := newDispatcher(jobNames(3)...)
	spawnProducer(t, home, second, workpull.WithReliableDeliveryConfirmation())
	require.Eventually(t, func() bool { return second.confirmations() == 3 }, patience, glance)
}

func TestLocate(t *testing.T) {
	home, port := startRemote(t)
	away, awayPort := startRemote(t)
	ctx := context.Background()
	require.ErrorIs(t, workpull.Locate(ctx, away, "127.0.0.1", port, "dispatcher"), workpull.ErrProducerNotFound)
	spawnProducer(t, home, newDispatcher())
	require.NoError(t, workpull.Locate(ctx, away, "127.0.0.1", port, "dispatcher"))
	require.NoError(t, workpull.Locate(ctx, home, "127.0.0.1", port, "dispatcher"))
	require.ErrorIs(t, workpull.Locate(ctx, home, "127.0.0.1", awayPort, "dispatcher"), workpull.ErrProducerNotFound)
	require.ErrorIs(t, workpull.Locate(ctx, away, "127.0.0.1", 1, "dispatcher"), workpull.ErrProducerNotFound)
}

// Stopping any actor closes the connections of the system's client; the
// outboxes do not use it (part 5, trap 6).
func TestStoppingActorsDoesNotDisturbTheOutboxes(t *testing.T) {
	home, port := startRemote(t)
	away, _ := startRemote(t)
	d := newDispatcher(jobNames(500)...)
	producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation())
	spawnWorker(t, away, "w", &worker{}, workpull.WithReliableRemoteProducer("127.0.0.1", port))
	for d.confirmations() < 500 {
		pid, err := home.Spawn(context.Background(), "passer-by", &worker1{})
		require.NoError(t, err)
		require.NoError(t, pid.Shutdown(context.Background()))
		require.Eventually(t, func() bool { _, err := home.LocalActor("passer-by"); return err != nil }, patience, time.Millisecond)
	}
	require.Zero(t, inspectProducer(t, producer).Requeued)
}

// A worker on another node that stops says so, even while its handler runs:
// its jobs go elsewhere long before the lease is over (rule 46).
func TestAWorkerFarAwayThatStops(t *testing.T) {
	home, port := startRemote(t)
	away, _ := startRemote(t)
	running, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	stuck := spawnWorker(t, away, "stuck", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
		close(running)
		<-release
		return true
	}}, workpull.WithReliableRemoteProducer("127.0.0.1", port))
	d := newDispatcher(jobNames(5)...)
	producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableLease(time.Hour))
	<-running
	spawnWorker(t, home, "near", &worker{})
	require.NoError(t, stuck.Shutdown(context.Background()))
	require.Eventually(t, func() bool { return d.confirmations() == 5 }, patience, glance)
	require.Len(t, inspectProducer(t, producer).Workers, 1)
}
