package workpull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/address"
	gerrors "github.com/tochemey/goakt/v3/errors"

	"github.com/workpull/operator/workpull/internal/wire"
)

const (
	// spawnPatience and spawnPause: right after nodes were lost, the registry
	// sends reads and writes to dead owners until it has noticed, and a first
	// spawn ends with a deadline or a closed connection.
	spawnPatience = 30 * time.Second
	spawnPause    = 200 * time.Millisecond
	// registryTimeout bounds the wait for the registry to show a change.
	registryTimeout = 10 * time.Second
)

// spawnActor is the system's Spawn with what a cluster makes necessary: a name
// that a crashed node left in the registry is freed first, and a spawn that
// ends with a deadline is tried again. An existing actor of that name is an
// error here; GoAkt returns it as if it had been spawned.
func (n *node) spawnActor(ctx context.Context, name string, a actor.Actor, options ...actor.SpawnOption) (*actor.PID, error) {
	// The context of PreStart outlives the call: a restart uses it again.
	lasting := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, spawnPatience)
	defer cancel()
	for {
		pid, err := n.trySpawn(ctx, lasting, name, a, options)
		if err == nil || !isTransient(err) {
			return pid, err
		}
		n.system.Logger().Warnf("spawn %s: %v; it is tried again", name, err)
		if late := sleep(ctx, spawnPause); late != nil {
			return nil, errors.Join(err, late)
		}
	}
}

func (n *node) trySpawn(ctx, lasting context.Context, name string, a actor.Actor, options []actor.SpawnOption) (*actor.PID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := n.free(ctx, name); err != nil {
		return nil, err
	}
	pid, err := n.system.Spawn(lasting, name, a, options...)
	switch {
	case err == nil && pid.Actor() != a, errors.Is(err, gerrors.ErrActorAlreadyExists):
		return nil, &OptionError{Option: "name", Got: name, Want: "a free name", Err: ErrNameTaken}
	case err == nil:
		return pid, n.inTree(pid)
	case pid != nil && pid.Actor() == a:
		return nil, errors.Join(err, pid.Shutdown(lasting))
	}
	return nil, err
}

// inTree makes sure that GoAkt has the actor in its tree: it ignores the error
// when the node cannot be added.
func (n *node) inTree(pid *actor.PID) error {
	found, err := n.system.LocalActor(pid.Name())
	if err == nil && found == pid {
		return nil
	}
	return errors.Join(fmt.Errorf("%s did not get into the actor tree", pid.Name()), pid.Shutdown(context.Background()))
}

// isTransient tells whether the registry could not be asked, or not in time,
// because it has not yet noticed that a member is gone. GoAkt passes on what
// Olric says, some of it text only.
func isTransient(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, gerrors.ErrRequestTimeout) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) {
		return true
	}
	for _, text := range []string{"deadline exceeded", "operation timeout", "client is closed", "connection refused", "connection reset"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// free removes a name from the cluster's registry when its holder is gone.
// Entries of crashed nodes are never removed by GoAkt, and Spawn fails on
// them.
func (n *node) free(ctx context.Context, name string) error {
	if !n.system.InCluster() {
		return nil
	}
	holder, err := n.system.RemoteActor(ctx, name)
	switch {
	case errors.Is(err, gerrors.ErrActorNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("look %s up in the registry: %w", name, err)
	case n.holds(ctx, holder):
		return &OptionError{Option: "name", Got: name + " of a live actor at " + holder.HostPort(), Want: "a free name", Err: ErrNameTaken}
	}
	n.system.Logger().Infof("the registry has %s at %s, where it is gone: it is removed", name, holder.HostPort())
	if err := n.unregister(ctx, name); err != nil {
		return fmt.Errorf("remove the stale registry entry of %s: %w", name, err)
	}
	return nil
}

// holds tells whether the holder of a name is, or may be, alive: only a
// refused connection or the node's own word says that it is not.
func (n *node) holds(ctx context.Context, holder *address.Address) bool {
	if n.isHere(holder.Host(), holder.Port()) {
		pid, err := n.system.LocalActor(holder.Name())
		return err == nil && pid.ID() == holder.String()
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	reply, err := n.lookup(ctx, holder.Host(), holder.Port(), &wire.Lookup{Actor: holder.Name()})
	switch {
	case err == nil:
		return reply.GetAlive()
	case errors.Is(err, syscall.ECONNREFUSED):
		return false
	case !errors.Is(err, gerrors.ErrAddressNotFound):
		return true
	}
	// No directory there: ask GoAkt itself. Its look-up answers from the
	// registry, a send looks into the node's tree.
	client := n.client()
	defer client.Close()
	err = client.RemoteTell(ctx, n.self(), holder, &wire.Lookup{Actor: holder.Name()})
	return !isGone(err)
}

// unregister removes a name from the registry. Only the end of an actor of
// that name does so: a child is not checked against the registry and takes the
// name over.
func (n *node) unregister(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	lasting := context.WithoutCancel(ctx)
	registrar, err := n.system.Spawn(lasting, registrarPrefix+randomName(), new(idle), actor.WithLongLived(), actor.WithRelocationDisabled())
	if err != nil {
		return fmt.Errorf("spawn a registrar: %w", err)
	}
	defer func() { _ = registrar.Shutdown(lasting) }()
	child, err := registrar.SpawnChild(lasting, name, new(idle), actor.WithLongLived())
	if err != nil {
		return fmt.Errorf("take the name over: %w", err)
	}
	// The registry is written by a queue: wait until the entry is ours, lest
	// the removal comes first.
	if err := poll(ctx, func() bool {
		holder, err := n.system.RemoteActor(ctx, name)
		return err == nil && holder.String() == child.ID()
	}); err != nil {
		return fmt.Errorf("wait for the registry to show the new holder: %w", err)
	}
	if err := child.Shutdown(lasting); err != nil {
		return fmt.Errorf("stop the new holder: %w", err)
	}
	if err := poll(ctx, func() bool {
		_, err := n.system.RemoteActor(ctx, name)
		return errors.Is(err, gerrors.ErrActorNotFound)
	}); err != nil {
		return fmt.Errorf("wait for the registry to free the name: %w", err)
	}
	return nil
}

// idle does nothing. It is used by pointer: GoAkt panics on an actor that is not
// one when it writes to the registry.
type idle struct{}

var _ actor.Actor = (*idle)(nil)

// PreStart implements actor.Actor.
func (*idle) PreStart(*actor.Context) error { return nil }

// Receive implements actor.Actor.
func (*idle) Receive(*actor.ReceiveContext) {}

// PostStop implements actor.Actor.
func (*idle) PostStop(*actor.Context) error { return nil }

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
