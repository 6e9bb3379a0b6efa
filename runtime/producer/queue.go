package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/workpull"
)

// settle is how long jobs that are loaded wait for workers that run them already
// (B15). Workers ask for the producer every second, and their connections at
// most two seconds apart.
const settle = 3 * time.Second

// durable is a queue that outlives this process.
type durable interface {
	workpull.DeduplicatingWorkQueue
	io.Closer
}

// openQueue returns the queue that the settings name, or nil where jobs are in
// memory. It connects to nothing yet.
func (p *process) openQueue() durable {
	switch p.settings.Queue {
	case podenv.QueueEmbedded:
		log := logr.FromSlogHandler(p.logger.With("from", "queue").Handler())
		return pebble.New(p.settings.QueueDir, pebble.WithLogger(log))
	case podenv.QueuePostgres:
		return postgres.New(p.settings.QueueURL, p.settings.flow())
	}
	return nil
}

// endpointOptions are those of the producer endpoint.
func (p *process) endpointOptions(queue durable) []workpull.ProducerOption {
	s := p.settings
	options := []workpull.ProducerOption{
		workpull.WithReliableDeliveryConfirmation(),
		workpull.WithReliableStoreAhead(s.MaxPending),
		workpull.WithReliableCredits(credits),
		workpull.WithReliableRetryInterval(s.RetryInterval),
		workpull.WithReliableRetryPolicy(s.MaxAttempts, s.Backoff),
		workpull.WithReliableMaxBackoff(s.BackoffMax),
	}
	if queue == nil { // the ledger remembers what is done, within bounds
		return options
	}
	if s.DeduplicationWindow > 0 {
		options = append(options, workpull.WithReliableDeduplicationWindow(s.DeduplicationWindow))
	}
	return append(options,
		workpull.WithReliableDurableWorkQueue(queue),
		workpull.WithReliableAdoption(settle),
		workpull.WithReliableQueueRetry(s.QueueAttempts, s.QueueBackoff),
		workpull.WithReliableQueueWatch(p.watch.note),
	)
}

// queueWatch knows whether the queue works.
type queueWatch struct {
	errors prometheus.Counter

	mu   sync.Mutex
	last error // nil when the last operation succeeded
}

func newQueueWatch(registry prometheus.Registerer) *queueWatch {
	w := &queueWatch{errors: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "workpull_queue_errors_total", Help: "Operations of the queue that failed, each attempt counted.",
	})}
	registry.MustRegister(w.errors)
	return w
}

// note takes note of an attempt of an operation. A fence or a conflict is no
// trouble of the queue's, and an operation that was given up says nothing.
func (w *queueWatch) note(err error) {
	if errors.Is(err, workpull.ErrQueueFenced) || errors.Is(err, workpull.ErrQueueConflict) || errors.Is(err, context.Canceled) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.errors.Inc()
	}
	w.last = err
}

// trouble is what the queue fails with, or nil.
func (w *queueWatch) trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		return nil
	}
	return fmt.Errorf("the queue fails: %w", w.last)
}
