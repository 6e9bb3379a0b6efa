package workpull

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/workpull/operator/workpull/internal/core"
)

// do tries an operation until it succeeds, fails for good, or has had all its
// attempts. A panic of the queue is an error like others.
func (r queueRetry) do(ctx context.Context, operation func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := attemptOnce(ctx, operation)
		if r.watch != nil {
			r.watch(err)
		}
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

// queueLane carries out what a controller asks of its queue. Its clock turns
// what is persisted into the controller's time and back.
type queueLane struct {
	*spec
	clock
}

func (n *node) laneOf(s *spec) queueLane { return queueLane{s, clock{n.origin}} }

// load loads the endpoint's queue under a fresh epoch; with one of its own, only
// if the queue is still in that (B16). A load whose answer was lost fences the
// next attempt: nobody can tell it from that of another writer, and the
// controller ends.
func (l queueLane) load(ctx context.Context, own uint64) (state core.QueueState, epoch uint64, err error) {
	err = l.retry.do(ctx, func(ctx context.Context) error {
		var loaded WorkQueueState
		var e QueueEpoch
		var err error
		if queue, ok := l.queue.(ConditionalWorkQueue); ok && own != 0 {
			loaded, e, err = queue.Reload(ctx, QueueEpoch{own})
		} else {
			loaded, e, err = l.queue.Load(ctx)
		}
		if err == nil {
			state, epoch = loaded.state(), e.Value()
			if l.producer.Keeps {
				l.resume(&loaded, &state)
			}
			if !l.producer.Pages && slices.ContainsFunc(loaded.messages, func(m UnconfirmedMessage) bool { return m.paged }) {
				err = fmt.Errorf("a job was loaded without its payload, from a queue that gives out none: %w", ErrQueueConflict)
			}
		}
		return err
	})
	if queue, ok := l.queue.(DeduplicatingWorkQueue); ok && err == nil {
		err = l.retry.do(ctx, func(ctx context.Context) error {
			return queue.KeepCompleted(ctx, QueueEpoch{epoch}, l.producer.Window)
		})
	}
	if err != nil {
		return state, 0, fmt.Errorf("load the queue %s: %w", l.queue.ID(), err)
	}
	return state, epoch, nil
}

// commit carries an operation out.
func (l queueLane) commit(ctx context.Context, o *core.QueueOperation) (outcomes []core.StoreOutcome, err error) {
	err = l.retry.do(ctx, func(ctx context.Context) error {
		results, err := l.operate(ctx, o)
		if err == nil {
			outcomes = make([]core.StoreOutcome, len(results))
			for i, r := range results {
				outcomes[i] = core.StoreOutcome{Sequence: r.sequence, Payload: r.payload.payload, Already: r.already, Dropped: r.dropped}
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", l.queue.ID(), err)
	}
	return outcomes, nil
}

func (l queueLane) operate(ctx context.Context, o *core.QueueOperation) ([]StoreResult, error) {
	epoch := QueueEpoch{o.Epoch}
	if len(o.Saves) > 0 {
		progress, err := l.progress(o.Saves)
		if err != nil {
			return nil, err
		}
		return nil, l.queue.(AttemptWorkQueue).SaveProgress(ctx, epoch, progress)
	}
	stores := make([]StoreRequest, len(o.Stores))
	for i, j := range o.Stores {
		stores[i] = StoreRequest{j.ID, j.Sequence, ReliablePayload{j.Payload}}
	}
	if batches, ok := l.queue.(BatchWorkQueue); ok {
		return batches.Commit(ctx, epoch, WorkBatch{stores, o.Accepts, o.Confirms})
	}
	switch { // a plain queue gets one at a time (rule 57)
	case len(stores) > 0:
		result, err := l.queue.Store(ctx, epoch, stores[0])
		return []StoreResult{result}, err
	case len(o.Accepts) > 0:
		return nil, l.queue.Accept(ctx, epoch, o.Accepts[0])
	default:
		return nil, l.queue.ConfirmMessage(ctx, epoch, o.Confirms[0])
	}
}

// fetch has the queue give out payloads (B11).
func (l queueLane) fetch(ctx context.Context, epoch uint64, ids []string) (payloads []core.Payload, err error) {
	queue, ok := l.queue.(PagingWorkQueue)
	if !ok {
		return nil, fmt.Errorf("queue %s: keeps no payloads for itself: %w", l.queue.ID(), ErrQueueConflict)
	}
	err = l.retry.do(ctx, func(ctx context.Context) error {
		pages, err := queue.Payloads(ctx, QueueEpoch{epoch}, ids)
		if err == nil {
			payloads = make([]core.Payload, len(pages))
			for i := range pages {
				payloads[i] = pages[i].payload
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("payloads from the queue %s: %w", l.queue.ID(), err)
	}
	return payloads, nil
}

// withPayloads has the queue give out the payloads of those dead letters whose
// payload it keeps (B11), and leaves out those that are gone by now.
func (l queueLane) withPayloads(ctx context.Context, epoch uint64, letters []DeadLetter) ([]DeadLetter, error) {
	var paged []int
	for i := range letters {
		if letters[i].TypeURL == "" {
			paged = append(paged, i)
		}
	}
	if !l.producer.Pages || len(paged) == 0 {
		return letters, nil
	}
	gone := map[string]bool{}
	for len(paged) > 0 {
		page := paged[:min(len(paged), MaxPage)]
		paged = paged[len(page):]
		if err := l.fill(ctx, epoch, letters, page); err == nil {
			continue
		} else if !errors.Is(err, ErrQueueConflict) {
			return nil, err
		}
		for _, i := range page { // somebody dropped one of them meanwhile
			err := l.fill(ctx, epoch, letters, []int{i})
			if err != nil && !errors.Is(err, ErrQueueConflict) {
				return nil, err
			}
			gone[letters[i].MessageID] = err != nil
		}
	}
	return slices.DeleteFunc(letters, func(d DeadLetter) bool { return gone[d.MessageID] }), nil
}

// fill fetches the payloads of the letters at those places.
func (l queueLane) fill(ctx context.Context, epoch uint64, letters []DeadLetter, places []int) error {
	ids := make([]string, len(places))
	for n, i := range places {
		ids[n] = letters[i].MessageID
	}
	payloads, err := l.fetch(ctx, epoch, ids)
	if err != nil {
		return err
	}
	if len(payloads) != len(places) {
		return fmt.Errorf("%d payloads of %d jobs: %w", len(payloads), len(places), ErrQueueConflict)
	}
	for n, i := range places {
		letters[i].TypeURL, letters[i].Payload = payloads[n].TypeURL, payloads[n].Value
	}
	return nil
}

// load, fetch and commit run beside the turn (rule 60).
func (c *producerController) load(e *core.Effect) {
	ctx, lane, self, session, o := c.laneCtx, c.node.laneOf(c.endpoint.spec), c.self, e.Session, e.Operation
	go func() {
		state, epoch, err := lane.load(ctx, o.Epoch)
		_ = self.Tell(context.Background(), self, &loaded{session: session, number: o.Number, state: state, epoch: epoch, err: err})
	}()
}

func (c *producerController) fetch(e *core.Effect) {
	ctx, lane, self, session, o := c.laneCtx, c.node.laneOf(c.endpoint.spec), c.self, e.Session, e.Operation
	go func() {
		payloads, err := lane.fetch(ctx, o.Epoch, o.Fetches)
		_ = self.Tell(context.Background(), self, &fetched{session: session, number: o.Number, payloads: payloads, err: err})
	}()
}

func (c *producerController) commit(e *core.Effect) {
	ctx, lane, self, session, o := c.laneCtx, c.node.laneOf(c.endpoint.spec), c.self, e.Session, e.Operation
	go func() {
		outcomes, err := lane.commit(ctx, o)
		_ = self.Tell(context.Background(), self, &committed{session: session, number: o.Number, outcomes: outcomes, err: err})
	}()
}
