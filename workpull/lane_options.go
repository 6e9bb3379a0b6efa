package workpull

import (
	"fmt"
	"reflect"
	"time"

	"github.com/tochemey/goakt/v3/extension"
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
	watch    func(error) // is told of each attempt; nil when nobody asks
}

// WithReliableDurableWorkQueue keeps accepted jobs in a queue that outlives the
// controller. The queue is loaded before the endpoint is spawned, and becomes
// one of its dependencies. What else it can do (BatchWorkQueue and the others) is
// made use of.
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
	s.producer.Durable = true
	_, s.producer.Batches = queue.(BatchWorkQueue)
	_, s.producer.Pages = queue.(PagingWorkQueue)
	_, s.producer.Keeps = queue.(AttemptWorkQueue)
	_, s.producer.Remembers = queue.(DeduplicatingWorkQueue)
	_, s.producer.Reloads = queue.(ConditionalWorkQueue)
}

// WithReliableDeduplicationWindow keeps the MessageID of a job that is done
// known for at least so long (B9): one that is submitted again runs nothing, and
// DeliveryConfirmed is repeated. A DeduplicatingWorkQueue remembers it across
// restarts, by its own clock; without one the controller does for as long as it
// lives, in memory. The default is no window: a MessageID is then known while
// its job is not done, and for as long as the queue wants.
func WithReliableDeduplicationWindow(window time.Duration) ProducerOption {
	return func(s *spec) error {
		if window <= 0 {
			return &OptionError{Option: "WithReliableDeduplicationWindow", Got: window.String(), Want: "more than zero"}
		}
		s.producer.Window = window
		return nil
	}
}

// WithReliableAdoption lets an attempt that outlives the producer's controller
// go on under the next one (B15): a worker that registers says what it runs.
// Jobs that the next controller finds in the queue are held back for the
// settling time, so that workers can register; jobs that are accepted meanwhile
// are not. It should be longer than workers take to find the producer again.
// Without a durable queue there is nothing to adopt, and without this option
// every job that is not confirmed is given out again.
func WithReliableAdoption(settle time.Duration) ProducerOption {
	return func(s *spec) error {
		if settle <= 0 {
			return &OptionError{Option: "WithReliableAdoption", Got: settle.String(), Want: "more than zero"}
		}
		s.producer.Settle = settle
		return nil
	}
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
		s.retry.Attempts, s.retry.Delay = attempts, delay
		return nil
	}
}

// WithReliableQueueWatch tells a function what became of each attempt of an
// operation of the queue, a Load among them: nil when it succeeded. It is called
// beside the controller and has to return at once. So a program can refuse jobs
// while its queue fails, instead of having each wait for all its attempts.
func WithReliableQueueWatch(watch func(err error)) ProducerOption {
	return func(s *spec) error {
		if watch == nil {
			return &OptionError{Option: "WithReliableQueueWatch", Got: "nil", Want: "a function"}
		}
		s.retry.watch = watch
		return nil
	}
}
