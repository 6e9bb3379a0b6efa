package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"k8s.io/utils/clock"

	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/workpull"
)

const (
	// resendInterval is the tick of the endpoints' controllers.
	resendInterval = time.Second
	// statusTimeout bounds a question to an endpoint's controller.
	statusTimeout = 500 * time.Millisecond
	// Members' first spawns write to the cluster's registry, whose owners may
	// have died a moment ago: they are retried (facts: deadline exceeded).
	spawnAttempts = 10
	spawnTimeout  = 10 * time.Second
	spawnPause    = 500 * time.Millisecond
)

type options struct {
	environment map[string]string
	logger      *slog.Logger
	clock       clock.WithTicker
	peers       node.Peers
}

// Option changes how Run works.
type Option func(*options)

// WithEnvironment is read in place of the process's environment.
func WithEnvironment(environment map[string]string) Option {
	return func(o *options) { o.environment = environment }
}

// WithLogger is used in place of one that writes JSON to standard error.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) { o.logger = logger }
}

// WithClock is used in place of the system's clock to time a drain.
func WithClock(c clock.WithTicker) Option {
	return func(o *options) { o.clock = c }
}

// Main runs a worker and ends the process: with status 0 after an orderly end,
// 2 when a setting is refused, and 1 for anything else, with one line that
// says why.
func Main(handler Handler) {
	err := Run(context.Background(), handler)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(node.ExitCode(err))
}

// Run works until ctx ends or the process gets SIGTERM or SIGINT. It then
// takes no more jobs, hands back what has not started, lets what runs go on
// for the drain time-out, and returns nil. The error is a *node.SettingError
// when a setting is refused.
func Run(ctx context.Context, handler Handler, opts ...Option) error {
	o := options{clock: clock.RealClock{}}
	for _, option := range opts {
		option(&o)
	}
	if handler == nil {
		return errors.New("run a worker: the handler is nil, wanted a function")
	}
	if o.environment == nil {
		o.environment = environ()
	}
	s := new(Settings)
	if err := node.Parse(s, o.environment); err != nil {
		return err
	}
	if o.logger == nil {
		o.logger = node.NewLogger(os.Stderr, s.Level())
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// A second signal ends the process at once.
	defer context.AfterFunc(ctx, stop)()
	return run(ctx, s, handler, &o)
}

func environ() map[string]string {
	all := map[string]string{}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		all[name] = value
	}
	return all
}

// process is a worker's process at work.
type process struct {
	settings *Settings
	logger   *slog.Logger
	clock    clock.WithTicker
	id       string // begins the identity of each endpoint
	handlers context.Context
	metrics  *metrics
	link     *node.Link

	mu        sync.Mutex
	endpoints []*actor.PID
	draining  bool
}

func run(ctx context.Context, s *Settings, handler Handler, o *options) error {
	// Handlers go on after ctx has ended, for as long as the drain lets them.
	handlers, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	p := &process{settings: s, logger: o.logger, clock: o.clock, id: processID(s), handlers: handlers}
	registry := node.NewRegistry()
	p.metrics = newMetrics(registry, p.registered, p.linked)
	health, err := node.ServeHealth(&s.Settings, registry, p.ready, p.logger)
	if err != nil {
		return err
	}
	defer health.Close()

	role := node.Attached
	if s.Membership == podenv.MembershipMember {
		role = node.Worker
	}
	n, err := node.Start(ctx, &s.Settings, node.Options{
		Role: role, Logger: p.logger, Kinds: []actor.Actor{&endpoint{}}, Peers: o.peers,
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // told to leave before it began
	}
	if err != nil {
		return err
	}
	locator := newLocator(n.System, s)
	linking, unlink := context.WithCancel(context.WithoutCancel(ctx))
	var held sync.WaitGroup
	defer held.Wait()
	defer unlink()
	// The link ends last: the probe that follows must find nobody.
	defer n.Stop(context.WithoutCancel(ctx))
	p.setLink(&node.Link{
		Hello: node.Hello{System: s.System, Host: s.PodIP, Port: s.RemotingPort, Process: p.id, Pod: s.PodName},
		Find:  locator.findHost, Port: s.LinkPort, Logger: p.logger,
	})
	held.Go(func() { p.link.Run(linking) })

	for i := range s.Concurrency {
		if err := p.spawn(ctx, n.System, i, handler, locator); err != nil {
			if ctx.Err() != nil {
				break
			}
			return err
		}
	}
	p.logger.Info("working", "producer", s.Producer, "pool", s.Pool, "identity", p.id,
		"concurrency", s.Concurrency, "window", s.FlowControlWindow, "membership", s.Membership)
	if role == node.Worker {
		err = p.watchSplit(ctx)
	} else {
		<-ctx.Done()
	}
	p.drain(interrupt)
	return err
}

// processID is the pod's UID and a nonce of this start: a container that
// restarts in its pod is another worker.
func processID(s *Settings) string {
	owner := s.PodUID
	if owner == "" {
		owner, _ = os.Hostname()
	}
	return owner + "/" + rand.Text()[:10]
}

func (p *process) spawn(ctx context.Context, system actor.ActorSystem, index int, handler Handler, at *locator) error {
	s := p.settings
	follow := []workpull.WorkerOption{
		workpull.WithReliableFlowControlWindow(s.FlowControlWindow),
		workpull.WithReliableResendInterval(resendInterval),
		workpull.WithReliableIdentity(p.id + "/" + strconv.Itoa(index)),
	}
	if s.Membership == podenv.MembershipAttached {
		follow = append(follow, workpull.WithReliableRemoteProducerFunc(at.find))
	}
	name := "worker-" + p.id[strings.LastIndexByte(p.id, '/')+1:] + "-" + strconv.Itoa(index)
	for attempt := 1; ; attempt++ {
		worker := &endpoint{handler: handler, handlers: p.handlers, metrics: p.metrics, logger: p.logger}
		spawning, cancel := context.WithTimeout(ctx, spawnTimeout)
		pid, err := workpull.Spawn(spawning, system, name, worker,
			append(node.SpawnOptions(), workpull.AsReliableWorkPullingWorker(s.Endpoint(), follow...))...)
		cancel()
		if err == nil {
			p.mu.Lock()
			p.endpoints = append(p.endpoints, pid)
			p.mu.Unlock()
			return nil
		}
		if attempt == spawnAttempts || ctx.Err() != nil {
			return fmt.Errorf("start worker endpoint %s: %w", name, err)
		}
		p.logger.Warn("cannot start a worker endpoint yet", "name", name, "attempt", attempt, "of", spawnAttempts, "error", err)
		select {
		case <-ctx.Done():
		case <-p.clock.After(spawnPause):
		}
	}
}

func (p *process) setLink(link *node.Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = link
}

func (p *process) linked() bool {
	p.mu.Lock()
	link := p.link
	p.mu.Unlock()
	return link != nil && link.Up()
}

func (p *process) pids() (endpoints []*actor.PID, draining bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpoints, p.draining
}

// registered counts the endpoints that the producer has bound.
func (p *process) registered(ctx context.Context) (int, error) {
	endpoints, _ := p.pids()
	count := 0
	var errs []error
	for _, pid := range endpoints {
		status, err := workpull.WorkerStatus(ctx, pid)
		switch {
		case err != nil:
			errs = append(errs, err)
		case status.Registered:
			count++
		}
	}
	return count, errors.Join(errs...)
}

// ready is the readiness: every endpoint is registered (S38), and none leaves.
func (p *process) ready(ctx context.Context) error {
	if _, draining := p.pids(); draining {
		return errors.New("draining")
	}
	count, err := p.registered(ctx)
	if count == p.settings.Concurrency {
		return nil
	}
	return errors.Join(fmt.Errorf("%d of %d endpoints are registered with producer %s", count, p.settings.Concurrency, p.settings.Producer), err)
}
