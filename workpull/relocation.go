package workpull

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/extension"
)

// When a member of a cluster leaves in order, its endpoints go to members that
// stay (rule 90). GoAkt's own relocation loses every fifth, and takes 16 s for
// the others: docs/decisions/004-relocation.md. So the member that leaves hands
// them over itself (relocation_leave.go): it asks another member's directory,
// which spawns the endpoint with wrapper, actor and controller as Spawn does
// (relocation_adopt.go).

// kind is how a member makes an actor whose endpoint comes from another.
type kind struct {
	make         func() actor.Actor
	actor        []actor.SpawnOption
	dependencies map[string]reflect.Type // by kindOf
}

// Register lets endpoints of an actor type be relocated to this system: when a
// member of the cluster leaves by Stop, each endpoint of a registered kind goes
// to another member that registered it too, under its name and with the options
// that it was spawned with. Call it on every member once its system runs. The
// kind is the type A, which has to be the actor's own and not an interface.
// newActor is called for each endpoint that arrives.
//
// What cannot travel is given here: WithActorOptions (a supervisor, a stash),
// WithRemotingOptions, and WithDependencies with one value of each type of
// dependency that the endpoints may have; the dependencies themselves travel,
// by their MarshalBinary and UnmarshalBinary. An endpoint that was spawned with
// WithActorOptions only goes to a member that registered its kind with some.
func Register[A actor.Actor](ctx context.Context, system actor.ActorSystem, newActor func() A, options ...SpawnOption) error {
	t := reflect.TypeFor[A]()
	if newActor == nil || kindOf(t) == "" {
		return &OptionError{Option: "Register", Got: "no function, or one for " + t.String(), Want: "a function that makes actors of a named type of their own"}
	}
	s := &spec{}
	if err := apply(s, options); err != nil {
		return fmt.Errorf("register %s: %w", t, err)
	}
	if s.role != 0 || s.stays {
		return &OptionError{Option: "Register", Got: "options that travel with the endpoint", Want: "WithActorOptions, WithDependencies and WithRemotingOptions"}
	}
	k := kind{make: func() actor.Actor { return newActor() }, actor: s.actor, dependencies: map[string]reflect.Type{}}
	for _, d := range s.dependencies {
		of := reflect.TypeOf(d)
		if of.Kind() != reflect.Pointer || kindOf(of) == "" {
			return &OptionError{Option: "Register", Got: "a dependency of type " + of.String(), Want: "a pointer to a named type"}
		}
		k.dependencies[kindOf(of)] = of.Elem()
	}
	n, err := nodeOf(ctx, system, s.remotes)
	if err != nil {
		return fmt.Errorf("register %s: %w", t, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kinds[kindOf(t)] = k
	return nil
}

// kindOf is a type's name with its package, empty for an unnamed type and for
// an interface. Types of one name in different packages are different kinds;
// GoAkt's registry would take one for the other.
func kindOf(t reflect.Type) string {
	stars := ""
	for t.Kind() == reflect.Pointer {
		t, stars = t.Elem(), stars+"*"
	}
	if t.Name() == "" || t.Kind() == reflect.Interface {
		return ""
	}
	return stars + t.PkgPath() + "." + t.Name()
}

// stayReason tells why an endpoint ends with its member, or nothing when it is
// relocated. Members are taken to register the same kinds.
func (n *node) stayReason(s *spec) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, known := n.kinds[kindOf(reflect.TypeOf(s.inner))]
	switch {
	case !n.system.InCluster():
		return "its system is in no cluster"
	case s.stays:
		return "its relocation is disabled"
	case s.address != nil:
		return "the address of its producer cannot travel"
	case !known:
		return fmt.Sprintf("its kind %T is not registered", s.inner)
	case len(s.actor) > 0 && len(k.actor) == 0:
		return fmt.Sprintf("it has actor options, and its kind %T is registered without", s.inner)
	}
	for _, d := range s.dependencies {
		if _, ok := k.dependencies[kindOf(reflect.TypeOf(d))]; !ok {
			return fmt.Sprintf("its kind %T is registered without dependencies of type %T", s.inner, d)
		}
	}
	return ""
}

// decode makes a dependency from its type's name and its encoding. The bytes
// come from another node, and the decoder is the user's.
func (k kind) decode(name string, value []byte) (d extension.Dependency, err error) {
	t, ok := k.dependencies[name]
	if !ok {
		return nil, fmt.Errorf("dependency of type %q is not registered with the kind", name)
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("decode the dependency %s: panic: %v", name, cause)
		}
	}()
	d = reflect.New(t).Interface().(extension.Dependency)
	if err := d.UnmarshalBinary(value); err != nil {
		return nil, fmt.Errorf("decode the dependency %s: %w", name, err)
	}
	return d, nil
}

// astray tells whether the endpoint was made by GoAkt and not by Spawn. GoAkt
// takes an endpoint for relocatable once it restarted it (part 5, trap 2), and
// relocates it without its dependencies when its system is stopped without
// Stop. Such a one ends at once: were it unknown, or its start an error, GoAkt
// would relocate nothing else in the cluster any more.
func (e *endpoint) astray() bool { return e.spec == nil }

// endAstray ends one as soon as it is in the tree: GoAkt posts PostStart before,
// and an actor that stops before stays in the tree for good.
func endAstray(system actor.ActorSystem, self *actor.PID) {
	system.Logger().Errorf("%s was relocated without its configuration and ends: its system was stopped, and not by workpull.Stop", self.Name())
	ctx, cancel := context.WithTimeout(context.Background(), astrayPatience)
	defer cancel()
	for {
		if pid, err := system.LocalActor(self.Name()); err == nil && pid == self {
			break
		}
		select {
		case <-ctx.Done():
			system.Logger().Errorf("%s never got into the tree", self.Name())
			return
		case <-time.After(time.Millisecond):
		}
	}
	if err := self.Shutdown(ctx); err != nil {
		system.Logger().Errorf("end %s: %v", self.Name(), err)
	}
}

const astrayPatience = 10 * time.Second
