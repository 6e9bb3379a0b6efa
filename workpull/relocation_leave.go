package workpull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	gerrors "github.com/tochemey/goakt/v3/errors"
	"github.com/tochemey/goakt/v3/remote"

	"github.com/workpull/operator/workpull/internal/wire"
)

const (
	// nameTimeout bounds the wait for a name to leave the registry. One that is
	// there still is stale.
	nameTimeout = 2 * time.Second
	// adoptTimeout bounds the wait for an endpoint to appear at the member that
	// took it; then another one is asked.
	adoptTimeout = 5 * time.Second
	// maxHandOvers bounds those that run at once.
	maxHandOvers = 16
)

// beginLeaving lets no endpoint arrive any more, waits for those that are arriving,
// and returns those that are to be relocated.
func (n *node) beginLeaving(ctx context.Context) []*spec {
	n.mu.Lock()
	n.leaving = true
	n.mu.Unlock()
	_ = poll(ctx, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.arriving == 0
	})
	n.mu.Lock()
	endpoints := make([]*endpoint, 0, len(n.endpoints))
	for _, e := range n.endpoints {
		endpoints = append(endpoints, e)
	}
	n.mu.Unlock()
	var moving []*spec
	for _, e := range endpoints {
		if pid := e.pid(); pid != nil && alive(pid) && n.stayReason(e.spec) == "" {
			moving = append(moving, e.spec)
		}
	}
	return moving
}

// handOver gives endpoints that have been stopped to members that stay. One
// that nobody takes is lost, as with a member that crashes; that is logged, and
// does not keep this member from stopping.
//
// It is over once the registry shows the endpoints where they are now: this
// member still counts then, and writes to the registry are not lost. A member
// whose write to the registry is cut off is shut down by GoAkt.
func (n *node) handOver(ctx context.Context, moving []*spec) {
	if len(moving) == 0 {
		return
	}
	log := n.system.Logger()
	peers, err := n.system.Peers(ctx, registryTimeout)
	switch {
	case err != nil:
		log.Errorf("relocate %d endpoints: find the members that stay: %v", len(moving), err)
		return
	case len(peers) == 0:
		log.Infof("%d endpoints end here: this is the last member", len(moving))
		return
	}
	// The youngest first: in a rolling update the oldest are the next to leave.
	slices.SortFunc(peers, func(a, b *remote.Peer) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	room := make(chan struct{}, maxHandOvers)
	var group sync.WaitGroup
	for i, s := range moving {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			if err := n.handOne(ctx, s, rotated(peers, i)); err != nil {
				log.Errorf("%s is lost: no other member takes it: %v", s.name, err)
			}
		})
	}
	group.Wait()
}

// rotated spreads the endpoints over the members.
func rotated(peers []*remote.Peer, by int) []*remote.Peer {
	by %= len(peers)
	return append(slices.Clone(peers[by:]), peers[:by]...)
}

// handOne offers one endpoint to the members in turn.
func (n *node) handOne(ctx context.Context, s *spec, peers []*remote.Peer) error {
	offer, err := n.offer(s)
	if err != nil {
		return err
	}
	if err := n.clearName(ctx, s.name); err != nil {
		return err
	}
	var errs []error
	for _, p := range peers {
		err := n.offerTo(ctx, p, s.name, offer)
		if err == nil {
			n.system.Logger().Infof("%s is relocated to %s", s.name, p.RemotingAddress())
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.RemotingAddress(), err))
	}
	return errors.Join(errs...)
}

func (n *node) offer(s *spec) (*wire.Adopt, error) {
	encoded, err := newSeed(s).MarshalBinary()
	if err != nil {
		return nil, err
	}
	offer := &wire.Adopt{Seed: encoded}
	n.mu.Lock()
	dependencies := s.dependencies
	n.mu.Unlock()
	for _, d := range dependencies {
		value, err := d.MarshalBinary()
		if err != nil {
			return nil, fmt.Errorf("encode the dependency %s: %w", d.ID(), err)
		}
		offer.Dependencies = append(offer.Dependencies, &wire.Dependency{Type: kindOf(reflect.TypeOf(d)), Value: value})
	}
	return offer, nil
}

// clearName waits until the actor tree and then the registry have forgotten that
// the endpoint was here. GoAkt removes it from both later than it stops the
// actor, and would remove the next holder's entry. Where it did not remove it, that is done here: to remove a
// name an actor has to stop, which is safest where it harms nobody.
func (n *node) clearName(ctx context.Context, name string) error {
	if err := n.awaitGone(ctx, name); err != nil {
		return fmt.Errorf("wait for %s to leave the actor tree: %w", name, err)
	}
	waiting, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	err := poll(waiting, func() bool {
		holder, err := n.system.RemoteActor(waiting, name)
		return errors.Is(err, gerrors.ErrActorNotFound) || err == nil && !n.isHere(holder.Host(), holder.Port())
	})
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return n.unregister(ctx, name)
}

// offerTo asks one member and waits until the endpoint is there.
func (n *node) offerTo(ctx context.Context, p *remote.Peer, name string, offer *wire.Adopt) error {
	client := n.client()
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	answer, err := client.RemoteAsk(ctx, n.self(), n.directoryAt(p.Host, p.RemotingPort), offer, adoptTimeout)
	if err != nil {
		return fmt.Errorf("ask its directory: %w", err)
	}
	reply := new(wire.Adopted)
	if err := answer.UnmarshalTo(reply); err != nil {
		return fmt.Errorf("read its directory's answer: %w", err)
	}
	if refusal := reply.GetRefusal(); refusal != "" {
		return errors.New(refusal)
	}
	if err := poll(ctx, func() bool {
		holder, err := n.system.RemoteActor(ctx, name)
		return err == nil && holder.Host() == p.Host && holder.Port() == p.RemotingPort
	}); err != nil {
		return fmt.Errorf("wait for the endpoint to appear there: %w", err)
	}
	return nil
}
