package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/workpull/operator/workpull"
)

// tb is what histories need of a *testing.T or a *rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// history is a writer whose every answer is held against the model. Several
// writers of one store follow one model, one after the other.
type history struct {
	tb
	queue workpull.DurableWorkQueue
	epoch uint64 // of this writer
	model *model
	lines *[]string
}

// do does the call under the writer's epoch, and fails unless the rules allow
// the answer.
func (h *history) do(c call) reply {
	h.Helper()
	if h.model == nil {
		h.model, h.lines = &model{offers: offersOf(h.queue)}, &[]string{}
	}
	if c.kind != load && c.kind != completed {
		c.epoch = h.epoch
	}
	ctx, cancel := bounded()
	defer cancel()
	r := perform(ctx, h.queue, c)
	*h.lines = append(*h.lines, fmt.Sprintf("%s: %s", c, r))
	next, err := h.model.step(c, r)
	if err != nil {
		from := max(0, len(*h.lines)-20)
		h.Fatalf("%s: %v\nthe history, up to that:\n%s", c.kind, err, strings.Join((*h.lines)[from:], "\n"))
	}
	*h.model = next
	if r.epoch == 0 {
		return r
	}
	h.epoch = r.epoch
	var left []payload
	for _, page := range r.pages() {
		left = append(left, h.want(done, h.do(page)).payloads...)
	}
	r.turn(left)
	return r
}

// other is one more writer of the same store, which has not loaded yet.
func (h *history) other(q workpull.DurableWorkQueue) *history {
	return &history{tb: h.tb, queue: q, model: h.model, lines: h.lines}
}

// load and its like do one call each.
func (h *history) load() reply {
	h.Helper()
	return h.do(call{kind: load})
}

func (h *history) put(id string, sequence uint64, p payload) reply {
	h.Helper()
	return h.do(call{kind: put, stores: []job{{id, sequence, p}}})
}

func (h *history) accept(id string) reply {
	h.Helper()
	return h.do(call{kind: accept, accepts: []string{id}})
}

func (h *history) confirm(id string) reply {
	h.Helper()
	return h.do(call{kind: confirm, confirms: []string{id}})
}

func (h *history) commit(stores []job, accepts, confirms []string) reply {
	h.Helper()
	return h.do(call{kind: commit, stores: stores, accepts: accepts, confirms: confirms})
}

func (h *history) payloads(ids ...string) reply {
	h.Helper()
	return h.do(call{kind: payloads, ids: ids})
}

func (h *history) save(progress ...workpull.JobProgress) reply {
	h.Helper()
	return h.do(call{kind: save, progress: progress})
}

func (h *history) keep(window time.Duration) reply {
	h.Helper()
	return h.do(call{kind: keep, window: window})
}

func (h *history) completed(id string) reply {
	h.Helper()
	return h.do(call{kind: completed, ids: []string{id}})
}

func (h *history) reload() reply {
	h.Helper()
	return h.do(call{kind: reload})
}

// finish accepts and confirms jobs.
func (h *history) finish(ids ...string) {
	h.Helper()
	for _, id := range ids {
		h.want(done, h.accept(id))
		h.want(done, h.confirm(id))
	}
}

// next stores jobs that are new, each under the next sequence.
func (h *history) next(ids ...string) {
	h.Helper()
	for _, id := range ids {
		h.want(done, h.put(id, h.model.cursor+1, text(id)))
	}
}

// want fails unless that became of the call.
func (h *history) want(v verdict, r reply) reply {
	h.Helper()
	if r.verdict != v {
		h.Fatalf("%s, wanted %s", r, v)
	}
	return r
}

// wantFirst fails unless the results are these, none of a dropped job.
func (h *history) wantFirst(r reply, wanted ...first) {
	h.Helper()
	var answers []answer
	for _, f := range wanted {
		answers = append(answers, answer{first: f})
	}
	if r.verdict != done || !slices.Equal(r.results, answers) {
		h.Fatalf("%s, wanted %s", r, reply{verdict: done, results: answers})
	}
}

// wantKnown fails unless a store found the job under that sequence, dropped or
// not. What the payload may be is the model's affair.
func (h *history) wantKnown(r reply, sequence uint64, dropped bool) {
	h.Helper()
	if r.verdict != done || len(r.results) != 1 || !r.results[0].already || r.results[0].sequence != sequence || r.results[0].dropped != dropped {
		h.Fatalf("%s, wanted it known as %d, dropped %t", r, sequence, dropped)
	}
}

// wantJobs fails unless a load returned the cursor and these MessageIDs, those
// that are not accepted with a question mark.
func (h *history) wantJobs(r reply, cursor uint64, wanted ...string) {
	h.Helper()
	var got []string
	for _, j := range r.jobs {
		id := j.id
		if !j.accepted {
			id += "?"
		}
		got = append(got, id)
	}
	if r.cursor != cursor || strings.Join(got, " ") != strings.Join(wanted, " ") {
		h.Fatalf("loaded cursor %d, jobs %q, wanted %d, %q", r.cursor, got, cursor, wanted)
	}
}
