package workpull

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/tochemey/goakt/v3/address"
	gerrors "github.com/tochemey/goakt/v3/errors"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/wire"
)

// peers finds a producer's controller and tells whether a worker's controller
// is what it says. There are three ways: the local actor tree, the cluster's
// registry with the node's directory, and an address with that node's
// directory.
type peers interface {
	// Resolve finds the controller of the producer endpoint, anew each time.
	Resolve(ctx context.Context, producer string) (place, error)
	// Verify tells whether the registration is genuine: its sender is the live
	// companion of that endpoint, in that incarnation, which follows the
	// producer (rule 23).
	Verify(ctx context.Context, from core.Peer, r core.Registration) bool
}

// localTree is the way within one system.
type localTree struct{ *node }

// Resolve implements peers.
func (l localTree) Resolve(_ context.Context, producer string) (place, error) {
	if p, ok := l.localProducer(producer); ok {
		return p, nil
	}
	return place{}, fmt.Errorf("%w: %s is not in this system", ErrProducerNotFound, producer)
}

// Verify implements peers.
func (l localTree) Verify(_ context.Context, from core.Peer, r core.Registration) bool {
	c, ok := l.live(from)
	return ok && c.incarnation == r.Incarnation && c.endpoint.liveController() == c.pid &&
		c.endpoint.spec.role == workerRole && c.endpoint.spec.name == r.Endpoint &&
		c.endpoint.identity() == r.Identity && c.endpoint.spec.follows == r.Producer
}

// byAddress is the way to a node whose address is known.
type byAddress struct {
	*node
	where addressFunc
}

// Resolve implements peers. A Service's name or address is unknown to GoAkt,
// which compares addresses as strings, so a name is resolved to addresses
// first (part 5, trap 7).
func (b byAddress) Resolve(ctx context.Context, producer string) (place, error) {
	host, port, err := b.where(ctx)
	if err != nil {
		return place{}, fmt.Errorf("%w: find the address of %s: %w", ErrProducerNotFound, producer, err)
	}
	hosts, err := addressesOf(ctx, host)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", ErrProducerNotFound, err)
	}
	type found struct {
		place place
		err   error
	}
	answers := make(chan found, len(hosts))
	for _, h := range hosts {
		go func() {
			p, err := b.at(ctx, h, port, producer)
			answers <- found{p, err}
		}()
	}
	var errs []error
	for range hosts {
		f := <-answers
		if f.err == nil {
			return f.place, nil
		}
		errs = append(errs, f.err)
	}
	return place{}, fmt.Errorf("%w: %w", ErrProducerNotFound, errors.Join(errs...))
}

// maxAddresses bounds how many addresses of one name are asked.
const maxAddresses = 16

func addressesOf(ctx context.Context, host string) ([]string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}, nil
	}
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", host, err)
	}
	return hosts[:min(len(hosts), maxAddresses)], nil
}

// at asks one node for a producer's controller.
func (n *node) at(ctx context.Context, host string, port int, producer string) (place, error) {
	if n.isHere(host, port) {
		return localTree{n}.Resolve(ctx, producer)
	}
	reply, err := n.lookup(ctx, host, port, &wire.Lookup{Producer: producer})
	if err != nil {
		return place{}, err
	}
	return n.placeOf(reply, host, port, producer)
}

// placeOf reads what a node's directory says of a producer's controller.
func (n *node) placeOf(reply *wire.LookupReply, host string, port int, producer string) (place, error) {
	if !reply.GetAlive() || !isControllerName(reply.GetCompanion()) || reply.GetEndpoint() != producer {
		return place{}, fmt.Errorf("%s is not at %s:%d", producer, host, port)
	}
	system := n.system.Name()
	endpoint := address.New(producer, system, host, port)
	companion := address.NewWithParent(reply.GetCompanion(), system, host, port, endpoint)
	return place{peer: core.Peer(companion.String())}, nil
}

// Verify implements peers: the node that the sender says it is on has to know
// it.
func (n *node) verifyAt(ctx context.Context, from core.Peer, r core.Registration) bool {
	a, err := n.remotePeer(from)
	if err != nil || a.Parent().Name() != r.Endpoint || a.HostPort() != r.Host {
		return false
	}
	reply, err := n.lookup(ctx, a.Host(), a.Port(), &wire.Lookup{Companion: a.Name(), Incarnation: r.Incarnation})
	return err == nil && reply.GetAlive() &&
		reply.GetCompanion() == a.Name() && reply.GetEndpoint() == r.Endpoint &&
		reply.GetIncarnation() == r.Incarnation && reply.GetIdentity() == r.Identity &&
		reply.GetProducer() == r.Producer
}

// Verify implements peers.
func (b byAddress) Verify(ctx context.Context, from core.Peer, r core.Registration) bool {
	return b.verifyAt(ctx, from, r)
}

// inCluster is the way through the cluster's registry. It knows endpoints, the
// directory of the endpoint's node knows the controller (part 5, trap 5).
type inCluster struct{ *node }

// Resolve implements peers.
func (c inCluster) Resolve(ctx context.Context, producer string) (place, error) {
	if p, ok := c.localProducer(producer); ok {
		return p, nil
	}
	a, err := c.system.RemoteActor(ctx, producer)
	if err != nil {
		return place{}, fmt.Errorf("%w: look %s up in the registry: %w", ErrProducerNotFound, producer, err)
	}
	p, err := c.at(ctx, a.Host(), a.Port(), producer)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", ErrProducerNotFound, err)
	}
	return p, nil
}

// Verify implements peers.
func (c inCluster) Verify(ctx context.Context, from core.Peer, r core.Registration) bool {
	return c.verifyAt(ctx, from, r)
}

// resolver is the one way that a worker endpoint follows (rule 89).
func (n *node) resolver(s *spec) peers {
	switch {
	case s.address != nil:
		return byAddress{n, s.address}
	case n.system.InCluster():
		return inCluster{n}
	default:
		return localTree{n} // rule 25: no remote producer without a cluster or an address
	}
}

// verifier is the way to verify a sender. A local one never falls back to
// another way (rule 24).
func (n *node) verifier(local bool) peers {
	switch {
	case local:
		return localTree{n}
	case n.system.InCluster():
		return inCluster{n}
	default:
		return byAddress{n, nil}
	}
}

// lastName is the actor's own name in an address.
func lastName(addr string) string { return addr[strings.LastIndexByte(addr, '/')+1:] }

func isControllerName(name string) bool {
	return len(name) > len(controllerPrefix) && strings.HasPrefix(name, controllerPrefix)
}

// remotePeer parses the address of a controller on another node.
func (n *node) remotePeer(peer core.Peer) (*address.Address, error) {
	a, err := address.Parse(string(peer))
	switch {
	case err != nil:
		return nil, fmt.Errorf("address %q: %w", peer, err)
	case a.Parent() == nil || a.Parent().Name() == "" || !isControllerName(a.Name()):
		return nil, fmt.Errorf("address %q: is not a controller's", peer)
	case a.System() != n.system.Name():
		return nil, fmt.Errorf("address %q: wanted the system %s", peer, n.system.Name())
	case a.Host() == "" || a.Port() < 1 || n.isHere(a.Host(), a.Port()):
		// A local controller never sends through remoting: who says so lies.
		return nil, fmt.Errorf("address %q: is not on another node", peer)
	}
	return a, nil
}

// probe finds out whether a controller on another node still lives. Only a
// refused connection, or the node's own word, is evidence of its end.
func (n *node) probe(ctx context.Context, peer core.Peer, incarnation string) core.ProbeResult {
	a, err := n.remotePeer(peer)
	if err != nil {
		return core.Gone
	}
	for {
		reply, err := n.lookup(ctx, a.Host(), a.Port(), &wire.Lookup{Companion: a.Name(), Incarnation: incarnation})
		switch {
		case err == nil && reply.GetAlive():
			return core.Alive
		case err == nil, isGone(err):
			return core.Gone
		}
		// A process that is being killed may still accept and then reset: ask
		// once more until it refuses.
		select {
		case <-ctx.Done():
			return core.Unknown
		case <-time.After(probePause):
		}
	}
}

// isGone tells whether an answer says that nothing of the kind lives there: no
// process listens, the actor is unknown, or it is dead, which a directory is
// only when its system stops. GoAkt sends the last as text.
func isGone(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, gerrors.ErrAddressNotFound) ||
		err != nil && strings.Contains(err.Error(), gerrors.ErrDead.Error())
}

// probePause lies between two attempts of one probe.
const probePause = 20 * time.Millisecond
