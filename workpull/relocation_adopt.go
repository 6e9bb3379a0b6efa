package workpull

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/tochemey/goakt/v3/extension"

	"github.com/workpull/operator/workpull/internal/wire"
)

// adopt answers a member that leaves. It refuses what cannot be spawned here,
// so that another member is asked, and spawns the endpoint beside the
// directory's turn.
func (n *node) adopt(m *wire.Adopt) *wire.Adopted {
	d, k, err := n.adoptable(m)
	if err != nil {
		return &wire.Adopted{Refusal: err.Error()}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leaving {
		return &wire.Adopted{Refusal: "this member is leaving too"}
	}
	n.arriving++
	go func() {
		defer func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.arriving--
		}()
		err := n.raise(d, k, m.GetDependencies())
		switch log := n.system.Logger(); {
		case err == nil:
			log.Infof("%s was relocated to this member", d.Name)
		case errors.Is(err, ErrNameTaken): // the first that was asked was slow to answer
			log.Warnf("%s was relocated to this member, and lives elsewhere: %v", d.Name, err)
		default:
			log.Errorf("%s was relocated to this member, where it cannot be spawned: %v", d.Name, err)
		}
	}()
	return &wire.Adopted{}
}

func (n *node) adoptable(m *wire.Adopt) (*seed, kind, error) {
	d := new(seed)
	if err := d.UnmarshalBinary(m.GetSeed()); err != nil {
		return nil, kind{}, err
	}
	n.mu.Lock()
	k, known := n.kinds[d.Kind]
	n.mu.Unlock()
	switch {
	case !n.system.InCluster():
		return nil, k, fmt.Errorf("relocate %s: this system is in no cluster", d.Name)
	case !known:
		return nil, k, fmt.Errorf("relocate %s: its kind %s is not registered here", d.Name, d.Kind)
	case d.Options && len(k.actor) == 0:
		return nil, k, fmt.Errorf("relocate %s: it has actor options, and its kind %s is registered here without", d.Name, d.Kind)
	}
	for _, dependency := range m.GetDependencies() {
		if _, ok := k.dependencies[dependency.GetType()]; !ok {
			return nil, k, fmt.Errorf("relocate %s: its kind %s is registered here without dependencies of type %q", d.Name, d.Kind, dependency.GetType())
		}
	}
	return d, k, nil
}

// raise spawns the endpoint. What is the user's may panic.
func (n *node) raise(d *seed, k kind, encoded []*wire.Dependency) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("make an actor of kind %s: panic: %v\n%s", d.Kind, cause, debug.Stack())
		}
	}()
	dependencies := make([]extension.Dependency, len(encoded))
	for i, e := range encoded {
		if dependencies[i], err = k.decode(e.GetType(), e.GetValue()); err != nil {
			return err
		}
	}
	s := &spec{name: d.Name, inner: k.make(), actor: k.actor, dependencies: dependencies}
	if err := d.into(s); err != nil {
		return err
	}
	if err := s.validate(n.system); err != nil {
		return err
	}
	// The registry may show the name at the member that leaves: it is written
	// by a queue, so that an entry may come later than what made it stale.
	ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
	defer cancel()
	for {
		_, err := n.spawn(context.WithoutCancel(ctx), s)
		if !errors.Is(err, ErrNameTaken) || sleep(ctx, spawnPause) != nil {
			return err
		}
	}
}
