package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tochemey/goakt/v3/discovery"
	"k8s.io/utils/clock"
)

const (
	// reachTimeout bounds the attempt to reach one member. A pod whose node is
	// gone does not refuse, it is silent.
	reachTimeout = 500 * time.Millisecond
	// joinInterval is the time between two looks for a producer, and
	// joinAttempts how many there are: three minutes, after which the process
	// ends and its supervisor starts it again.
	joinInterval = time.Second
	joinAttempts = 180
)

// ErrNoProducer ends a member that found no producer to join.
var ErrNoProducer = errors.New("no producer can be reached by gossip")

// membership decides whom this node joins. GoAkt asks it as a discovery
// provider; the order in which nodes start, which keeps a cluster from forming
// in two halves, is here: a worker waits for a producer, and a producer joins
// whoever lives.
type membership struct {
	peers  Peers
	reach  func(ctx context.Context, address string) bool
	clock  clock.WithTicker
	logger *slog.Logger
	ctx    context.Context // of the node: GoAkt's provider methods take none
}

var _ discovery.Provider = (*membership)(nil)

// ID is a name of our own, as discovery.Provider asks for.
func (m *membership) ID() string { return "workpull" }

// Initialize, Register, Deregister and Close have nothing to do: pods are
// registered with Kubernetes by being there.
func (m *membership) Initialize() error { return nil }

// Register has nothing to do.
func (m *membership) Register() error { return nil }

// Deregister has nothing to do.
func (m *membership) Deregister() error { return nil }

// Close has nothing to do.
func (m *membership) Close() error { return nil }

// DiscoverPeers lists the members that answer now. One that does not would
// hold the join up for as long as its dial hangs; where nobody answers there
// is nobody to join, and the first producer forms the cluster at once.
func (m *membership) DiscoverPeers() ([]string, error) {
	live, err := m.reachable(m.ctx, func(Peer) bool { return true })
	if err != nil {
		return nil, err
	}
	m.logger.Info("members found", "gossip", live)
	return live, nil
}

// awaitProducer returns once a producer's gossip can be reached.
func (m *membership) awaitProducer(ctx context.Context) error {
	ticker := m.clock.NewTicker(joinInterval)
	defer ticker.Stop()
	for attempt := 1; ; attempt++ {
		live, err := m.reachable(ctx, func(p Peer) bool { return p.Producer })
		if len(live) > 0 {
			return nil
		}
		if attempt == 1 || attempt%10 == 0 {
			m.logger.Info("waiting for a producer before joining its cluster", "attempt", attempt, "of", joinAttempts, "error", err)
		}
		if attempt == joinAttempts {
			return errors.Join(ErrNoProducer, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C():
		}
	}
}

// reachable returns the wanted peers whose gossip port takes a connection.
func (m *membership) reachable(ctx context.Context, wanted func(Peer) bool) ([]string, error) {
	peers, err := m.peers.List(ctx)
	if err != nil {
		return nil, err
	}
	ok := make([]bool, len(peers))
	var group sync.WaitGroup
	for i, peer := range peers {
		if wanted(peer) {
			group.Go(func() { ok[i] = m.reach(ctx, peer.Gossip) })
		}
	}
	group.Wait()
	live := make([]string, 0, len(peers))
	for i, peer := range peers {
		if ok[i] {
			live = append(live, peer.Gossip)
		}
	}
	return live, nil
}

// dial tells whether somebody listens at an address.
func dial(ctx context.Context, address string) bool {
	dialer := net.Dialer{Timeout: reachTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}
