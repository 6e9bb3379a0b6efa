package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"k8s.io/utils/clock"

	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/workpull"
)

const (
	// credits is how many jobs the endpoint asks for at once: a post costs a
	// round trip of the handshake, and posts come side by side.
	credits = 64
	// farewell is how long new jobs are answered with 503 after SIGTERM, until
	// clients are sent here no more; answerTimeout is what requests that are
	// then in flight get. With the actor system's stop, five seconds at most,
	// it stays under ten.
	farewell      = time.Second
	answerTimeout = 3 * time.Second
	// spawnTimeout bounds the start of the endpoint.
	spawnTimeout = 30 * time.Second

	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = readTimeout + acceptTimeout + 10*time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Run serves until ctx ends, and then gives requests in flight their answer
// and stops, within ten seconds. It returns an error when it could not start
// or when the endpoint's controller stopped: all it held is then lost, and a
// new process starts clean.
func Run(ctx context.Context, s *Settings, logger *slog.Logger) error {
	p, err := listen(s, logger)
	if err != nil {
		return err
	}
	defer p.end()
	if err := p.start(ctx, s); err != nil {
		return err
	}
	return p.serve(ctx)
}

// process is everything that a producer's process consists of.
type process struct {
	settings *Settings
	logger   *slog.Logger
	intake   *intake
	ledger   *ledger
	server   *http.Server
	listener net.Listener
	served   chan error
	health   *node.Health
	source   *source
	node     *node.Node
	links    *node.LinkServer
	failures *workpull.Subscription
}

// listen opens the ports that answer before there is an endpoint: probes, and
// the intake, with 503.
func listen(s *Settings, logger *slog.Logger) (*process, error) {
	p := &process{settings: s, logger: logger, source: &source{}, served: make(chan error, 1)}
	p.ledger = newLedger(clock.RealClock{}, s.MaxPending)
	p.source.ledger = p.ledger
	p.intake = &intake{
		ledger: p.ledger, endpoint: p.source, maxBytes: s.MaxJobBytes,
		producer: s.Producer, started: time.Now(), logger: logger,
	}
	p.intake.close("the producer is starting")
	registry := node.NewRegistry()
	metrics := newMetrics(registry, p.source)
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(s.IntakePort)))
	if err != nil {
		return nil, fmt.Errorf("listen on the intake port: %w", err)
	}
	p.listener = listener
	if p.health, err = node.ServeHealth(&s.Settings, registry, p.ready, logger); err != nil {
		_ = listener.Close()
		return nil, err
	}
	p.server = &http.Server{
		Handler:           metrics.measure(p.intake.handler()),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// start brings the endpoint up and opens the intake.
func (p *process) start(ctx context.Context, s *Settings) error {
	endpoint := &dispatcher{ledger: p.ledger, logger: p.logger}
	n, err := node.Start(ctx, &s.Settings, node.Options{Role: node.Producer, Logger: p.logger, Kinds: []actor.Actor{endpoint}})
	if err != nil {
		return err
	}
	p.node = n
	if p.failures, err = workpull.Subscribe(ctx, n.System); err != nil {
		return fmt.Errorf("subscribe to failures: %w", err)
	}
	spawning, cancel := context.WithTimeout(ctx, spawnTimeout)
	defer cancel()
	pid, err := workpull.Spawn(spawning, n.System, s.Endpoint(), endpoint, append(node.SpawnOptions(), workpull.AsReliableWorkPullingProducer(
		workpull.WithReliableDeliveryConfirmation(),
		workpull.WithReliableStoreAhead(s.MaxPending),
		workpull.WithReliableCredits(credits),
		workpull.WithReliableRetryInterval(s.RetryInterval),
	))...)
	if err != nil {
		return fmt.Errorf("start the producer endpoint %s: %w", s.Producer, err)
	}
	address := net.JoinHostPort(s.PodIP, strconv.Itoa(s.LinkPort))
	p.links, err = node.ListenLinks(address, s.System, p.lost, p.logger)
	if err != nil {
		return err
	}
	p.source.connect(pid, p.links)
	p.intake.open()
	p.logger.Info("jobs are taken; the queue is in memory: those that are accepted are lost when this process ends, and those of an earlier one are not known",
		"producer", s.Producer, "queue", s.Queue, "intake", p.listener.Addr().String(), "maxPending", s.MaxPending, "maxJobBytes", s.MaxJobBytes)
	return nil
}

// lost has the controller probe the workers of a process whose link ended.
func (p *process) lost(worker node.Hello) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if err := workpull.PeerLost(ctx, p.node.System, worker.Host, worker.Port); err != nil {
		p.logger.Error("cannot report a lost worker", "pod", worker.Pod, "host", worker.Host, "error", err)
	}
}

// serve returns when ctx ends, or with an error when the controller or the
// intake does.
func (p *process) serve(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
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

// ready is the readiness of the process.
func (p *process) ready(ctx context.Context) error {
	if reason := p.intake.accepting(); reason != "yes" {
		return errors.New(reason)
	}
	if _, err := p.source.inspect(ctx); err != nil {
		return fmt.Errorf("the controller does not answer: %w", err)
	}
	return nil
}

// end stops what runs, in the reverse order, and reports what is lost.
func (p *process) end() {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		p.logger.Warn("some requests were cut off", "error", err)
		_ = p.server.Close()
	}
	if p.links != nil {
		p.links.Close()
	}
	if p.failures != nil {
		p.failures.Close()
	}
	if p.node != nil {
		p.node.Stop(ctx)
	}
	if lost := p.ledger.unfinished(); lost > 0 {
		p.logger.Error("jobs that were accepted and not done are lost: the queue is in memory", "queue", "memory", "lost", lost)
	} else if p.links != nil { // it had begun
		p.logger.Info("stopped; every accepted job was done", "queue", "memory", "lost", 0)
	}
	_ = p.health.Close()
}
