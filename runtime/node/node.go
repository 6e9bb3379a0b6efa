package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/remote"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/workpull/operator/workpull"
)

// The cluster of a producer holds names only, a few for each member, so it is
// kept small: few partitions, and a second copy so that the death of one node
// loses no name (docs/decisions/002-discovery.md).
const (
	partitions       = 19
	copies           = 2
	bootstrapTimeout = 30 * time.Second
	stateSync        = 10 * time.Second
	stopTimeout      = 5 * time.Second
)

// Role is what a node is to its producer's cluster.
type Role int

// Roles of a node.
const (
	// Attached nodes are no members.
	Attached Role = iota
	// Worker nodes join the cluster of a producer that lives.
	Worker
	// Producer nodes join whoever lives, or form the cluster.
	Producer
)

// Options of Start.
type Options struct {
	// Role of the node.
	Role Role
	// Logger of the node and of GoAkt.
	Logger *slog.Logger
	// Kinds of actors that members announce; GoAkt wants at least one.
	Kinds []actor.Actor
	// Peers overrides the way members are found.
	Peers Peers
	// Successor is a producer that may take over from one that still lives, and
	// does not join it.
	Successor bool
}

// Node is a running actor system.
type Node struct {
	// System is GoAkt's.
	System actor.ActorSystem

	logger *slog.Logger
}

// compression between pods: none. GoAkt's default sets up zstd for each
// connection, and look-ups have a connection each; both sides have to agree.
// Whoever has large payloads compresses them.
const compression = remote.NoCompression

// SpawnOptions are those of every endpoint of a pod: it stays in its pod, and
// its client speaks as the pods' servers do.
func SpawnOptions() []workpull.SpawnOption {
	return []workpull.SpawnOption{
		workpull.WithRelocationDisabled(),
		workpull.WithRemotingOptions(remote.WithRemotingCompression(compression)),
	}
}

// Start starts the actor system of a process. A worker that is to be a member
// first waits for a producer, for at most three minutes.
func Start(ctx context.Context, s *Settings, o Options) (*Node, error) {
	options := []actor.Option{
		actor.WithLogger(bridge{o.Logger.With("from", "goakt")}),
		actor.WithRemote(remote.NewConfig(s.PodIP, s.RemotingPort, remote.WithCompression(compression))),
		actor.WithShutdownTimeout(stopTimeout),
		actor.WithoutRelocation(),
	}
	if o.Role != Attached {
		cluster, err := joinCluster(ctx, s, &o)
		if err != nil {
			return nil, err
		}
		options = append(options, actor.WithCluster(cluster))
	}
	system, err := actor.NewActorSystem(s.System, options...)
	if err != nil {
		return nil, fmt.Errorf("configure the actor system %s: %w", s.System, err)
	}
	if err := system.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the actor system %s on %s: %w",
			s.System, net.JoinHostPort(s.PodIP, strconv.Itoa(s.RemotingPort)), err)
	}
	o.Logger.Info("actor system runs", "system", s.System, "host", s.PodIP, "port", s.RemotingPort, "member", o.Role != Attached)
	return &Node{System: system, logger: o.Logger}, nil
}

func joinCluster(ctx context.Context, s *Settings, o *Options) (*actor.ClusterConfig, error) {
	if err := ensureHome(); err != nil {
		return nil, err
	}
	peers := o.Peers
	if peers == nil {
		found, err := peersOf(s, o.Successor)
		if err != nil {
			return nil, err
		}
		peers = found
	}
	members := &membership{peers: peers, reach: dial, clock: clock.RealClock{}, logger: o.Logger, ctx: ctx}
	if o.Role == Worker {
		if err := members.awaitProducer(ctx); err != nil {
			return nil, fmt.Errorf("join the cluster of producer %s: %w", s.Producer, err)
		}
	}
	return actor.NewClusterConfig().
		WithDiscovery(members).
		WithKinds(o.Kinds...).
		WithDiscoveryPort(s.GossipPort).
		WithPeersPort(s.PeersPort).
		WithPartitionCount(partitions).
		WithReplicaCount(copies).
		WithMinimumPeersQuorum(1).
		WithBootstrapTimeout(bootstrapTimeout).
		WithClusterStateSyncInterval(stateSync).
		WithShutdownTimeout(stopTimeout), nil
}

// ensureHome gives the process a home folder that it can write to. GoAkt keeps
// a member's copy of the others' states in a file below it, and in a pod the
// home folder is the root, which belongs to somebody else or is read-only.
func ensureHome() error {
	if home, err := os.UserHomeDir(); err == nil {
		if probe, err := os.MkdirTemp(home, ".workpull-*"); err == nil {
			return os.Remove(probe)
		}
	}
	dir, err := os.MkdirTemp("", "workpull-home-*")
	if err != nil {
		return fmt.Errorf("make a home folder for the cluster's store: %w", err)
	}
	return os.Setenv("HOME", dir)
}

// peersOf asks Kubernetes where the process runs in a pod that may, and goes
// by the settings elsewhere.
func peersOf(s *Settings, successor bool) (Peers, error) {
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return StaticPeers(s.Seeds), nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	return &PodPeers{
		Client: client, Namespace: s.PodNamespace, Producer: s.Producer, Self: s.PodIP, GossipPort: s.GossipPort,
		WorkersOnly: successor,
	}, nil
}

// Stop leaves the cluster and stops the actor system, within stopTimeout.
func (n *Node) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := workpull.Stop(ctx, n.System); err != nil {
		n.logger.Warn("the actor system did not stop cleanly", "error", err)
	}
}
