package workpull

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/extension"
	"github.com/tochemey/goakt/v3/remote"

	"github.com/workpull/operator/workpull/internal/codec"
	"github.com/workpull/operator/workpull/internal/core"
)

// Defaults of the options.
const (
	DefaultRetryInterval     = 500 * time.Millisecond
	DefaultFlowControlWindow = 50
	DefaultResendInterval    = 2 * time.Second
)

// SpawnOption configures Spawn.
type SpawnOption func(*spec) error

// ProducerOption configures a producer endpoint.
type ProducerOption func(*spec) error

// WorkerOption configures a worker endpoint.
type WorkerOption func(*spec) error

type role uint8

const (
	producerRole role = iota + 1
	workerRole
)

func (r role) String() string {
	if r == producerRole {
		return "producer"
	}
	return "worker"
}

// spec is everything needed to spawn an endpoint, and to spawn it again.
type spec struct {
	name    string
	role    role
	inner   actor.Actor
	actor   []actor.SpawnOption
	remotes []remote.RemotingOption
	// dependencies are the actor's; they travel with a relocated endpoint.
	dependencies []extension.Dependency
	stays        bool // relocation is disabled

	// of a producer
	producer core.ProducerConfig
	queue    DurableWorkQueue // nil is none
	retry    queueRetry

	// of a worker
	follows  string
	consumer core.ConsumerConfig
	address  addressFunc
}

// addressFunc gives the address of the node that hosts the producer.
type addressFunc func(ctx context.Context) (host string, port int, err error)

// AsReliableWorkPullingProducer makes the actor a producer endpoint: it gets
// RequestNext and Stored, and answers with Produced and StoredAck.
func AsReliableWorkPullingProducer(options ...ProducerOption) SpawnOption {
	return func(s *spec) error {
		if err := s.become(producerRole); err != nil {
			return err
		}
		s.producer.RetryInterval = DefaultRetryInterval
		s.producer.Credits = 1
		s.retry = queueRetry{Attempts: DefaultQueueAttempts, Delay: DefaultQueueRetryDelay}
		s.producer.Lease = core.DefaultLease
		return apply(s, options)
	}
}

// AsReliableWorkPullingWorker makes the actor a worker endpoint of the named
// producer: it gets Delivery and answers with Confirmed or Rejected.
func AsReliableWorkPullingWorker(producer string, options ...WorkerOption) SpawnOption {
	return func(s *spec) error {
		if err := s.become(workerRole); err != nil {
			return err
		}
		if strings.TrimSpace(producer) == "" {
			return &OptionError{Option: "AsReliableWorkPullingWorker", Got: "a blank producer", Want: "the name of a producer endpoint"}
		}
		s.follows = producer
		s.consumer.Window = DefaultFlowControlWindow
		s.consumer.ResendInterval = DefaultResendInterval
		return apply(s, options)
	}
}

func (s *spec) become(r role) error {
	if s.role != 0 {
		return &OptionError{Option: "endpoint", Got: fmt.Sprintf("a %s already", s.role), Want: "one role per endpoint"}
	}
	s.role = r
	return nil
}

func apply[O ~func(*spec) error](s *spec, options []O) error {
	for _, option := range options {
		if option == nil {
			return &OptionError{Option: "option", Got: "nil", Want: "an option"}
		}
		if err := option(s); err != nil {
			return err
		}
	}
	return nil
}

// WithActorOptions passes options on to GoAkt's Spawn. Passivation is refused
// (rule 89). A mailbox among them is replaced by an unbounded one: a bounded
// one would block the controller or refuse its messages without a word.
// Relocation is the pattern's own affair: see Register. A supervisor applies to
// errors that the actor reports with ctx.Err; panics are caught and the actor is
// restarted.
func WithActorOptions(options ...actor.SpawnOption) SpawnOption {
	return func(s *spec) error {
		s.actor = append(s.actor, options...)
		return nil
	}
}

// WithDependencies gives the actor its dependencies, as GoAkt's option of that
// name does, and replaces those among WithActorOptions. They travel with a
// relocated endpoint, as those among WithActorOptions do.
func WithDependencies(dependencies ...extension.Dependency) SpawnOption {
	return func(s *spec) error {
		for _, d := range dependencies {
			if err := checkDependency("WithDependencies", d); err != nil {
				return err
			}
		}
		s.dependencies = append(s.dependencies, dependencies...)
		return nil
	}
}

// WithRelocationDisabled keeps the endpoint from going to another member when
// this one leaves the cluster (see Register): it ends with its member, and
// whoever spawned it sees to the next one.
func WithRelocationDisabled() SpawnOption {
	return func(s *spec) error {
		s.stays = true
		return nil
	}
}

// WithRemotingOptions configures the pattern's own client toward other nodes:
// its compression and TLS must be those of the nodes' remoting. The first
// Spawn in a system that has them decides for the system.
func WithRemotingOptions(options ...remote.RemotingOption) SpawnOption {
	return func(s *spec) error {
		s.remotes = append(s.remotes, options...)
		return nil
	}
}

// WithReliableRetryInterval sets how often RequestNext and Stored are told
// again. The default is 500 ms.
func WithReliableRetryInterval(interval time.Duration) ProducerOption {
	return func(s *spec) error {
		if interval <= 0 {
			return &OptionError{Option: "WithReliableRetryInterval", Got: interval.String(), Want: "more than zero"}
		}
		s.producer.RetryInterval = interval
		return nil
	}
}

// WithReliableDeliveryConfirmation asks for DeliveryConfirmed (rule 52).
func WithReliableDeliveryConfirmation() ProducerOption {
	return func(s *spec) error {
		s.producer.Confirmations = true
		return nil
	}
}

// WithReliableStoreAhead accepts up to jobs jobs beyond the workers' demand, so
// that jobs are taken before there is a worker (B7). The default is 0.
func WithReliableStoreAhead(jobs int) ProducerOption {
	return func(s *spec) error {
		if jobs < 0 {
			return &OptionError{Option: "WithReliableStoreAhead", Got: fmt.Sprint(jobs), Want: "zero or more jobs"}
		}
		s.producer.StoreAhead = jobs
		return nil
	}
}

// WithReliableCredits lets up to credits RequestNext be open at once (B8). The
// default is 1.
func WithReliableCredits(credits int) ProducerOption {
	return func(s *spec) error {
		if credits < 1 {
			return &OptionError{Option: "WithReliableCredits", Got: fmt.Sprint(credits), Want: "at least 1"}
		}
		s.producer.Credits = credits
		return nil
	}
}

// WithReliableLease sets for how long a worker's controller may be silent
// before it loses its jobs (B5). The default is 15 s.
func WithReliableLease(lease time.Duration) ProducerOption {
	return func(s *spec) error {
		if lease < codec.MinLease {
			return &OptionError{Option: "WithReliableLease", Got: lease.String(), Want: "at least " + codec.MinLease.String()}
		}
		s.producer.Lease = lease
		return nil
	}
}

// WithReliableRetryPolicy bounds the attempts of a job: one that was rejected,
// or whose worker died while it ran, is charged an attempt and waits the
// backoff, which doubles with each up to a minute (or up to the backoff itself
// where that is longer). After maxAttempts it becomes a dead letter (B3).
// Without the option a job is tried without end, with a backoff of one second
// at first.
func WithReliableRetryPolicy(maxAttempts int, backoff time.Duration) ProducerOption {
	return func(s *spec) error {
		if maxAttempts < 1 || backoff <= 0 {
			return &OptionError{
				Option: "WithReliableRetryPolicy", Got: fmt.Sprintf("%d, %v", maxAttempts, backoff),
				Want: "at least one attempt and a backoff of more than zero",
			}
		}
		s.producer.MaxAttempts = maxAttempts
		s.producer.FirstBackoff, s.producer.LastBackoff = backoff, max(backoff, core.DefaultLastBackoff)
		return nil
	}
}

// WithReliableMaxBackoff sets up to where the backoff of WithReliableRetryPolicy
// doubles, instead of a minute. It comes after that option.
func WithReliableMaxBackoff(longest time.Duration) ProducerOption {
	return func(s *spec) error {
		if longest <= 0 || longest < s.producer.FirstBackoff {
			return &OptionError{
				Option: "WithReliableMaxBackoff", Got: longest.String(),
				Want: "more than zero, and no less than the first backoff",
			}
		}
		s.producer.LastBackoff = longest
		return nil
	}
}

// WithReliablePackedDispatch gives a job to the worker that was used last among
// those that hold nothing, so that the others stay idle and can be let go. The
// default is round-robin.
func WithReliablePackedDispatch() ProducerOption {
	return func(s *spec) error {
		s.producer.Packed = true
		return nil
	}
}

// WithReliableChunking exists to be refused: see ErrChunkingRefused.
func WithReliableChunking(int) ProducerOption {
	return func(*spec) error {
		return &OptionError{Option: "WithReliableChunking", Err: ErrChunkingRefused}
	}
}

// WithReliableDurableQueue exists to be refused: see ErrDurableQueueRefused.
func WithReliableDurableQueue(any) ProducerOption {
	return func(*spec) error {
		return &OptionError{Option: "WithReliableDurableQueue", Err: ErrDurableQueueRefused}
	}
}

// WithReliableFlowControlWindow sets how many jobs the worker asks for at once
// and can hold, 1 to 10,000. The default is 50.
func WithReliableFlowControlWindow(window int) WorkerOption {
	return func(s *spec) error {
		if window < 1 || window > core.MaxWindow {
			return &OptionError{Option: "WithReliableFlowControlWindow", Got: fmt.Sprint(window), Want: fmt.Sprintf("1 to %d", core.MaxWindow)}
		}
		s.consumer.Window = window
		return nil
	}
}

// WithReliableResendInterval sets the worker controller's tick: how often it
// registers again and asks for what is missing. The default is 2 s.
func WithReliableResendInterval(interval time.Duration) WorkerOption {
	return func(s *spec) error {
		if interval <= 0 {
			return &OptionError{Option: "WithReliableResendInterval", Got: interval.String(), Want: "more than zero"}
		}
		s.consumer.ResendInterval = interval
		return nil
	}
}

// WithReliableRemoteProducer names the node that hosts the producer. The host
// may be a DNS name; it is resolved anew at each attempt, and of several
// addresses the one that hosts the producer is taken (B14).
func WithReliableRemoteProducer(host string, port int) WorkerOption {
	return func(s *spec) error {
		if strings.TrimSpace(host) == "" || port < 1 || port > 65535 {
			return &OptionError{Option: "WithReliableRemoteProducer", Got: fmt.Sprintf("%q, %d", host, port), Want: "a host and a port from 1 to 65535"}
		}
		return s.followAddress("WithReliableRemoteProducer", func(context.Context) (string, int, error) { return host, port, nil })
	}
}

// WithReliableRemoteProducerFunc is WithReliableRemoteProducer with a function
// that is called at each attempt, beside the controller, and has 500 ms.
func WithReliableRemoteProducerFunc(address func(ctx context.Context) (host string, port int, err error)) WorkerOption {
	return func(s *spec) error {
		if address == nil {
			return &OptionError{Option: "WithReliableRemoteProducerFunc", Got: "nil", Want: "a function"}
		}
		return s.followAddress("WithReliableRemoteProducerFunc", address)
	}
}

func (s *spec) followAddress(option string, address addressFunc) error {
	if s.address != nil {
		return &OptionError{Option: option, Got: "a second address", Want: "one address", Err: ErrResolutionConflict}
	}
	s.address = address
	return nil
}

// WithReliableIdentity tells the worker endpoint from all others for as long
// as it lives, whatever its name and address (B14): in Kubernetes the pod's
// UID, a boot nonce and the endpoint's name. The default is its address.
func WithReliableIdentity(identity string) WorkerOption {
	return func(s *spec) error {
		if strings.TrimSpace(identity) == "" || !utf8.ValidString(identity) {
			return &OptionError{Option: "WithReliableIdentity", Got: fmt.Sprintf("%q", identity), Want: "an identity that is not blank and is UTF-8"}
		}
		s.consumer.Identity = identity
		return nil
	}
}
