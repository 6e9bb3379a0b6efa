package queuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/workpull/operator/workpull"
)

// kind of an operation.
type kind string

const (
	load    kind = "load"
	put     kind = "store"
	accept  kind = "accept"
	confirm kind = "confirm"
	commit  kind = "commit"
)

// payload of a job. It is comparable.
type payload struct{ url, value string }

// text is a small payload.
func text(value string) payload { return payload{"type.test/text", value} }

// job is a store of an operation. Sequence is the proposed one.
type job struct {
	id       string
	sequence uint64
	payload  payload
}

// call is an operation on a queue. Only a commit has more than one part.
type call struct {
	kind              kind
	epoch             uint64
	stores            []job
	accepts, confirms []string
}

// String shows the call in a failure.
func (c call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s(epoch %d", c.kind, c.epoch)
	for _, j := range c.stores {
		fmt.Fprintf(&b, ", store %s as %d holding %s", short(j.id), j.sequence, short(j.payload.value))
	}
	for _, id := range c.accepts {
		fmt.Fprintf(&b, ", accept %s", short(id))
	}
	for _, id := range c.confirms {
		fmt.Fprintf(&b, ", confirm %s", short(id))
	}
	return b.String() + ")"
}

// short is a quoted string, not too long for a line.
func short(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%.40q… (%d bytes)", s, len(s))
	}
	return fmt.Sprintf("%q", s)
}

// verdict is what became of a call, as far as the rules tell errors apart.
type verdict string

const (
	done     verdict = "done"
	fenced   verdict = "fenced"
	conflict verdict = "conflict"
	failed   verdict = "failed"
)

func verdictOf(err error) verdict {
	switch {
	case err == nil:
		return done
	case errors.Is(err, workpull.ErrQueueFenced):
		return fenced
	case errors.Is(err, workpull.ErrQueueConflict):
		return conflict
	}
	return failed
}

// first is a queue's answer to a store.
type first struct {
	sequence uint64
	payload  payload
	already  bool
}

// held is a job that a load returned.
type held struct {
	job
	accepted bool
}

// reply is a queue's answer to a call.
type reply struct {
	verdict verdict
	err     error
	results []first
	// of a load
	epoch, cursor uint64
	jobs          []held
}

// String shows the reply in a failure.
func (r reply) String() string {
	var b strings.Builder
	b.WriteString(string(r.verdict))
	if r.err != nil {
		fmt.Fprintf(&b, " (%v)", r.err)
	}
	for _, f := range r.results {
		fmt.Fprintf(&b, ", %d holds %s, already %t", f.sequence, short(f.payload.value), f.already)
	}
	if r.epoch != 0 {
		fmt.Fprintf(&b, ", epoch %d, cursor %d", r.epoch, r.cursor)
	}
	for _, j := range r.jobs {
		fmt.Fprintf(&b, ", %d %s holds %s, accepted %t", j.sequence, short(j.id), short(j.payload.value), j.accepted)
	}
	return b.String()
}

// perform does the call.
func perform(ctx context.Context, q workpull.DurableWorkQueue, c call) reply {
	var r reply
	var epoch workpull.QueueEpoch
	if c.epoch != 0 {
		if epoch, r.err = workpull.NewQueueEpoch(c.epoch); r.err != nil {
			return r.judged()
		}
	}
	requests := make([]workpull.StoreRequest, len(c.stores))
	for i, j := range c.stores {
		if requests[i], r.err = j.request(); r.err != nil {
			return r.judged()
		}
	}
	switch c.kind {
	case load:
		var state workpull.WorkQueueState
		state, epoch, r.err = q.Load(ctx)
		if r.err == nil {
			r.loaded(state, epoch)
		}
	case put:
		var result workpull.StoreResult
		if result, r.err = q.Store(ctx, epoch, requests[0]); r.err == nil {
			r.results = []first{firstOf(result)}
		}
	case accept:
		r.err = q.Accept(ctx, epoch, c.accepts[0])
	case confirm:
		r.err = q.ConfirmMessage(ctx, epoch, c.confirms[0])
	case commit:
		batch, ok := q.(workpull.BatchWorkQueue)
		if !ok {
			r.err = fmt.Errorf("%T takes no batches", q)
			break
		}
		var results []workpull.StoreResult
		if results, r.err = batch.Commit(ctx, epoch, workpull.NewWorkBatch(requests, c.accepts, c.confirms)); r.err == nil {
			for _, result := range results {
				r.results = append(r.results, firstOf(result))
			}
		}
	}
	return r.judged()
}

func (r reply) judged() reply {
	r.verdict = verdictOf(r.err)
	return r
}

func (r *reply) loaded(state workpull.WorkQueueState, epoch workpull.QueueEpoch) {
	r.epoch, r.cursor = epoch.Value(), state.Cursor()
	for _, m := range state.Messages() {
		r.jobs = append(r.jobs, held{job{m.MessageID(), m.Sequence(), payloadOf(m.Payload())}, m.Accepted()})
	}
}

func (j job) request() (workpull.StoreRequest, error) {
	p, err := workpull.NewReliablePayload(j.payload.url, []byte(j.payload.value))
	if err != nil {
		return workpull.StoreRequest{}, err
	}
	return workpull.NewStoreRequest(j.id, j.sequence, p)
}

func firstOf(r workpull.StoreResult) first {
	return first{r.Sequence(), payloadOf(r.Payload()), r.AlreadyStored()}
}

func payloadOf(p workpull.ReliablePayload) payload {
	return payload{p.TypeURL(), string(p.Value())}
}
