package workpull

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/address"
	"github.com/tochemey/goakt/v3/goaktpb"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/outbox"
	"github.com/workpull/operator/workpull/internal/wire"
)

// Names of the pattern's own actors begin with reservedPrefix. GoAkt refuses
// names that begin with its own prefix, so ours is reserved by convention and
// by the check in Spawn (rule 87).
const (
	reservedPrefix   = "Workpull-"
	directoryPrefix  = reservedPrefix + "directory-"
	controllerPrefix = reservedPrefix + "controller-"
	registrarPrefix  = reservedPrefix + "registrar-"
)

// lookupTimeout bounds every look-up, probe and resolution (rule 26).
const lookupTimeout = 500 * time.Millisecond

// maxLookups bounds those that run at once in one system. A registration that
// finds no room is dropped, as one that was not verified in time (rule 22).
const maxLookups = 256

// directoryName is computable from the node's address, so that others find the
// directory without a registry. A colon (IPv6) is not allowed in a name.
func directoryName(host string, port int) string {
	return directoryPrefix + strings.ReplaceAll(host, ":", "_") + "-" + strconv.Itoa(port)
}

// node is the pattern's state in one actor system. It is the actor that
// answers look-ups from other nodes too, so that it begins and ends with the
// system.
type node struct {
	system actor.ActorSystem
	origin time.Time
	remote []remote.RemotingOption
	events hub

	lookups chan struct{}

	mu          sync.Mutex
	stop        context.CancelFunc
	spawning    map[string]struct{}
	specs       map[string]*spec     // of every endpoint ever spawned here
	endpoints   map[string]*endpoint // live
	controllers map[string]companion // by name, which is unique
	kinds       map[string]kind      // whose endpoints may be relocated to here
	leaving     bool                 // Stop has begun: nothing may arrive
	arriving    int
}

// companion is a live controller.
type companion struct {
	pid         *actor.PID
	endpoint    *endpoint
	incarnation string
}

var _ actor.Actor = (*node)(nil)

// starting makes the look-up and the spawn of a system's node one step.
var starting sync.Mutex

// nodeOf returns the node of a system and starts it where there is none.
func nodeOf(ctx context.Context, system actor.ActorSystem, options []remote.RemotingOption) (*node, error) {
	if system == nil {
		return nil, errors.New("actor system is nil, wanted a running one")
	}
	starting.Lock()
	defer starting.Unlock()
	name := directoryName(system.Host(), system.Port())
	if pid, err := system.LocalActor(name); err == nil {
		if n, ok := pid.Actor().(*node); ok && pid.IsRunning() {
			n.configure(options)
			return n, nil
		}
	}
	n := &node{
		system: system, origin: time.Now(), remote: options,
		lookups:     make(chan struct{}, maxLookups),
		spawning:    map[string]struct{}{},
		specs:       map[string]*spec{},
		endpoints:   map[string]*endpoint{},
		controllers: map[string]companion{},
		kinds:       map[string]kind{},
	}
	if err := system.Register(ctx, new(endpoint)); err != nil { // see endpoint.astray
		return nil, fmt.Errorf("make endpoints known: %w", err)
	}
	if _, err := n.spawnActor(ctx, name, n, actor.WithLongLived(), actor.WithRelocationDisabled()); err != nil {
		return nil, fmt.Errorf("start directory %s: %w", name, err)
	}
	return n, nil
}

func (n *node) configure(options []remote.RemotingOption) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.remote == nil {
		n.remote = options
	}
}

// now is monotonic.
func (n *node) now() time.Duration { return time.Since(n.origin) }

// client returns a client toward other nodes, with connections of its own:
// stopping any actor closes the connections of the system's client (part 5,
// trap 6). It is closed by who asked for it.
func (n *node) client() remote.Remoting {
	n.mu.Lock()
	options := n.remote
	n.mu.Unlock()
	return remote.NewRemoting(append([]remote.RemotingOption{remote.WithRemotingDialTimeout(2 * time.Second)}, options...)...)
}

// outbox returns one toward a controller on another node, with connections of
// its own that end with it.
func (n *node) outbox(from *actor.PID, to *address.Address, failed func(bindings []uint64)) *outbox.Outbox {
	client, sender := n.client(), from.Address()
	return outbox.New(outbox.Config{
		Send: func(ctx context.Context, messages []proto.Message) error {
			return client.RemoteBatchTell(ctx, sender, to, messages)
		},
		Failed: failed,
		Closed: client.Close,
	})
}

// isHere tells whether an address is this system's own.
func (n *node) isHere(host string, port int) bool {
	return host == n.system.Host() && port == n.system.Port()
}

// PreStart implements actor.Actor.
func (n *node) PreStart(*actor.Context) error { return nil }

// Receive answers look-ups.
func (n *node) Receive(ctx *actor.ReceiveContext) {
	switch m := ctx.Message().(type) {
	case *goaktpb.PostStart:
		n.watchCluster()
	case *wire.Lookup:
		ctx.Response(n.answer(m))
	case *wire.Adopt:
		ctx.Response(n.adopt(m))
	default:
		ctx.Unhandled()
	}
}

// PostStop implements actor.Actor.
func (n *node) PostStop(*actor.Context) error {
	n.mu.Lock()
	stop := n.stop
	n.stop = nil
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
	n.events.close()
	return nil
}

// answer tells what lives here.
func (n *node) answer(m *wire.Lookup) *wire.LookupReply {
	switch {
	case m.GetProducer() != "":
		if place, ok := n.localProducer(m.GetProducer()); ok {
			return &wire.LookupReply{Alive: true, Companion: place.local.Name(), Endpoint: m.GetProducer(), Producer: m.GetProducer()}
		}
	case m.GetCompanion() != "":
		if c, ok := n.companion(m.GetCompanion()); ok && c.endpoint.spec.role == workerRole && c.incarnation == m.GetIncarnation() {
			return &wire.LookupReply{
				Alive: true, Companion: m.GetCompanion(), Endpoint: c.endpoint.spec.name,
				Producer: c.endpoint.spec.follows, Identity: c.endpoint.identity(), Incarnation: c.incarnation,
			}
		}
	case m.GetActor() != "":
		pid, err := n.system.LocalActor(m.GetActor())
		return &wire.LookupReply{Alive: err == nil && !pid.IsStopping()}
	}
	return &wire.LookupReply{}
}

// companion returns the live controller of that name.
func (n *node) companion(name string) (companion, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, ok := n.controllers[name]
	return c, ok && c.pid.IsRunning()
}

// live returns the live controller at a local address.
func (n *node) live(peer core.Peer) (companion, bool) {
	c, ok := n.companion(lastName(string(peer)))
	return c, ok && core.Peer(c.pid.ID()) == peer
}

func (n *node) enter(c companion) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.controllers[c.pid.Name()] = c
}

func (n *node) leave(pid *actor.PID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.controllers, pid.Name())
}

// place is where a producer's controller lives; local is nil when it is on
// another node.
type place struct {
	peer  core.Peer
	local *actor.PID
}

// localProducer finds the controller of a producer endpoint in this system.
func (n *node) localProducer(name string) (place, bool) {
	n.mu.Lock()
	e := n.endpoints[name]
	n.mu.Unlock()
	if e == nil || e.spec.role != producerRole {
		return place{}, false
	}
	pid := e.liveController()
	if pid == nil {
		return place{}, false
	}
	return place{peer: core.Peer(pid.ID()), local: pid}, true
}

// producers returns the live producer controllers of this system.
func (n *node) producers() []*actor.PID {
	n.mu.Lock()
	defer n.mu.Unlock()
	var pids []*actor.PID
	for _, c := range n.controllers {
		if c.endpoint.spec.role == producerRole && c.pid.IsRunning() {
			pids = append(pids, c.pid)
		}
	}
	return pids
}

// peerLost has every producer controller probe its workers at a node.
func (n *node) peerLost(ctx context.Context, host string, port int) error {
	var errs []error
	for _, pid := range n.producers() {
		errs = append(errs, n.system.NoSender().Tell(ctx, pid, &peerLost{host: host, port: port}))
	}
	return errors.Join(errs...)
}

// clusterPoll is how often the system's events are pulled: they are not pushed
// (part 5, trap 8).
const clusterPoll = 100 * time.Millisecond

// watchCluster reports nodes that left the cluster. The event names the node's
// gossip or peers port, not the one of its remoting: all workers at its host
// are probed, which harms none that live.
func (n *node) watchCluster() {
	if !n.system.InCluster() {
		return
	}
	subscriber, err := n.system.Subscribe()
	if err != nil {
		n.system.Logger().Errorf("watch the cluster: %v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.mu.Lock()
	if n.stop != nil {
		n.stop()
	}
	n.stop = cancel
	n.mu.Unlock()
	go func() {
		defer subscriber.Shutdown()
		defer func() { _ = n.system.Unsubscribe(subscriber) }()
		ticker := time.NewTicker(clusterPoll)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			for event := range subscriber.Iterator() {
				left, ok := event.Payload().(*goaktpb.NodeLeft)
				if !ok {
					continue
				}
				if host, _, err := net.SplitHostPort(left.GetAddress()); err == nil {
					_ = n.peerLost(ctx, host, 0)
				}
			}
		}
	}()
}

// directoryAt is the address of another node's directory.
func (n *node) directoryAt(host string, port int) *address.Address {
	return address.New(directoryName(host, port), n.system.Name(), host, port)
}

// self is the sender of look-ups.
func (n *node) self() *address.Address {
	return n.directoryAt(n.system.Host(), n.system.Port())
}

// lookup asks a node's directory over a connection of its own: a pooled one
// may have died unnoticed, and only a fresh one can be refused.
func (n *node) lookup(ctx context.Context, host string, port int, question *wire.Lookup) (*wire.LookupReply, error) {
	client := n.client()
	defer client.Close()
	left := lookupTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	if left <= 0 {
		return nil, context.DeadlineExceeded
	}
	answer, err := client.RemoteAsk(ctx, n.self(), n.directoryAt(host, port), question, left)
	if err != nil {
		return nil, fmt.Errorf("ask the directory at %s: %w", net.JoinHostPort(host, strconv.Itoa(port)), err)
	}
	reply := new(wire.LookupReply)
	if err := answer.UnmarshalTo(reply); err != nil {
		return nil, fmt.Errorf("read the answer of the directory at %s: %w", net.JoinHostPort(host, strconv.Itoa(port)), err)
	}
	return reply, nil
}

// aside runs a look-up beside an actor's turn, under the look-ups' deadline.
// It reports false when too many run already.
func (n *node) aside(f func(ctx context.Context)) bool {
	select {
	case n.lookups <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-n.lookups }()
		ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
		defer cancel()
		f(ctx)
	}()
	return true
}
