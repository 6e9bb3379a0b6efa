package producer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/workpull/operator/runtime/election"
	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/workpull"
)

// A queue that fails is opened anew after a pause that doubles from firstPause
// to lastPause: a process that ended instead would be kept waiting by the
// kubelet for minutes after a longer outage.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 5 * time.Second
)

// errSuperseded ends the turn of a producer whose queue is another's.
var errSuperseded = errors.New("another producer has the queue")

// run serves, where there are standbys in turns.
func (p *process) run(ctx context.Context) error {
	if p.settings.Lease == "" {
		return p.lead(ctx, nil)
	}
	candidate, err := p.candidate()
	if err != nil {
		return err
	}
	for {
		p.stand("this pod is a standby")
		p.logger.Info("a standby: waiting for the Lease", "lease", candidate.Name, "identity", candidate.Identity)
		if p.turn, err = candidate.Campaign(ctx); err != nil {
			if ctx.Err() != nil {
				return p.sayFarewell()
			}
			return err
		}
		p.logger.Info("the Lease is this pod's: taking over", "lease", candidate.Name)
		p.intake.close("the producer is taking over")
		p.standby.Store(false)
		err = p.lead(ctx, p.turn.Lost())
		if ctx.Err() != nil || !errors.Is(err, errSuperseded) {
			return err
		}
		p.logger.Warn("this producer stands by from now on", "reason", err)
		if err := p.stepDown(ctx); err != nil {
			return p.sayFarewell()
		}
	}
}

// candidate is this pod in the election.
func (p *process) candidate() (*election.Candidate, error) {
	if p.leases == nil {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the API server: %w", err)
		}
		config.Timeout = election.RequestTimeout
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("make a client of the API server: %w", err)
		}
		p.leases = client.CoordinationV1()
	}
	s := p.settings
	return &election.Candidate{
		Leases: p.leases, Namespace: s.PodNamespace, Name: s.Lease,
		Identity: podenv.Identity(s.PodName, s.PodUID), Logger: p.logger,
		Standby: func(holder string) { p.stand("this pod is a standby; the active one is " + holder) },
	}, nil
}

// stand closes the intake of a standby, which is ready nevertheless.
func (p *process) stand(reason string) {
	p.intake.close(reason)
	p.standby.Store(true)
}

// stepDown makes a standby of a producer that was active: dispatch ends first,
// then everything else, and last the Lease is given back should it be this
// pod's still.
func (p *process) stepDown(ctx context.Context) error {
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	p.close(stopping)
	p.stand("this pod is a standby")
	p.ledger.abandon()
	p.leave(stopping)
	p.turn.Resign()
	p.turn = nil
	// Whoever fenced the queue without a Lease may do so again.
	return pause(ctx, election.Duration)
}

// lead is the active producer until ctx ends or lost is closed, or until
// something happens that it cannot mend.
func (p *process) lead(ctx context.Context, lost <-chan struct{}) error {
	if err := p.join(ctx); err != nil {
		return err
	}
	wait := firstPause
	for {
		err := p.open(ctx)
		if err == nil {
			wait = firstPause
			err = p.attend(ctx, lost)
		}
		switch {
		case err == nil, ctx.Err() != nil:
			return p.sayFarewell()
		case errors.Is(err, workpull.ErrQueueFenced):
			return fmt.Errorf("%w: %w", errSuperseded, err)
		case errors.Is(err, workpull.ErrNameTaken) && p.queue != nil:
			// A member of the workers' cluster that has the endpoint still: once
			// it is fenced it ends with its next operation.
			err = errors.Join(err, p.fence(ctx))
		case errors.Is(err, errSuperseded), p.watch.trouble() == nil:
			return err
		}
		p.intake.close(queueFails)
		p.logger.Error("no job is taken or handed out: it is tried again", "queue", p.settings.Queue, "pause", wait.String(), "error", err)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		p.close(closing)
		cancel()
		select {
		case <-lost:
			return p.superseded()
		default:
		}
		if pause(ctx, wait) != nil {
			return p.sayFarewell()
		}
		wait = min(2*wait, lastPause)
	}
}

// fence makes the queue this process's.
func (p *process) fence(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, spawnTimeout)
	defer cancel()
	if _, _, err := p.queue.Load(ctx); err != nil {
		return fmt.Errorf("fence the queue: %w", err)
	}
	return nil
}

func (p *process) superseded() error {
	return fmt.Errorf("%w: %s has the Lease", errSuperseded, p.turn.Holder())
}

// pause returns early with an error when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// join brings the actor system up, and the port of the workers' connections.
func (p *process) join(ctx context.Context) error {
	s := p.settings
	n, err := node.Start(ctx, &s.Settings, node.Options{Role: node.Producer, Logger: p.logger, Kinds: []actor.Actor{&dispatcher{}}, Successor: s.Lease != ""})
	if err != nil {
		return err
	}
	p.node = n
	if p.failures, err = workpull.Subscribe(ctx, n.System); err != nil {
		return fmt.Errorf("subscribe to failures: %w", err)
	}
	address := net.JoinHostPort(s.PodIP, strconv.Itoa(s.LinkPort))
	if p.links, err = node.ListenLinks(address, s.System, p.lost(n.System), p.logger); err != nil {
		return err
	}
	p.source.link(p.links)
	return nil
}

// open opens the queue, which fences whoever had it before, brings the endpoint
// up and opens the intake.
func (p *process) open(ctx context.Context) error {
	s := p.settings
	for len(p.failures.C()) > 0 { // of an endpoint before this one
		<-p.failures.C()
	}
	p.queue = p.openQueue()
	spawning, cancel := context.WithTimeout(ctx, spawnTimeout)
	defer cancel()
	pid, err := workpull.Spawn(spawning, p.node.System, s.Endpoint(), &dispatcher{ledger: p.ledger, logger: p.logger},
		append(node.SpawnOptions(), workpull.AsReliableWorkPullingProducer(p.endpointOptions(p.queue)...))...)
	if err != nil {
		return fmt.Errorf("start the producer endpoint %s: %w", s.Producer, err)
	}
	p.endpoint = pid
	p.source.connect(pid, p.queue)
	held, err := p.source.inspect(ctx) // so that the backlog counts from the first job on
	if err != nil {
		p.logger.Warn("cannot ask the controller", "error", err)
	}
	p.begun = true
	p.intake.open()
	message := "jobs are taken; they are kept in a queue that outlives this process"
	if s.Queue == podenv.QueueMemory {
		message = "jobs are taken; the queue is in memory: those that are accepted are lost when this process ends, and those of an earlier one are not known"
	}
	p.logger.Info(message, "producer", s.Producer, "queue", s.Queue, "backlog", held.Waiting+held.Delayed+held.Dead,
		"intake", p.listener.Addr().String(), "maxPending", s.MaxPending, "maxJobBytes", s.MaxJobBytes)
	return nil
}

// attend returns nil when ctx ends, and an error when the controller, the intake
// or the turn does.
func (p *process) attend(ctx context.Context, lost <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
			p.intake.close("another producer takes over")
			return p.superseded()
		case err := <-p.served:
			return fmt.Errorf("serve the intake: %w", err)
		case failure, ok := <-p.failures.C():
			if !ok {
				return errors.New("the actor system ended")
			}
			if failure.Endpoint() != p.settings.Endpoint() {
				continue
			}
			p.intake.close("the controller stopped")
			return fmt.Errorf("the controller stopped at stage %s: %w", failure.Stage(), failure.Err())
		}
	}
}

// sayFarewell answers new jobs with 503 for a while.
func (p *process) sayFarewell() error {
	p.intake.close("the producer is stopping")
	p.logger.Info("stopping: no more jobs are taken")
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case err := <-p.served:
		return fmt.Errorf("serve the intake: %w", err)
	case <-timer.C:
		return nil
	}
}

// close ends dispatch and closes the queue.
func (p *process) close(ctx context.Context) {
	p.source.connect(nil, nil)
	if p.endpoint != nil {
		if err := p.endpoint.Shutdown(ctx); err != nil {
			p.logger.Warn("the endpoint did not stop cleanly", "error", err)
		}
		p.endpoint = nil
	}
	if p.queue != nil {
		if err := p.queue.Close(); err != nil {
			p.logger.Warn("the queue was not closed cleanly", "error", err)
		}
		p.queue = nil
	}
}

// leave stops the actor system.
func (p *process) leave(ctx context.Context) {
	if p.links != nil {
		p.links.Close()
		p.source.link(nil)
	}
	if p.failures != nil {
		p.failures.Close()
	}
	if p.node != nil {
		p.node.Stop(ctx)
	}
	p.links, p.failures, p.node = nil, nil, nil
}
