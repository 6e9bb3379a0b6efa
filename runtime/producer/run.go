package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"

	"github.com/workpull/operator/runtime/election"
	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/workpull"
)

const (
	// credits is how many jobs the endpoint asks for at once: a post costs a
	// round trip of the handshake, and posts come side by side.
	credits = 64
	// farewell is how long new jobs are answered with 503 after SIGTERM, until
	// clients are sent here no more; answerTimeout is what requests that are
	// then in flight get, and the endpoint after them. The actor system's stop
	// takes five seconds at most.
	farewell      = time.Second
	answerTimeout = 3 * time.Second
	// spawnTimeout bounds the start of the endpoint, and with it the load of
	// its queue.
	spawnTimeout = 2 * time.Minute

	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = readTimeout + acceptTimeout + 10*time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Run serves until ctx ends, and then gives requests in flight their answer
// and stops, within some ten seconds. It returns an error when it could not start,
// when the endpoint's controller stopped, or when another process has its
// queue. A queue that fails is tried again for as long as it takes. Where
// there are standbys it serves when it is its turn, and is one of them before
// and after.
func Run(ctx context.Context, s *Settings, logger *slog.Logger) error {
	p, err := listen(s, logger)
	if err != nil {
		return err
	}
	defer p.end()
	return p.run(ctx)
}

// process is everything that a producer's process consists of.
type process struct {
	settings *Settings
	logger   *slog.Logger
	leases   coordinationv1.LeasesGetter // nil: of the cluster that the pod is in
	intake   *intake
	ledger   *ledger
	watch    *queueWatch
	server   *http.Server
	listener net.Listener
	served   chan error
	health   *node.Health
	source   *source
	standby  atomic.Bool

	// While it is active.
	turn     *election.Term // nil where there is no standby
	node     *node.Node
	links    *node.LinkServer
	failures *workpull.Subscription
	endpoint *actor.PID
	queue    durable // nil in memory
	begun    bool    // it has taken jobs
}

// listen opens the ports that answer before there is an endpoint: probes, and
// the intake, with 503.
func listen(s *Settings, logger *slog.Logger) (*process, error) {
	p := &process{settings: s, logger: logger, source: &source{}, served: make(chan error, 1)}
	p.ledger = newLedger(clock.RealClock{}, s.MaxPending, s.Queue != podenv.QueueMemory)
	p.source.ledger = p.ledger
	registry := node.NewRegistry()
	p.watch = newQueueWatch(registry)
	p.intake = &intake{
		ledger: p.ledger, endpoint: p.source, maxBytes: s.MaxJobBytes,
		producer: s.Producer, queue: s.Queue, window: s.DeduplicationWindow, watch: p.watch, started: time.Now(), logger: logger,
	}
	p.intake.close("the producer is starting")
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

// lost has the controller probe the workers of a process whose link ended.
func (p *process) lost(system actor.ActorSystem) func(node.Hello) {
	return func(worker node.Hello) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		if err := workpull.PeerLost(ctx, system, worker.Host, worker.Port); err != nil {
			p.logger.Error("cannot report a lost worker", "pod", worker.Pod, "host", worker.Host, "error", err)
		}
	}
}

// ready is the readiness of the process. A standby is ready: it waits for its
// turn, and nothing has to be done about it.
func (p *process) ready(ctx context.Context) error {
	if p.standby.Load() {
		return nil
	}
	if err := p.watch.trouble(); err != nil {
		return err
	}
	if reason := p.intake.closed.Load(); reason != nil {
		return errors.New(*reason)
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
	ctx, cancel = context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	kept, err := p.source.inspect(ctx)
	p.close(ctx)
	p.leave(ctx)
	if p.turn != nil {
		p.turn.Resign()
	}
	lost := p.ledger.unfinished()
	switch {
	case !p.begun:
	case p.settings.Queue != podenv.QueueMemory && err != nil:
		p.logger.Info("stopped; jobs that were accepted and not done are in the queue", "queue", p.settings.Queue)
	case p.settings.Queue != podenv.QueueMemory:
		p.logger.Info("stopped; jobs that were accepted and not done are in the queue", "queue", p.settings.Queue,
			"kept", kept.Waiting+kept.InFlight+kept.Delayed+kept.Dead)
	case lost > 0:
		p.logger.Error("jobs that were accepted and not done are lost: the queue is in memory", "queue", p.settings.Queue, "lost", lost)
	default:
		p.logger.Info("stopped; every accepted job was done", "queue", p.settings.Queue, "lost", 0)
	}
	_ = p.health.Close()
}
