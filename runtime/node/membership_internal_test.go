package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpull/operator/internal/testport"
)

type peerList []Peer

func (p peerList) List(context.Context) ([]Peer, error) { return p, nil }

func members(peers Peers) *membership {
	return &membership{
		peers: peers, reach: dial, clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
		logger: slog.New(slog.DiscardHandler), ctx: context.Background(),
	}
}

func open(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func closed(t *testing.T) (address string) {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testport.Free(t, 1)[0]))
}

// A producer that restarts joins the workers that live; the addresses of those
// that do not are not waited for.
func TestProducerJoinsWhoeverLives(t *testing.T) {
	alive := open(t)
	m := members(peerList{{Gossip: closed(t), Producer: true}, {Gossip: alive}})
	found, err := m.DiscoverPeers()
	require.NoError(t, err)
	require.Equal(t, []string{alive}, found)
}

func TestFirstProducerFormsTheCluster(t *testing.T) {
	found, err := members(peerList{{Gossip: closed(t)}}).DiscoverPeers()
	require.NoError(t, err)
	require.Empty(t, found)
}

// A worker that started before any producer would form a cluster of its own,
// and another worker may join that: it waits.
func TestWorkerWaitsForAProducer(t *testing.T) {
	m := members(peerList{{Gossip: open(t)}, {Gossip: "127.0.0.1:1", Producer: true}})
	var up atomic.Bool
	m.reach = func(_ context.Context, address string) bool { return address == "127.0.0.1:1" && up.Load() }
	time := m.clock.(*clocktesting.FakeClock)
	done := make(chan error, 1)
	go func() { done <- m.awaitProducer(context.Background()) }()
	step(t, time, func() bool { return time.HasWaiters() })
	require.Empty(t, done)
	up.Store(true)
	step(t, time, func() bool { return len(done) == 1 })
	require.NoError(t, <-done)
}

func TestWorkerGivesUpWithoutAProducer(t *testing.T) {
	m := members(peerList{{Gossip: open(t)}})
	time := m.clock.(*clocktesting.FakeClock)
	done := make(chan error, 1)
	go func() { done <- m.awaitProducer(context.Background()) }()
	step(t, time, func() bool { return len(done) == 1 })
	require.ErrorIs(t, <-done, ErrNoProducer)

	ctx, cancel := context.WithCancelCause(context.Background())
	told := errors.New("told to leave")
	cancel(told)
	require.ErrorIs(t, members(peerList{}).awaitProducer(ctx), told)
}

// step moves the clock on until a condition holds.
func step(t *testing.T, clock *clocktesting.FakeClock, until func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		clock.Step(joinInterval)
		return until()
	}, 10*time.Second, time.Millisecond)
}
