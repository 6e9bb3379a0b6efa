package queuetest

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/workpull/operator/workpull"
)

// hostileIDs are MessageIDs that are taken for something else by whoever reads
// them as text, as paths, as patterns or as keys with a separator.
func hostileIDs() []string {
	long := strings.Repeat("x", workpull.MaxMessageIDBytes)
	return []string{
		"a", "A", "a ", " a", "a\n", "ab", "a\x00", "a\x00\x00", "a\x00b", "\x00", "\x00\x00",
		"\xff", "\xff\xff", "\xff\xfe\xfd", "a\xff", "\xc3", "\xed\xa0\x80",
		"\u00e9", "e\u0301", "\ufffd", "\u202e", "ß", "ss",
		"/", "//", "a/", "a/b", ".", "..", "../..", "../a", "C:\\a", "a:b", "a|b", "a,b",
		"%", "%00", "%2e", "_", "*", "?", "\\", "\\x00", "\"", "'", "'; drop table jobs; --", "$1", "{}", "[]", "null", "0", "00", "1e0", "-1",
		"\x01", "\x1b[2J", "\r\n", "\t",
		long, long[1:], long[1:] + "y", strings.Repeat("\x00", workpull.MaxMessageIDBytes), strings.Repeat("\xff", workpull.MaxMessageIDBytes),
	}
}

// identifiers: a MessageID is any bytes, and another one when a single byte is
// another.
func identifiers(s *store) {
	ids := hostileIDs()
	h := s.begin()
	h.next(ids...)
	again := func() {
		for i, id := range ids {
			h.wantKnown(h.put(id, 0, text("other")), uint64(i+1), false)
		}
	}
	again()
	for i, id := range ids {
		if i%2 == 0 {
			h.accept(id)
		}
		if i%3 == 0 {
			h.confirm(id)
		}
	}
	h = h.other(s.open())
	h.load() // the model knows what there is
	for i, id := range ids {
		if i%6 != 0 { // the others were done, and may be forgotten
			h.want(done, h.accept(id))
			h.want(done, h.confirm(id))
		}
	}
	h = h.other(s.open())
	h.wantJobs(h.load(), uint64(len(ids)))

	h = s.another().begin()
	if _, ok := h.queue.(workpull.BatchWorkQueue); ok {
		var stores []job
		for _, id := range ids {
			stores = append(stores, job{id: id, payload: text(id)})
		}
		h.commit(stores, ids[:len(ids)/2], ids[len(ids)/3:])
		again()
		h.load()
	}
}

// largeValues: payloads from nothing to a MiB come back as they were, also
// those that cannot be compressed, and several in one batch.
func largeValues(s *store) {
	const mib = 1 << 20
	noise := make([]byte, mib)
	rand.NewChaCha8([32]byte{1}).Read(noise) //nolint:errcheck // it never fails
	jobs := []job{
		{"nothing", 0, payload{"t", ""}},
		{"noise", 0, payload{"t", string(noise)}},
		{"zeroes", 0, payload{"t", string(make([]byte, mib))}},
		{"text", 0, payload{strings.Repeat("type.test/", 100), strings.Repeat("0123456789abcdef", mib/16)}},
		{"odd", 0, payload{"t", string(noise[:65_537])}},
	}
	h := s.begin()
	for i, j := range jobs {
		h.wantFirst(h.put(j.id, uint64(i+1), j.payload), first{uint64(i + 1), j.payload, false})
	}
	h.wantFirst(h.put("noise", 0, text("other")), first{2, jobs[1].payload, true})
	h = h.other(s.open())
	h.wantJobs(h.load(), 5, "nothing?", "noise?", "zeroes?", "text?", "odd?")

	h = s.another().begin()
	if _, ok := h.queue.(workpull.BatchWorkQueue); ok {
		h.want(done, h.commit(jobs, []string{"noise"}, []string{"text"}))
		h.wantJobs(h.load(), 5, "nothing?", "noise", "zeroes?", "odd?")
	}
}

// calls are one of each kind that the queue has, all of which would be done.
func (h *history) calls() []call {
	all := []call{
		{kind: load},
		{kind: put, stores: []job{{"new", h.model.cursor + 1, text("new")}}},
		{kind: accept, accepts: []string{"a"}},
		{kind: confirm, confirms: []string{"a"}},
	}
	has := offersOf(h.queue)
	if has.batches {
		all = append(all, call{kind: commit, stores: []job{{"new", 0, text("new")}}, accepts: []string{"a"}, confirms: []string{"a"}})
	}
	if has.attempts {
		all = append(all, call{kind: save, progress: []workpull.JobProgress{attempt("new", 3)}})
	}
	if has.pages {
		all = append(all, call{kind: payloads, ids: []string{"new"}})
	}
	if has.deduplicates {
		all = append(all, call{kind: keep, window: longWindow}, call{kind: completed, ids: []string{"a"}})
	}
	if has.reloads {
		all = append(all, call{kind: reload})
	}
	for i := range all {
		if all[i].kind != load && all[i].kind != completed {
			all[i].epoch = h.epoch
		}
	}
	return all
}

// promptly performs a call, and fails when it does not come back.
func (s *store) promptly(ctx context.Context, q workpull.DurableWorkQueue, c call) reply {
	s.Helper()
	back := make(chan reply, 1)
	go func() { back <- perform(ctx, q, c) }()
	select {
	case r := <-back:
		return r
	case <-time.After(patience):
		s.Fatalf("%s does not come back, its context is over: %v", c, context.Cause(ctx))
		return reply{}
	}
}

// contextsOver: an operation whose context is cancelled, or whose deadline has
// passed, before it begins returns an error at once, which does not say that
// the queue is fenced or in conflict.
func contextsOver(s *store) {
	h := s.begin()
	h.next("a")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	for _, ctx := range []context.Context{cancelled, late} {
		for _, c := range h.calls() {
			if r := s.promptly(ctx, h.queue, c); r.verdict != failed {
				s.Errorf("%s when the context is over (%v): %s, wanted %s", c, ctx.Err(), r, failed)
			}
		}
	}
	h.want(done, h.accept("a")) // it is still the owner, and none of it was done
	h = h.other(s.open())
	h.wantJobs(h.load(), 1, "a")
}

// failedLoad: a writer goes on under its epoch when a load fails, its own or
// another's (rule 66).
func failedLoad(s *store) {
	h := s.begin()
	h.next("a", "b")
	h.accept("a")
	over, cancel := context.WithCancel(context.Background())
	cancel()
	other := s.open()
	for _, q := range []workpull.DurableWorkQueue{h.queue, other, s.open()} {
		if r := s.promptly(over, q, call{kind: load}); r.verdict != failed {
			s.Fatalf("load when the context is over: %s, wanted %s", r, failed)
		}
		h.want(done, h.accept("b"))
		h.next("after " + string(rune('c'+len(h.model.jobs))))
	}
	h = h.other(other)
	if r := h.load(); r.cursor != 5 || len(r.jobs) != 5 {
		s.Fatalf("%s, wanted five jobs", r)
	}
}

// cutOff: an operation that was cut off somewhere on its way may have been done
// or not, and is done when it is tried again. A reload is none of them: tried
// again it is fenced where it was done.
func cutOff(s *store) {
	h := s.begin()
	h.next("a")
	chance := rand.New(rand.NewPCG(6, 6))
	for range 20 {
		for _, c := range h.calls() {
			if c.kind == load || c.kind == reload {
				continue
			}
			ctx, cancel := context.WithCancel(context.Background())
			timer := time.AfterFunc(time.Duration(chance.IntN(400))*time.Microsecond, cancel)
			r := s.promptly(ctx, h.queue, c)
			timer.Stop()
			cancel()
			if r.verdict != done && r.verdict != failed {
				s.Fatalf("%s, cut off: %s, wanted %s or %s", c, r, done, failed)
			}
			again := s.promptly(context.Background(), h.queue, c)
			if again.verdict != done {
				s.Fatalf("%s, tried again after it was cut off: %s", c, again)
			}
			if len(again.results) == 1 && again.results[0].sequence != 2 {
				s.Fatalf("%s, tried again after it was cut off, has sequence %d, wanted 2", c, again.results[0].sequence)
			}
		}
	}
	last := h.other(s.open())
	ctx, cancel := bounded()
	defer cancel()
	if r := perform(ctx, last.queue, call{kind: load}); r.epoch <= h.epoch || r.cursor != 2 || len(r.jobs) != 1 || r.jobs[0].id != "new" {
		s.Fatalf("%s, wanted one job, new, and cursor 2", r)
	}
}
