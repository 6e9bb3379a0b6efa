package workpull_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/discovery/static"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/internal/race"
	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/workpull"
)

// member is a node of a cluster.
type member struct {
	system                    actor.ActorSystem
	remoting, gossip, peering int
}

// clusterPatience: a registry that lost members answers late.
const clusterPatience = 60 * time.Second

// inCluster skips a test that has members of a cluster in this process when
// the race detector is on: it finds that Olric v0.3.18 reads memberlist's nodes
// while memberlist writes them, and fails whichever test runs then. `make test`
// runs these tests without it; their names begin with TestCluster.
func inCluster(t *testing.T) {
	t.Helper()
	require.Regexp(t, "^TestCluster", t.Name(), "make test looks for this name")
	if race.Enabled {
		t.Skip("Olric races with memberlist: run without -race")
	}
}

// startCluster starts n members that find each other.
func startCluster(t *testing.T, n int) []*member {
	t.Helper()
	inCluster(t)
	members := make([]*member, n)
	hosts := make([]string, n)
	for i := range members {
		ports := testport.Free(t, 3)
		members[i] = &member{remoting: ports[0], gossip: ports[1], peering: ports[2]}
		hosts[i] = fmt.Sprintf("127.0.0.1:%d", ports[1])
	}
	for _, m := range members {
		m.start(t, hosts)
	}
	for _, m := range members {
		require.Eventually(t, func() bool {
			peers, err := m.system.Peers(context.Background(), time.Second)
			return err == nil && len(peers) == n-1
		}, clusterPatience, 50*time.Millisecond)
	}
	return members
}

// start starts the member. Two that form a cluster at one time may each take
// themselves for its coordinator, and one then fails to start: it tries again,
// as a pod would.
func (m *member) start(t *testing.T, hosts []string) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		system, err := m.newSystem(hosts)
		require.NoError(t, err)
		err = system.Start(context.Background())
		if err == nil {
			m.system = system
			break
		}
		require.Less(t, attempt, 5, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if m.system.Running() {
			_ = workpull.Stop(ctx, m.system)
		}
	})
}

func (m *member) newSystem(hosts []string) (actor.ActorSystem, error) {
	config := actor.NewClusterConfig().
		WithDiscovery(static.NewDiscovery(&static.Config{Hosts: hosts})).
		WithKinds(&worker1{}).
		WithPartitionCount(7).WithReplicaCount(2).WithMinimumPeersQuorum(1).
		WithDiscoveryPort(m.gossip).WithPeersPort(m.peering)
	return actor.NewActorSystem(systemName, actor.WithLogger(testLogger()),
		actor.WithRemote(remote.NewConfig("127.0.0.1", m.remoting)), actor.WithCluster(config))
}

// memberProcess is a member of a cluster that hosts the producer.
func memberProcess() error {
	var m member
	var hosts string
	if _, err := fmt.Sscan(os.Getenv(envMember), &m.remoting, &m.gossip, &m.peering, &hosts); err != nil {
		return err
	}
	ctx := context.Background()
	system, err := m.newSystem(strings.Split(hosts, ","))
	if err != nil {
		return err
	}
	if err := system.Start(ctx); err != nil {
		return err
	}
	if _, err := workpull.Spawn(ctx, system, "dispatcher", newDispatcher(), workpull.AsReliableWorkPullingProducer()); err != nil {
		return err
	}
	fmt.Println("start spawned")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// GoAkt never removes what a crashed node had in the registry, and refuses a
// name that is in it. The producer comes back under its name, on another node
// and on the same one started again, and the workers find it.
func TestClusterFreesANameThatACrashedNodeLeft(t *testing.T) {
	inCluster(t)
	ports := testport.Free(t, 9)
	var hosts []string
	members := make([]*member, 3)
	for i := range members {
		members[i] = &member{remoting: ports[3*i], gossip: ports[3*i+1], peering: ports[3*i+2]}
		hosts = append(hosts, hostPort(members[i].gossip))
	}
	for _, m := range members[:2] {
		m.start(t, hosts)
	}
	c := members[2]
	env := fmt.Sprintf("%s=%d %d %d %s", envMember, c.remoting, c.gossip, c.peering, strings.Join(hosts, ","))
	crash := func() {
		p := &process{}
		p.start(t, env)
		require.Equal(t, "spawned", <-p.starts)
		require.Eventually(t, func() bool {
			a, err := members[0].system.RemoteActor(context.Background(), "dispatcher")
			return err == nil && a.Port() == c.remoting
		}, clusterPatience, 20*time.Millisecond)
		_, err := workpull.Spawn(context.Background(), members[0].system, "dispatcher", newDispatcher(), workpull.AsReliableWorkPullingProducer())
		require.ErrorIs(t, err, workpull.ErrNameTaken, "the holder lives")
		require.NoError(t, p.cmd.Process.Kill())
		_ = p.cmd.Wait()
	}
	crash()

	// On the same node started again: its directory's name was left too.
	crash()

	// On another node.
	d := newDispatcher(jobNames(10)...)
	spawnWorker(t, members[1].system, "w", &worker{})
	began := time.Now()
	var pid *actor.PID
	require.Eventually(t, func() bool {
		var err error
		pid, err = workpull.Spawn(context.Background(), members[0].system, "dispatcher", d,
			workpull.AsReliableWorkPullingProducer(workpull.WithReliableDeliveryConfirmation()))
		if err != nil {
			t.Log(err)
		}
		return err == nil
	}, clusterPatience, 100*time.Millisecond)
	t.Logf("the name was free after %v", time.Since(began))
	require.True(t, pid.IsRunning())
	require.Eventually(t, func() bool { return d.confirmations() == 10 }, clusterPatience, glance)
}

// Members find the producer through the registry and its node's directory, and
// are verified the same way; attached workers serve it beside them (rule 23,
// B14). A member that leaves is noticed and loses its jobs.
func TestCluster(t *testing.T) {
	members := startCluster(t, 3)
	d := newDispatcher(jobNames(300)...)
	l := newLedger()
	var all sync.WaitGroup
	all.Add(4)
	handle := func() func(*actor.ReceiveContext, *workpull.Delivery) bool {
		var first sync.Once
		return func(*actor.ReceiveContext, *workpull.Delivery) bool {
			first.Do(func() { all.Done(); all.Wait() })
			return true
		}
	}
	for i, m := range members {
		spawnWorker(t, m.system, fmt.Sprintf("member-%d", i), &worker{ledger: l, handle: handle()}, workpull.WithReliableFlowControlWindow(10))
	}
	attached, _ := startRemote(t)
	spawnWorker(t, attached, "attached", &worker{ledger: l, handle: handle()},
		workpull.WithReliableFlowControlWindow(10), workpull.WithReliableRemoteProducer("127.0.0.1", members[0].remoting))
	producer := spawnProducer(t, members[0].system, d, workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableLease(time.Minute))
	require.Eventually(t, func() bool { return d.confirmations() == 300 }, clusterPatience, glance)
	for _, job := range jobNames(300) {
		require.Equal(t, 1, l.ran(job), job)
	}

	t.Run("a name is unique in the cluster", func(t *testing.T) {
		_, err := workpull.Spawn(context.Background(), members[1].system, "dispatcher", newDispatcher(), workpull.AsReliableWorkPullingProducer())
		require.ErrorIs(t, err, workpull.ErrNameTaken)
	})
	t.Run("an address is refused beside the cluster", func(t *testing.T) { // rule 89
		_, err := workpull.Spawn(context.Background(), members[1].system, "both", &worker{},
			workpull.AsReliableWorkPullingWorker("dispatcher", workpull.WithReliableRemoteProducer("127.0.0.1", members[0].remoting)))
		require.ErrorIs(t, err, workpull.ErrResolutionConflict)
	})
	t.Run("a member that leaves", func(t *testing.T) {
		running, release := make(chan struct{}, 1), make(chan struct{})
		spawnWorker(t, members[2].system, "stuck", &worker{handle: func(*actor.ReceiveContext, *workpull.Delivery) bool {
			running <- struct{}{}
			<-release
			return true
		}})
		require.Eventually(t, func() bool { return len(inspectProducer(t, producer).Workers) == 5 }, patience, glance)
		for i := 0; len(running) == 0; i++ {
			require.NoError(t, actor.Tell(context.Background(), producer, wrapperspb.String(fmt.Sprintf("more-%d", i))))
			require.Less(t, i, 1000)
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		began := time.Now()
		_ = workpull.Stop(ctx, members[2].system)
		t.Logf("stopped in %v", time.Since(began))
		require.Eventually(t, func() bool {
			s := inspectProducer(t, producer)
			return len(s.Workers) == 3 && s.InFlight == 0 && s.Waiting == 0
		}, clusterPatience, 20*time.Millisecond)
		close(release)
	})
}
