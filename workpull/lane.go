package workpull

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/tochemey/goakt/v3/extension"

	"github.com/workpull/operator/workpull/internal/core"
)

// Defaults of WithReliableQueueRetry.
const (
	DefaultQueueAttempts   = 3
	DefaultQueueRetryDelay = 100 * time.Millisecond
)

// queueTimeout is the deadline of one attempt of one operation of a queue.
const queueTimeout = 10 * time.Second

// queueRetry is how often an operation is tried, and the pause between.
type queueRetry struct {
	Attempts int
	Delay    time.Duration
}

// WithReliableDurableWorkQueue keeps accepted jobs in a queue that outlives the
// controller. The queue is loaded before the endpoint is spawned, and becomes
// one of its dependencies. A BatchWorkQueue is used as such.
func WithReliableDurableWorkQueue(queue DurableWorkQueue) ProducerOption {
	return func(s *spec) error {
		const option = "WithReliableDurableWorkQueue"
		if err := checkDependency(option, queue); err != nil {
			return err
		}
		switch {
		case s.queue != nil:
			return &OptionError{Option: option, Got: "a second queue", Want: "one"}
		case queue.ID() == "":
			return &OptionError{Option: option, Got: "a queue without an ID", Want: "one that tells it from other dependencies"}
		}
		s.dependencies = append(s.dependencies, queue)
		s.keepIn(queue)
		return nil
	}
}

// checkDependency refuses what GoAkt panics on: it takes a dependency for a
// pointer, and makes another of its type.
func checkDependency(option string, d extension.Dependency) error {
	if d == nil {
		return &OptionError{Option: option, Got: "nil", Want: "a pointer to a struct"}
	}
	if v := reflect.ValueOf(d); v.Kind() != reflect.Pointer || v.IsNil() {
		return &OptionError{Option: option, Got: fmt.Sprintf("%T", d), Want: "a pointer that is not nil"}
	}
	return nil
}

// keepIn makes a queue that of the endpoint.
func (s *spec) keepIn(queue DurableWorkQueue) {
	s.queue = queue
	_, s.producer.Batches = queue.(BatchWorkQueue)
	s.producer.Durable = true
}

// WithReliableQueueRetry sets how many times an operation of the queue is tried
// before it counts as failed, and the pause between two attempts. The defaults
// are DefaultQueueAttempts and DefaultQueueRetryDelay. ErrQueueFenced and
// ErrQueueConflict are never tried again (rule 60). An operation that failed has
// the controller begin anew with what the queue then holds (rule 62).
func WithReliableQueueRetry(attempts int, delay time.Duration) ProducerOption {
	return func(s *spec) error {
		if attempts < 1 || delay <= 0 {
			return &OptionError{
				Option: "WithReliableQueueRetry", Got: fmt.Sprintf("%d, %v", attempts, delay),
				Want: "at least one attempt and a delay of more than zero",
			}
		}
		s.retry = queueRetry{attempts, delay}
		return nil
	}
}

// do tries an operation until it succeeds, fails for good, or has had all its
// attempts. A panic of the queue is an error like others.
func (r queueRetry) do(ctx context.Context, operation func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := attemptOnce(ctx, operation)
		if err == nil || errors.Is(err, ErrQueueFenced) || errors.Is(err, ErrQueueConflict) || attempt >= r.Attempts {
			return err
		}
		if sleep(ctx, r.Delay) != nil {
			return err
		}
	}
}

func attemptOnce(ctx context.Context, operation func(ctx context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the queue panicked: %v\n%s", cause, debug.Stack())
		}
	}()
	return operation(ctx)
}

// loadQueue loads the endpoint's queue under a fresh epoch.
func (s *spec) loadQueue(ctx context.Context) (state core.QueueState, epoch uint64, err error) {
	err = s.retry.do(ctx, func(ctx context.Context) error {
		loaded, e, err := s.queue.Load(ctx)
		if err == nil {
			state, epoch = loaded.state(), e.Value()
		}
		return err
	})
	if err != nil {
		return state, 0, fmt.Errorf("load the queue %s: %w", s.queue.ID(), err)
	}
	return state, epoch, nil
}

// commit carries an operation out.
func (s *spec) commit(ctx context.Context, o *core.QueueOperation) (outcomes []core.StoreOutcome, err error) {
	err = s.retry.do(ctx, func(ctx context.Context) error {
		results, err := s.operate(ctx, o)
		if err == nil {
			outcomes = make([]core.StoreOutcome, len(results))
			for i, r := range results {
				outcomes[i] = core.StoreOutcome{Sequence: r.sequence, Payload: r.payload.payload, Already: r.already}
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", s.queue.ID(), err)
	}
	return outcomes, nil
}

func (s *spec) operate(ctx context.Context, o *core.QueueOperation) ([]StoreResult, error) {
	epoch := QueueEpoch{o.Epoch}
	stores := make([]StoreRequest, len(o.Stores))
	for i, j := range o.Stores {
		stores[i] = StoreRequest{j.ID, j.Sequence, ReliablePayload{j.Payload}}
	}
	if batches, ok := s.queue.(BatchWorkQueue); ok {
		return batches.Commit(ctx, epoch, WorkBatch{stores, o.Accepts, o.Confirms})
	}
	switch { // a plain queue gets one at a time (rule 57)
	case len(stores) > 0:
		result, err := s.queue.Store(ctx, epoch, stores[0])
		return []StoreResult{result}, err
	case len(o.Accepts) > 0:
		return nil, s.queue.Accept(ctx, epoch, o.Accepts[0])
	default:
		return nil, s.queue.ConfirmMessage(ctx, epoch, o.Confirms[0])
	}
}

// load and commit run beside the turn (rule 60).
func (c *producerController) load(e *core.Effect) {
	ctx, s, self, session, number := c.laneCtx, c.endpoint.spec, c.self, e.Session, e.Operation.Number
	go func() {
		state, epoch, err := s.loadQueue(ctx)
		_ = self.Tell(context.Background(), self, &loaded{session: session, number: number, state: state, epoch: epoch, err: err})
	}()
}

func (c *producerController) commit(e *core.Effect) {
	ctx, s, self, session, operation := c.laneCtx, c.endpoint.spec, c.self, e.Session, e.Operation
	go func() {
		outcomes, err := s.commit(ctx, operation)
		_ = self.Tell(context.Background(), self, &committed{session: session, number: operation.Number, outcomes: outcomes, err: err})
	}()
}
