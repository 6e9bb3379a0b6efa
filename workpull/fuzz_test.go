package workpull

import (
	"context"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/wire"
)

// quiet is an actor that does nothing.
type quiet struct{}

func (*quiet) PreStart(*actor.Context) error { return nil }
func (*quiet) Receive(*actor.ReceiveContext) {}
func (*quiet) PostStop(*actor.Context) error { return nil }

// fuzzedNode is a real one, with a producer and a worker.
func fuzzedNode(f *testing.F) (n *node, producer, worker companion) {
	f.Helper()
	ctx := context.Background()
	system, err := actor.NewActorSystem("fuzz", actor.WithLogger(log.DiscardLogger))
	require.NoError(f, err)
	require.NoError(f, system.Start(ctx))
	f.Cleanup(func() { _ = Stop(ctx, system) })
	companionOf := func(name string, role SpawnOption) companion {
		pid, err := Spawn(ctx, system, name, &quiet{}, role)
		require.NoError(f, err)
		n, err = nodeOf(ctx, system, nil)
		require.NoError(f, err)
		controller := pid.Children()[0].Name()
		require.Eventually(f, func() bool { // it begins after Spawn has returned
			_, ok := n.companion(controller)
			return ok
		}, goneTimeout, pollPause)
		c, _ := n.companion(controller)
		return c
	}
	producer = companionOf("p", AsReliableWorkPullingProducer())
	worker = companionOf("w", AsReliableWorkPullingWorker("p"))
	return n, producer, worker
}

// A directory tells of a controller to who names it, and of nothing else
// (rule 23).
func FuzzLookup(f *testing.F) {
	n, producer, worker := fuzzedNode(f)
	for _, m := range []*wire.Lookup{
		{Producer: "p"}, {Producer: "w"}, {Actor: "w"}, {Actor: "nobody"}, {},
		{Companion: worker.pid.Name(), Incarnation: worker.incarnation},
		{Companion: worker.pid.Name(), Incarnation: "another"},
		{Companion: producer.pid.Name()},
	} {
		data, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.Lookup)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		reply := n.answer(m)
		switch {
		case m.GetProducer() != "":
			require.Equal(t, m.GetProducer() == "p", reply.GetAlive())
		case m.GetCompanion() != "":
			require.Equal(t, m.GetCompanion() == worker.pid.Name() && m.GetIncarnation() == worker.incarnation, reply.GetAlive())
			if reply.GetAlive() {
				require.Equal(t, "p", reply.GetProducer())
				require.Equal(t, "w", reply.GetEndpoint())
			}
		case m.GetActor() != "":
			pid, err := n.system.LocalActor(m.GetActor())
			require.Equal(t, err == nil && pid.IsRunning(), reply.GetAlive())
		default:
			require.False(t, reply.GetAlive())
		}
	})
}

// What another node's directory says of a producer leads to a controller of
// that producer at that node, or nowhere.
func FuzzLookupReply(f *testing.F) {
	n, _, _ := fuzzedNode(f)
	for _, companion := range []string{
		controllerPrefix + "1", controllerPrefix, "x", controllerPrefix + "a/b", controllerPrefix + "a@h:1",
		controllerPrefix + "1/" + controllerPrefix + "2", controllerPrefix + "%2f", "",
	} {
		data, err := proto.Marshal(&wire.LookupReply{Alive: true, Companion: companion, Endpoint: "far", Producer: "far"})
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		reply := new(wire.LookupReply)
		if proto.Unmarshal(data, reply) != nil {
			return
		}
		p, err := n.placeOf(reply, "10.0.0.1", 9000, "far")
		if err != nil {
			return
		}
		require.True(t, reply.GetAlive())
		a, err := n.remotePeer(p.peer)
		if err != nil {
			return // moving there fails
		}
		require.Equal(t, "10.0.0.1:9000", a.HostPort())
		require.Equal(t, "far", a.Parent().Name())
		require.Equal(t, reply.GetCompanion(), a.Name())
	})
}

// The address that a remote sender gives as its own is that of a controller on
// another node, of a system of this name, or it is refused (rules 22, 24).
func FuzzPeerAddress(f *testing.F) {
	n, _, _ := fuzzedNode(f)
	for _, s := range []string{
		"goakt://fuzz@10.0.0.1:9000/w/" + controllerPrefix + "1", "goakt://other@10.0.0.1:9000/w/" + controllerPrefix + "1",
		"goakt://fuzz@[fd00::1]:9000/w/" + controllerPrefix + "1", "goakt://fuzz@10.0.0.1:9000/" + controllerPrefix + "1",
		"goakt://fuzz@10.0.0.1:0/w/" + controllerPrefix + "1", "goakt://fuzz@:9000//" + controllerPrefix + "1", "goakt://", "", "@/:",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := n.remotePeer(core.Peer(s))
		if err != nil {
			return
		}
		require.Equal(t, "fuzz", a.System())
		require.True(t, isControllerName(a.Name()))
		require.NotEmpty(t, a.Parent().Name())
		require.False(t, n.isHere(a.Host(), a.Port()))
		_, port, err := net.SplitHostPort(hostPort(a.Host(), a.Port()))
		require.NoError(t, err)
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.Positive(t, number)
		require.LessOrEqual(t, number, 65535)
	})
}
