package workpull

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/discovery/static"
	"github.com/tochemey/goakt/v3/log"
	"github.com/tochemey/goakt/v3/remote"

	"github.com/workpull/operator/internal/race"
	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/workpull/internal/wire"
)

// loner starts a cluster of one. A test that does so is named TestCluster….
func loner(t *testing.T) *node {
	t.Helper()
	if race.Enabled {
		t.Skip("Olric races with memberlist: run without -race (see inCluster)")
	}
	ports := testport.Free(t, 3)
	config := actor.NewClusterConfig().
		WithDiscovery(static.NewDiscovery(&static.Config{Hosts: []string{fmt.Sprintf("127.0.0.1:%d", ports[1])}})).
		WithKinds(new(idle)).WithPartitionCount(7).WithDiscoveryPort(ports[1]).WithPeersPort(ports[2])
	system, err := actor.NewActorSystem("loner", actor.WithLogger(log.DiscardLogger),
		actor.WithRemote(remote.NewConfig("127.0.0.1", ports[0])), actor.WithCluster(config))
	require.NoError(t, err)
	require.NoError(t, system.Start(context.Background()))
	t.Cleanup(func() { _ = Stop(context.Background(), system) })
	n, err := nodeOf(context.Background(), system, nil)
	require.NoError(t, err)
	return n
}

// fragile is a dependency whose decoder panics.
type fragile struct{ value string }

func (f *fragile) ID() string                     { return "fragile" }
func (f *fragile) MarshalBinary() ([]byte, error) { return []byte(f.value), nil }
func (f *fragile) UnmarshalBinary(data []byte) error {
	f.value = string(data[:1]) // panics on nothing
	return nil
}

// A member says no to what it cannot spawn, so that another one is asked, and
// outlives what another node sends and what the user's functions do with it
// (rule 90).
func TestClusterMemberAdopts(t *testing.T) {
	n := loner(t)
	ctx := context.Background()
	require.NoError(t, Register(ctx, n.system, func() *idle { return new(idle) }, WithDependencies(new(fragile))))
	offer := func(name string, change func(s *spec)) *wire.Adopt {
		s := specOf(t, AsReliableWorkPullingWorker("p"), WithDependencies(&fragile{value: "f"}))
		s.name = name
		if change != nil {
			change(s)
		}
		m, err := n.offer(s)
		require.NoError(t, err)
		return m
	}
	settled := func() { // what was accepted is through
		require.NoError(t, poll(ctx, func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.arriving == 0
		}))
	}

	require.Empty(t, n.adopt(offer("good", nil)).GetRefusal())
	settled()
	pid, err := n.system.LocalActor("good")
	require.NoError(t, err)
	require.Equal(t, "f", pid.Dependency("fragile").(*fragile).value)
	require.Len(t, pid.Children(), 1)

	// A second one of the name lives elsewhere: here it ends without a trace.
	require.Empty(t, n.adopt(offer("good", nil)).GetRefusal())
	settled()
	again, err := n.system.LocalActor("good")
	require.NoError(t, err)
	require.Same(t, pid, again)

	// What GoAkt forgets when it restarts a running actor (part 5, trap 2) was
	// noted when the endpoint was spawned, whatever option gave it.
	noted := specOf(t, AsReliableWorkPullingWorker("p"), WithActorOptions(actor.WithDependencies(&fragile{value: "given to GoAkt"})))
	noted.name = "noted"
	_, err = n.spawn(ctx, noted)
	require.NoError(t, err)
	moving, err := n.offer(noted)
	require.NoError(t, err)
	require.Len(t, moving.GetDependencies(), 1)
	require.Equal(t, "given to GoAkt", string(moving.GetDependencies()[0].GetValue()))

	for want, m := range map[string]*wire.Adopt{
		errSeed.Error():         {Seed: []byte("{}")},
		"is not registered":     offer("a", func(s *spec) { s.inner = &endpoint{} }),
		"actor options":         offer("b", func(s *spec) { s.actor = []actor.SpawnOption{actor.WithStashing()} }),
		"dependencies of type ": {Seed: offer("c", nil).GetSeed(), Dependencies: []*wire.Dependency{{Type: "strange"}}},
	} {
		require.Contains(t, n.adopt(m).GetRefusal(), want)
	}

	// The decoder panics: the endpoint does not come to be, and nothing else
	// happens.
	broken := offer("broken", nil)
	broken.Dependencies[0].Value = nil
	require.Empty(t, n.adopt(broken).GetRefusal())
	require.NoError(t, Register(ctx, n.system, func() *mute { panic("no actor") }))
	require.Empty(t, n.adopt(offer("unmade", func(s *spec) { s.inner, s.dependencies = new(mute), nil })).GetRefusal())
	settled()
	for _, name := range []string{"a", "b", "c", "broken", "unmade"} {
		_, err := n.system.LocalActor(name)
		require.Error(t, err, name)
	}

	require.Len(t, n.beginLeaving(ctx), 1, "good; noted has actor options, and its kind has none here")
	require.Contains(t, n.adopt(offer("late", nil)).GetRefusal(), "leaving")
}

type mute struct{ idle }

// GoAkt takes a stopped actor for relocatable as long as it is in the tree: Stop
// waits until all are out (rule 90).
func TestStoppedActorsAreAwaited(t *testing.T) {
	system, err := actor.NewActorSystem("sweep", actor.WithLogger(log.DiscardLogger))
	require.NoError(t, err)
	ctx := context.Background()
	require.NoError(t, system.Start(ctx))
	t.Cleanup(func() { _ = Stop(ctx, system) })
	n, err := nodeOf(ctx, system, nil)
	require.NoError(t, err)
	for i := range 200 {
		pid, err := system.Spawn(ctx, fmt.Sprintf("a%d", i), new(idle), actor.WithRelocationDisabled())
		require.NoError(t, err)
		require.NoError(t, pid.Shutdown(ctx))
		require.True(t, pid.IsRelocatable(), "else there is nothing to wait for")
	}
	n.awaitSwept(ctx)
	require.Len(t, system.Actors(), 1, "the directory")
}
