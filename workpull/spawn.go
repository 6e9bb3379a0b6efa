package workpull

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/passivation"

	"github.com/workpull/operator/workpull/internal/core"
)

// Spawn spawns an actor as an endpoint of the pattern. One of the options is
// AsReliableWorkPullingProducer or AsReliableWorkPullingWorker. The returned
// PID is the endpoint's; its Actor() is a wrapper around a. Spawn returns once
// the endpoint's controller lives; a spawn that fails leaves nothing behind
// (rule 87).
//
// An endpoint is never passivated. In a cluster it goes to another member when
// this one leaves by Stop, provided that its kind is registered (Register) and
// WithRelocationDisabled was not given; why one stays is logged. The jobs that
// a producer endpoint holds in memory do not go with it.
//
// Errors: *OptionError for an option that is refused, ErrReservedName,
// ErrNameTaken when a live actor of this system or its cluster has the name,
// and whatever GoAkt's Spawn returns.
func Spawn(ctx context.Context, system actor.ActorSystem, name string, a actor.Actor, options ...SpawnOption) (*actor.PID, error) {
	s := &spec{name: name, inner: a}
	if err := apply(s, options); err != nil {
		return nil, fmt.Errorf("spawn %s: %w", name, err)
	}
	if err := s.validate(system); err != nil {
		return nil, fmt.Errorf("spawn %s: %w", name, err)
	}
	n, err := nodeOf(ctx, system, s.remotes)
	if err != nil {
		return nil, fmt.Errorf("spawn %s: %w", name, err)
	}
	pid, err := n.spawn(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("spawn %s: %w", name, err)
	}
	return pid, nil
}

func (s *spec) validate(system actor.ActorSystem) error {
	switch {
	case s.inner == nil:
		return &OptionError{Option: "actor", Got: "nil", Want: "an actor"}
	case strings.HasPrefix(s.name, reservedPrefix):
		return &OptionError{Option: "name", Got: s.name, Want: "no prefix " + reservedPrefix, Err: ErrReservedName}
	case s.role == 0:
		return &OptionError{Option: "endpoint", Got: "no role", Want: "AsReliableWorkPullingProducer or AsReliableWorkPullingWorker"}
	case s.role == workerRole && s.follows == s.name:
		return &OptionError{Option: "AsReliableWorkPullingWorker", Got: "the endpoint's own name", Want: "the name of a producer endpoint"}
	case s.address != nil && system != nil && system.InCluster():
		return &OptionError{
			Option: "WithReliableRemoteProducer", Got: "an address in a system that resolves through its cluster",
			Want: "one of the two", Err: ErrResolutionConflict,
		}
	}
	return nil
}

// ReSpawn restarts the endpoint's actor, keeps its controller if that lives
// and makes a new one if it has ended (rule 88). An endpoint that was stopped
// is spawned again with the options that it had. It waits for the message that
// the actor handles at the time. The error is ErrNotEndpoint when no endpoint
// of that name was spawned in this system.
func ReSpawn(ctx context.Context, system actor.ActorSystem, name string) (*actor.PID, error) {
	n, err := nodeOf(ctx, system, nil)
	if err != nil {
		return nil, fmt.Errorf("respawn %s: %w", name, err)
	}
	n.mu.Lock()
	s, e := n.specs[name], n.endpoints[name]
	n.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("respawn %s: %w", name, ErrNotEndpoint)
	}
	if e != nil {
		if pid := e.pid(); pid != nil && pid.IsRunning() {
			done := make(chan error, 1)
			if err := await(ctx, system, pid, &respawn{done: done}, done); err != nil {
				return nil, fmt.Errorf("respawn %s: %w", name, err)
			}
			return pid, nil
		}
		n.rollBack(e.pid()) // suspended: stop and spawn
	}
	pid, err := n.spawn(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("respawn %s: %w", name, err)
	}
	return pid, nil
}

// await tells an actor of the pattern a question and waits for its outcome.
func await(ctx context.Context, system actor.ActorSystem, pid *actor.PID, question protoMessage, done <-chan error) error {
	if err := system.NoSender().Tell(ctx, pid, question); err != nil {
		return err
	}
	outcome, err := receive(ctx, pid, done)
	return errors.Join(err, outcome)
}

// spawn spawns the endpoint and its controller.
func (n *node) spawn(ctx context.Context, s *spec) (_ *actor.PID, err error) {
	if err := n.claim(ctx, s.name); err != nil {
		return nil, err
	}
	defer n.release(s.name)

	e := newEndpoint(n, s)
	if s.queue != nil { // rule 56, and PreStart may run five times (part 5, trap 9)
		state, epoch, err := n.laneOf(s).load(ctx, 0)
		if err != nil {
			return nil, err
		}
		if e.queue, err = core.NewLoadedQueue(state, epoch); err != nil {
			return nil, fmt.Errorf("load the queue %s: %w", s.queue.ID(), err)
		}
	}
	options := append([]actor.SpawnOption{actor.WithLongLived()}, s.actor...)
	if len(s.dependencies) > 0 {
		options = append(options, actor.WithDependencies(s.dependencies...))
	}
	options = append(options, actor.WithRelocationDisabled(), actor.WithMailbox(e.mailbox)) // the pattern relocates it itself
	pid, err := n.spawnActor(ctx, s.name, e, options...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			n.rollBack(pid)
		}
	}()
	if strategy := pid.PassivationStrategy(); !isLongLived(strategy) {
		return nil, &OptionError{Option: "WithActorOptions", Got: fmt.Sprint(strategy), Want: "a long-lived actor", Err: ErrPassivationRefused}
	}
	dependencies := pid.Dependencies()
	done := make(chan error, 1)
	if err := await(ctx, n.system, pid, &attach{done: done}, done); err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.specs[s.name] = s
	// A restart by GoAkt forgets them (part 5, trap 2).
	s.dependencies = dependencies
	n.mu.Unlock()
	if why := n.stayReason(s); why != "" && !s.stays && n.system.InCluster() {
		n.system.Logger().Infof("%s will end with this member and not be relocated: %s", s.name, why)
	}
	return pid, nil
}

func isLongLived(s passivation.Strategy) bool {
	_, ok := s.(*passivation.LongLivedStrategy)
	return ok
}

// claim keeps a name from being spawned twice at a time, refuses one that is
// alive, and waits until a stopped endpoint of that name has left the tree:
// GoAkt would lose the new one (its node is not added while the old one is
// there).
func (n *node) claim(ctx context.Context, name string) error {
	n.mu.Lock()
	_, busy := n.spawning[name]
	e, known := n.endpoints[name], n.specs[name] != nil
	if !busy {
		n.spawning[name] = struct{}{}
	}
	n.mu.Unlock()
	if busy || e != nil && e.pid() != nil && alive(e.pid()) {
		if !busy {
			n.release(name)
		}
		return &OptionError{Option: "name", Got: name, Want: "a free name", Err: ErrNameTaken}
	}
	if !known {
		return nil
	}
	if err := n.awaitGone(ctx, name); err != nil {
		n.release(name)
		return err
	}
	return nil
}

func (n *node) release(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.spawning, name)
}

// goneTimeout bounds the wait for a stopped actor to leave the tree.
const goneTimeout = 5 * time.Second

func (n *node) awaitGone(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	return poll(ctx, func() bool {
		pid, err := n.system.LocalActor(name)
		return err != nil || pid == nil
	})
}

// rollBack stops an endpoint that did not come to be, or is to be replaced.
func (n *node) rollBack(pid *actor.PID) {
	if pid == nil {
		return
	}
	if err := pid.Shutdown(context.Background()); err != nil {
		n.system.Logger().Errorf("stop %s: %v", pid.Name(), err)
	}
	if err := n.awaitGone(context.Background(), pid.Name()); err != nil {
		n.system.Logger().Errorf("stop %s: %v", pid.Name(), err)
	}
}

// remember and forget keep the set of live endpoints.
func (n *node) remember(e *endpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.endpoints[e.spec.name] = e
}

func (n *node) forget(e *endpoint) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endpoints[e.spec.name] == e {
		delete(n.endpoints, e.spec.name)
	}
}

// pollPause lies between two looks at something that GoAkt does not announce.
const pollPause = 5 * time.Millisecond

// poll waits until done, or returns the context's error.
func poll(ctx context.Context, done func() bool) error {
	ticker := time.NewTicker(pollPause)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// errStopped tells that an actor ended before it answered.
var errStopped = errors.New("stopped before it answered")

// randomID is a session or a binding: not zero.
func randomID() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}

// randomName is an incarnation.
func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
