package workpull_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/passivation"
	"github.com/tochemey/goakt/v3/remote"
	"github.com/tochemey/goakt/v3/supervisor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// register registers the kinds of the tests on every member: workers note their
// jobs in one ledger, a relocated dispatcher has the jobs that are given.
func register(t *testing.T, members []*member, l *ledger, jobs ...string) *replaced {
	t.Helper()
	r := &replaced{}
	for _, m := range members {
		require.NoError(t, workpull.Register(context.Background(), m.system, func() *worker { return &worker{ledger: l} }))
		require.NoError(t, workpull.Register(context.Background(), m.system, func() *dispatcher { return r.add(newDispatcher(jobs...)) }))
	}
	return r
}

// replaced holds the dispatchers that were made for relocated endpoints.
type replaced struct {
	mu  sync.Mutex
	all []*dispatcher
}

func (r *replaced) add(d *dispatcher) *dispatcher {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
	return d
}

func (r *replaced) confirmations() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.all {
		n += d.confirmations()
	}
	return n
}

// session is that of the last request that was answered.
func (d *dispatcher) session() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answered.Session()
}

// stop has a member leave, once it sees the others: on a busy machine members
// lose sight of each other for a while.
func (m *member) stop(t *testing.T, others int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterPatience)
	defer cancel()
	require.Eventually(t, func() bool {
		peers, err := m.system.Peers(ctx, time.Second)
		return err == nil && len(peers) == others
	}, clusterPatience, glance)
	require.NoError(t, workpull.Stop(ctx, m.system))
}

// hosts returns those members that have a live actor of the name.
func hosts(members []*member, name string) (found []*actor.PID) {
	for _, m := range members {
		if pid, err := m.system.LocalActor(name); err == nil && pid.IsRunning() {
			found = append(found, pid)
		}
	}
	return found
}

// awaitEndpoint waits until one of the members has the endpoint with its
// controller.
func awaitEndpoint(t *testing.T, members []*member, name string) *actor.PID {
	t.Helper()
	var found []*actor.PID
	require.Eventually(t, func() bool {
		found = hosts(members, name)
		return len(found) == 1 && len(found[0].Children()) == 1
	}, clusterPatience, glance)
	return found[0]
}

// A worker endpoint goes to another member when its own leaves, as another
// incarnation with a controller of its own, and gets jobs again; one whose
// relocation is disabled ends (rule 90).
func TestClusterRelocatesAWorkerEndpoint(t *testing.T) {
	members := startCluster(t, 3)
	l := newLedger()
	register(t, members, l)
	d := newDispatcher(jobNames(20)...)
	producer := spawnProducer(t, members[0].system, d, workpull.WithReliableDeliveryConfirmation())
	spawnWorker(t, members[2].system, "w", &worker{ledger: l},
		workpull.WithReliableFlowControlWindow(7), workpull.WithReliableIdentity("wanderer"))
	_, err := workpull.Spawn(context.Background(), members[2].system, "staying", &worker{},
		workpull.AsReliableWorkPullingWorker("dispatcher"), workpull.WithRelocationDisabled())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.confirmations() == 20 }, clusterPatience, glance)

	members[2].stop(t, 2)
	rest := members[:2]
	pid := awaitEndpoint(t, rest, "w")
	require.Empty(t, hosts(rest, "staying"))
	require.Eventually(t, func() bool {
		s, err := workpull.WorkerStatus(context.Background(), pid)
		return err == nil && s.Registered
	}, clusterPatience, glance)
	before := l.count("w")
	for i := range 50 {
		require.NoError(t, actor.Tell(context.Background(), producer, wrapperspb.String(fmt.Sprintf("later-%d", i))))
	}
	require.Eventually(t, func() bool { return d.confirmations() == 70 }, clusterPatience, glance)
	require.Positive(t, l.count("w")-before)
	require.Len(t, hosts(rest, "w"), 1)
	var bindings []workpull.WorkerSnapshot
	for _, w := range inspectProducer(t, producer).Workers {
		if w.Identity == "wanderer" {
			bindings = append(bindings, w)
		}
	}
	require.Len(t, bindings, 1, "rule 30: its identity came along, and the binding before has ended")
	require.NotEqual(t, hostPort(members[2].remoting), bindings[0].Host)
	require.LessOrEqual(t, bindings[0].Demand+bindings[0].InFlight, 7, "so did its options")

	// It can be respawned where it is now (rule 88).
	again, err := workpull.ReSpawn(context.Background(), pid.ActorSystem(), "w")
	require.NoError(t, err)
	require.Same(t, pid, again)
}

// A producer endpoint goes to another member when its own leaves. It begins a
// new session; workers of the cluster and attached ones find it and do its new
// jobs (rule 90). What the old one held in memory is lost.
func TestClusterRelocatesAProducerEndpoint(t *testing.T) {
	members := startCluster(t, 3)
	l := newLedger()
	made := register(t, members, l, jobNames(60)...)
	var all sync.WaitGroup // nobody goes on before everybody has a job of the new producer
	all.Add(3)
	handle := func() func(*actor.ReceiveContext, *workpull.Delivery) bool {
		var first sync.Once
		return func(_ *actor.ReceiveContext, d *workpull.Delivery) bool {
			if d.MessageID() != "old" {
				first.Do(func() { all.Done(); all.Wait() })
			}
			return true
		}
	}
	d := newDispatcher("old")
	old := spawnProducer(t, members[2].system, d, workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableStoreAhead(5))
	for i, m := range members[:2] {
		spawnWorker(t, m.system, fmt.Sprintf("member-%d", i), &worker{ledger: l, handle: handle()}, workpull.WithReliableFlowControlWindow(5))
	}
	attached, _ := startRemote(t)
	registry := members[0].system
	spawnWorker(t, attached, "attached", &worker{ledger: l, handle: handle()}, workpull.WithReliableFlowControlWindow(5),
		workpull.WithReliableRemoteProducerFunc(func(ctx context.Context) (string, int, error) {
			a, err := registry.RemoteActor(ctx, "dispatcher")
			if err != nil {
				return "", 0, err
			}
			return a.Host(), a.Port(), nil
		}))
	require.Eventually(t, func() bool { return d.confirmations() == 1 && len(inspectProducer(t, old).Workers) == 3 }, clusterPatience, glance)

	members[2].stop(t, 2)
	pid := awaitEndpoint(t, members[:2], "dispatcher")
	require.Eventually(t, func() bool { return made.confirmations() == 60 }, clusterPatience, glance)
	for _, name := range []string{"member-0", "member-1", "attached"} {
		require.Positive(t, l.count(name), name)
	}
	for _, job := range jobNames(60) {
		require.Equal(t, 1, l.ran(job), job)
	}
	s := inspectProducer(t, pid)
	require.NotEqual(t, d.session(), made.all[0].session())
	require.Len(t, s.Workers, 3)
	require.Len(t, hosts(members[:2], "dispatcher"), 1)
	require.Len(t, made.all, 1, "it was made once")
}

// An endpoint that its supervisor restarted is relocated whole: with its
// dependencies, with the supervisor of the registration, and with one
// controller, which never travels by itself (rules 88, 90).
func TestClusterRelocatesARestartedEndpointWhole(t *testing.T) {
	members := startCluster(t, 2)
	restart := func() workpull.SpawnOption {
		return workpull.WithActorOptions(actor.WithSupervisor(supervisor.NewSupervisor(supervisor.WithAnyErrorDirective(supervisor.RestartDirective))))
	}
	seen := make(chan string, 10)
	for _, m := range members {
		require.NoError(t, workpull.Register(context.Background(), m.system, func() *greeter { return &greeter{seen: seen} },
			restart(), workpull.WithDependencies(new(greeting))))
	}
	pid, err := workpull.Spawn(context.Background(), members[1].system, "greeter", &greeter{seen: seen},
		workpull.AsReliableWorkPullingWorker("dispatcher"), workpull.WithDependencies(&greeting{Text: "hello"}), restart())
	require.NoError(t, err)
	require.Equal(t, "hello", <-seen)

	first := pid.Children()[0].Name()
	require.NoError(t, actor.Tell(context.Background(), pid, wrapperspb.String("fail")))
	require.Equal(t, "hello", <-seen)
	require.Eventually(t, func() bool {
		children := pid.Children()
		return pid.IsRunning() && len(children) == 1 && children[0].IsRunning() && children[0].Name() != first
	}, patience, glance)
	require.False(t, pid.Children()[0].IsRelocatable())

	members[1].stop(t, 1)
	moved := awaitEndpoint(t, members[:1], "greeter")
	require.Equal(t, "hello", <-seen)
	require.Equal(t, "hello", moved.Dependency("greeting").(*greeting).Text)
	require.NoError(t, actor.Tell(context.Background(), moved, wrapperspb.String("fail")))
	require.Eventually(t, func() bool { return moved.RestartCount() == 1 && moved.IsRunning() }, patience, glance, "the supervisor came along")
}

// greeting is a dependency.
type greeting struct{ Text string }

func (g *greeting) ID() string                        { return "greeting" }
func (g *greeting) MarshalBinary() ([]byte, error)    { return []byte(g.Text), nil }
func (g *greeting) UnmarshalBinary(data []byte) error { g.Text = string(data); return nil }

// greeter tells what its dependency says, at each start.
type greeter struct{ seen chan string }

func (g *greeter) PreStart(ctx *actor.Context) error {
	text := "nothing"
	for _, d := range ctx.Dependencies() {
		text = d.(*greeting).Text
	}
	g.seen <- text
	return nil
}
func (g *greeter) PostStop(*actor.Context) error { return nil }
func (g *greeter) Receive(ctx *actor.ReceiveContext) {
	if m, ok := ctx.Message().(*wrapperspb.StringValue); ok {
		ctx.Err(fmt.Errorf("told to %s", m.GetValue()))
	}
}

// Nothing of the pattern is relocatable by GoAkt itself (rule 90): not the
// endpoint, whose configuration it would lose, not its controller, not the
// directory.
func TestClusterLeavesNothingToGoAktsRelocation(t *testing.T) {
	members := startCluster(t, 1)
	register(t, members, newLedger())
	spawnProducer(t, members[0].system, newDispatcher())
	spawnWorker(t, members[0].system, "w", &worker{})
	actors := members[0].system.Actors()
	require.Len(t, actors, 5, "two endpoints, two controllers, the directory")
	for _, pid := range actors {
		require.False(t, pid.IsRelocatable(), pid.Name())
	}
}

// An endpoint goes on to the next member when one does not take it: because it
// does not use the pattern, or because it does not know the kind (rule 90).
func TestClusterPassesOverAMemberThatCannotTakeAnEndpoint(t *testing.T) {
	members := startCluster(t, 3)
	l := newLedger()
	register(t, []*member{members[0], members[2]}, l) // not on 1, which does not use the pattern
	for i := range 4 {                                // more than there are members, so that each is asked first
		spawnWorker(t, members[2].system, fmt.Sprintf("w%d", i), &worker{ledger: l})
	}
	spawnWorker(t, members[2].system, "unknown", &greeterOfNobody{})
	members[2].stop(t, 2)
	for i := range 4 {
		pid := awaitEndpoint(t, members[:2], fmt.Sprintf("w%d", i))
		require.Equal(t, members[0].remoting, pid.Address().Port())
	}
	require.Empty(t, hosts(members[:2], "unknown"))

	// Nobody is left who could take them: the member stops all the same.
	_, err := workpull.Subscribe(context.Background(), members[1].system) // uses the pattern now
	require.NoError(t, err)
	members[0].stop(t, 1)
	for i := range 4 {
		require.Empty(t, hosts(members[1:2], fmt.Sprintf("w%d", i)))
	}
}

type greeterOfNobody struct{ worker }

func TestRegisterRefuses(t *testing.T) {
	system := startSystem(t)
	ctx := context.Background()
	var refused *workpull.OptionError
	require.ErrorAs(t, workpull.Register(ctx, system, func() actor.Actor { return &worker{} }), &refused, "an interface")
	require.ErrorAs(t, workpull.Register[*worker](ctx, system, nil), &refused)
	newWorker := func() *worker { return &worker{} }
	require.ErrorAs(t, workpull.Register(ctx, system, newWorker, workpull.WithRelocationDisabled()), &refused)
	require.ErrorAs(t, workpull.Register(ctx, system, newWorker, workpull.AsReliableWorkPullingProducer()), &refused)
	require.ErrorAs(t, workpull.Register(ctx, system, newWorker, workpull.WithDependencies(struct{ *greeting }{})), &refused, "no type to make one of")
	require.Error(t, workpull.Register(ctx, nil, newWorker))
	require.NoError(t, workpull.Register(ctx, system, newWorker))
	_, err := workpull.Spawn(ctx, system, "w", newWorker(), workpull.AsReliableWorkPullingWorker("d"), workpull.WithDependencies(nil))
	require.ErrorAs(t, err, &refused)
}

// An endpoint that GoAkt relocates by itself comes without its configuration. It
// ends at once and without an error, which would keep GoAkt from relocating
// anything else.
func TestAStrayEndpointEndsAtOnce(t *testing.T) {
	system, port := startRemote(t)
	require.NoError(t, workpull.Register(context.Background(), system, func() *worker { return &worker{} }))
	client := remote.NewRemoting()
	defer client.Close()
	require.NoError(t, client.RemoteSpawn(context.Background(), "127.0.0.1", port, &remote.SpawnRequest{
		Name: "stray", Kind: "workpull.endpoint", PassivationStrategy: passivation.NewLongLivedStrategy(),
	}))
	require.Eventually(t, func() bool {
		_, err := system.LocalActor("stray")
		return err != nil
	}, patience, glance)
	require.Len(t, system.Actors(), 1, "the directory")
}
