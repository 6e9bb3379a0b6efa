package queuetest

import (
	"context"
	"fmt"

	"github.com/workpull/operator/workpull"
)

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
		state, epoch, err := q.Load(ctx)
		r.loaded(state, epoch, err)
	case put:
		result, err := q.Store(ctx, epoch, requests[0])
		r.stored([]workpull.StoreResult{result}, err)
	case accept:
		r.err = q.Accept(ctx, epoch, c.accepts[0])
	case confirm:
		r.err = q.ConfirmMessage(ctx, epoch, c.confirms[0])
	default:
		r.offered(ctx, q, epoch, c, requests)
	}
	return r.judged()
}

// offered does a call that not every queue takes.
func (r *reply) offered(ctx context.Context, q workpull.DurableWorkQueue, epoch workpull.QueueEpoch, c call, requests []workpull.StoreRequest) {
	r.err = fmt.Errorf("%T does not offer to %s", q, c.kind)
	switch c.kind {
	case commit:
		if q, ok := q.(workpull.BatchWorkQueue); ok {
			results, err := q.Commit(ctx, epoch, workpull.NewWorkBatch(requests, c.accepts, c.confirms))
			r.stored(results, err)
		}
	case payloads:
		if q, ok := q.(workpull.PagingWorkQueue); ok {
			var page []workpull.ReliablePayload
			page, r.err = q.Payloads(ctx, epoch, c.ids)
			for _, p := range page {
				r.payloads = append(r.payloads, payloadOf(p))
			}
		}
	case save:
		if q, ok := q.(workpull.AttemptWorkQueue); ok {
			r.err = q.SaveProgress(ctx, epoch, c.progress)
		}
	case keep:
		if q, ok := q.(workpull.DeduplicatingWorkQueue); ok {
			r.err = q.KeepCompleted(ctx, epoch, c.window)
		}
	case completed:
		if q, ok := q.(workpull.DeduplicatingWorkQueue); ok {
			var m workpull.CompletedMessage
			m, r.completed.found, r.err = q.Completed(ctx, c.ids[0])
			r.completed.sequence, r.completed.dropped, r.time = m.Sequence(), m.Dropped(), m.Time()
		}
	case reload:
		if q, ok := q.(workpull.ConditionalWorkQueue); ok {
			state, epoch, err := q.Reload(ctx, epoch)
			r.loaded(state, epoch, err)
		}
	}
}

func (r reply) judged() reply {
	r.verdict = verdictOf(r.err)
	return r
}

func (r *reply) loaded(state workpull.WorkQueueState, epoch workpull.QueueEpoch, err error) {
	if r.err = err; err != nil {
		return
	}
	r.epoch, r.cursor = epoch.Value(), state.Cursor()
	for _, m := range state.Messages() {
		h := held{job: job{m.MessageID(), m.Sequence(), payloadOf(m.Payload())}, accepted: m.Accepted(), paged: m.Paged()}
		if p, ok := m.Progress(); ok {
			h.progress = canonical(p)
		}
		r.jobs = append(r.jobs, h)
	}
}

func (r *reply) stored(results []workpull.StoreResult, err error) {
	if r.err = err; err != nil {
		return
	}
	for _, s := range results {
		r.results = append(r.results, answer{first{s.Sequence(), payloadOf(s.Payload()), s.AlreadyStored()}, s.Dropped()})
	}
}

func (j job) request() (workpull.StoreRequest, error) {
	p, err := workpull.NewReliablePayload(j.payload.url, []byte(j.payload.value))
	if err != nil {
		return workpull.StoreRequest{}, err
	}
	return workpull.NewStoreRequest(j.id, j.sequence, p)
}

func payloadOf(p workpull.ReliablePayload) payload {
	return payload{p.TypeURL(), string(p.Value())}
}

// pages are the calls for the payloads that a load left with the queue.
func (r reply) pages() []call {
	var pages []call
	for _, j := range r.jobs {
		if !j.paged {
			continue
		}
		if len(pages) == 0 || len(pages[len(pages)-1].ids) == workpull.MaxPage {
			pages = append(pages, call{kind: payloads, epoch: r.epoch})
		}
		last := &pages[len(pages)-1]
		last.ids = append(last.ids, j.id)
	}
	return pages
}

// turn puts the payloads of the pages where the load left them out.
func (r *reply) turn(payloads []payload) {
	for i := range r.jobs {
		if j := &r.jobs[i]; j.paged && len(payloads) > 0 {
			j.payload, payloads = payloads[0], payloads[1:]
		}
	}
}
