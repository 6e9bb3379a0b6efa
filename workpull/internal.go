package workpull

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/workpull/operator/workpull/internal/core"
	"github.com/workpull/operator/workpull/internal/wire"
)

// Messages that actors of the pattern tell themselves and each other within
// one system. No other package can make them, and they cross no wire, so that
// a local job is neither encoded nor copied on its way.

// protoMessage is what GoAkt passes between actors.
type protoMessage = proto.Message

// internal makes a struct that embeds it a proto.Message.
type internal struct{}

// ProtoReflect implements proto.Message.
func (internal) ProtoReflect() protoreflect.Message {
	return (&wire.InternalShadow{Message: "workpull"}).ProtoReflect()
}

type (
	// attach tells a new endpoint that it is in the tree: its controller may
	// be spawned beneath it.
	attach struct {
		internal
		done chan error
	}
	// respawn restarts the inner actor and recreates a stopped controller.
	respawn struct {
		internal
		done chan error
	}
	// begin tells a new controller that it is in the tree.
	begin struct{ internal }
	// halt ends a controller whose core stopped in a turn on another
	// goroutine; panicked has it panic on its own, as GoAkt expects.
	halt     struct{ internal }
	panicked struct {
		internal
		cause any
		stack []byte
	}
	// tick is a controller's timer.
	tick struct {
		internal
		generation uint64
	}
	// flush is a consumer controller's FlushDelay.
	flush struct{ internal }

	// registration and control come from a consumer controller of the same
	// system, registered, batch and acknowledged from a producer controller.
	registration struct {
		internal
		core.Registration
	}
	control struct {
		internal
		*core.Control
	}
	registered struct {
		internal
		core.Effect
	}
	batch struct {
		internal
		session, binding uint64
		jobs             [1]*core.Delivery
	}
	acknowledged struct {
		internal
		session, binding, control uint64
	}
	// recall asks back a buffered job; late confirms one whose binding ended.
	recall struct {
		internal
		session, binding, sequence uint64
	}
	late struct {
		internal
		session uint64
		core.HeldAttempt
	}
	// recallDue is the producer controller's RecallDelay.
	recallDue struct{ internal }

	// verified, probed, resolved and sendFailed are results of work that ran
	// beside a controller.
	verified struct {
		internal
		from core.Peer
		reg  core.Registration
		ok   bool
	}
	probed struct {
		internal
		binding uint64
		result  core.ProbeResult
	}
	resolved struct {
		internal
		place place
		err   error
	}
	sendFailed struct {
		internal
		binding uint64
	}

	// loaded, fetched and committed are a queue's answers.
	loaded struct {
		internal
		session, number, epoch uint64
		state                  core.QueueState
		err                    error
	}
	fetched struct {
		internal
		session, number uint64
		payloads        []core.Payload
		err             error
	}
	committed struct {
		internal
		session, number uint64
		outcomes        []core.StoreOutcome
		err             error
	}

	// peerLost tells that a node's connection closed. Without a port every
	// node at the host is meant.
	peerLost struct {
		internal
		host string
		port int
	}
	// handlerRestarted tells a consumer controller that the worker actor was
	// restarted after the delivery had entered its handler.
	handlerRestarted struct {
		internal
		outcome
	}
	// drain, inspect and inquire are questions; the answer goes into the
	// channel, which has room for it.
	drain struct {
		internal
		done chan struct{}
	}
	inspect struct {
		internal
		reply chan Snapshot
	}
	inquire struct {
		internal
		reply chan Status
	}
	// command is carried out on the producer controller's turn.
	command struct {
		internal
		do   func(p *core.Producer, now time.Duration)
		done chan struct{}
	}
)

// String says what happened and where.
func (p *panicked) String() string { return fmt.Sprintf("%v\n%s", p.cause, p.stack) }

// matches tells whether a worker's host:port is meant.
func (m *peerLost) matches(hostPort string) bool {
	if m.port != 0 {
		return hostPort == net.JoinHostPort(m.host, strconv.Itoa(m.port)) || hostPort == m.host+":"+strconv.Itoa(m.port)
	}
	i := len(hostPort) - 1
	for i >= 0 && hostPort[i] != ':' {
		i--
	}
	return i > 0 && hostPort[:i] == m.host
}
