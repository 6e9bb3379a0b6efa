package queuetest

import (
	"time"
)

// longWindow is longer than any history of the suite.
const longWindow = 24 * time.Hour

// deduplicated begins a subtest about completed jobs.
func (s *store) deduplicated() *history {
	s.Helper()
	h := s.begin()
	s.needs(h.model.offers.deduplicates, "to keep completed MessageIDs")
	return h
}

// completedKept: within the window a job that is done is known over loads and
// restarts, also by the writers to come (B9).
func completedKept(s *store) {
	h := s.deduplicated()
	h.want(done, h.keep(longWindow))
	h.next("a", "unaccepted", "b", "waits")
	h.finish("a")
	h.want(done, h.confirm("unaccepted"))
	h.want(done, h.confirm("b"))
	h.want(done, h.accept("b")) // in this order as well
	known := map[string]uint64{"a": 1, "unaccepted": 2, "b": 3}
	for range 3 {
		s.closeAll()
		h = h.other(s.open())
		h.wantJobs(h.load(), 4, "waits?")
		for id, sequence := range known {
			for _, proposed := range []uint64{0, sequence, 5} {
				h.wantKnown(h.put(id, proposed, text("again")), sequence, false)
			}
			// The producer acknowledges what it is told is stored.
			if id != "unaccepted" {
				h.want(done, h.accept(id))
				h.want(done, h.confirm(id))
			}
			if r := h.completed(id); r.completed != (told{true, sequence, false}) {
				s.Fatalf("completed %s: %s", id, r)
			}
		}
	}
	if h.model.offers.batches {
		r := h.commit([]job{{"b", 0, text("x")}, {"c", 0, text("c")}, {"a", 0, text("x")}}, []string{"a"}, nil)
		if h.want(done, r); r.results[1].sequence != 5 {
			s.Fatalf("%s, wanted 5 for the only new one", r)
		}
		h.finish("c")
	}
	h.want(done, h.keep(2*longWindow)) // it holds for those as well
	h = h.other(s.open())
	h.load()
	h.wantKnown(h.put("a", 0, text("again")), 1, false)
	h.want(done, h.accept("unaccepted")) // the window begins now
	h = h.other(s.open())
	h.wantJobs(h.load(), h.model.cursor, "waits?")
	h.wantKnown(h.put("unaccepted", 0, text("again")), 2, false)
}

// completedDropped: within the window a job that was given up is known as that
// (B3, B9).
func completedDropped(s *store) {
	h := s.deduplicated()
	s.needs(h.model.offers.attempts, "to keep attempts")
	h.want(done, h.keep(longWindow))
	h.next("dropped", "done")
	h.want(done, h.save(dropping("dropped"), attempt("done", 2)))
	h.finish("dropped", "done")
	for range 2 {
		s.closeAll()
		h = h.other(s.open())
		h.wantJobs(h.load(), 2)
		h.wantKnown(h.put("dropped", 0, text("again")), 1, true)
		h.wantKnown(h.put("done", 0, text("again")), 2, false)
		if r := h.completed("dropped"); r.completed != (told{true, 1, true}) {
			s.Fatalf("completed: %s", r)
		}
	}
}

// noWindow: without a window the next load forgets what is done, and nothing
// else (B9).
func noWindow(s *store) {
	h := s.deduplicated()
	forgotten := func(id string) {
		s.Helper()
		next := h.model.cursor + 1
		if r := h.completed(id); r.completed.found {
			s.Fatalf("completed %s: %s, wanted it forgotten", id, r)
		}
		h.wantFirst(h.put(id, next, text("another")), first{next, text("another"), false})
	}
	h.next("a", "unaccepted")
	h.finish("a")
	h.want(done, h.confirm("unaccepted"))
	h.wantKnown(h.put("a", 0, text("x")), 1, false)
	h = h.other(s.open())
	h.load() // none is the default
	forgotten("a")
	h.wantKnown(h.put("unaccepted", 0, text("x")), 2, false)
	h.finish("a")
	h.want(done, h.keep(longWindow)) // for what is known by now as well
	h = h.other(s.open())
	h.load()
	h.wantKnown(h.put("a", 0, text("x")), 3, false)
	h.want(done, h.keep(0))
	h = h.other(s.open())
	h.load()
	forgotten("a")
	h.wantKnown(h.put("unaccepted", 0, text("x")), 2, false)
}

// shortWindow: a job that is done is forgotten when its window is over, also
// where that was shortened; one that is not accepted is not (B9).
func shortWindow(s *store) {
	h := s.deduplicated()
	h.want(done, h.keep(longWindow))
	h.next("long", "shortened", "unaccepted")
	h.finish("shortened")
	h.want(done, h.confirm("unaccepted"))
	h.want(done, h.keep(time.Millisecond))
	h.finish("long") // it was not done when the window was long
	ctx, cancel := bounded()
	defer cancel()
	// From here on the model, which has no clock, is of no use.
	for _, id := range []string{"shortened", "long"} {
		s.eventually(func() bool {
			if r := perform(ctx, h.queue, call{kind: load}); r.verdict != done || len(r.jobs) != 0 {
				s.Fatalf("%s, wanted no job", r)
			} else {
				h.epoch = r.epoch
			}
			r := perform(ctx, h.queue, call{kind: completed, ids: []string{id}})
			return r.verdict == done && !r.completed.found
		}, id+" is forgotten")
	}
	for i, id := range []string{"shortened", "long"} {
		r := perform(ctx, h.queue, call{kind: put, epoch: h.epoch, stores: []job{{id, uint64(i + 4), text("new")}}})
		if r.verdict != done || r.results[0].already {
			s.Fatalf("store %s: %s, wanted it new", id, r)
		}
	}
	r := perform(ctx, h.queue, call{kind: put, epoch: h.epoch, stores: []job{{"unaccepted", 0, text("new")}}})
	if r.verdict != done || !r.results[0].already || r.results[0].sequence != 3 {
		s.Fatalf("store: %s, wanted it known as 3", r)
	}
}

// eventually tries until it holds, again and again as only a clock makes it so:
// for some seconds, and some times however slow the machine is.
func (s *store) eventually(holds func() bool, what string) {
	s.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	began := time.Now()
	for tries := 1; !holds(); tries++ {
		if waited := time.Since(began); waited > 5*time.Second && tries > 100 {
			s.Fatalf("after %s and %d tries it is not so that %s", waited, tries, what)
		}
		<-again.C
	}
}

// completedTold: whoever waits for a job is told when it was confirmed, whatever
// writer it asks, and of no other (B9, B10).
func completedTold(s *store) {
	h := s.deduplicated()
	h.want(done, h.keep(longWindow))
	stranger := h.other(s.open()) // it owns nothing
	tell := func(id string, wanted told) {
		s.Helper()
		for _, h := range []*history{h, stranger} {
			if r := h.completed(id); r.completed != wanted {
				s.Fatalf("completed %s: %s, wanted %s", id, r, reply{verdict: done, completed: wanted})
			}
		}
	}
	h.next("a", "b", "c")
	h.want(done, h.accept("b"))
	for _, id := range []string{"a", "b", "never", ""} {
		tell(id, told{})
	}
	h.want(done, h.confirm("a"))
	h.want(done, h.confirm("b"))
	tell("a", told{true, 1, false})
	tell("b", told{true, 2, false})
	tell("c", told{})
	before := map[string]time.Time{}
	for range 2 {
		for _, id := range []string{"a", "b"} {
			at := h.completed(id).time
			// A server's clock may be another one, and coarser.
			if off := time.Since(at).Abs(); off > patience {
				s.Errorf("%s was confirmed at %s, which is %s off", id, at, off)
			}
			if was, ok := before[id]; ok && was.Sub(at).Abs() > time.Second {
				s.Errorf("%s was confirmed at %s, and at %s after a load", id, was, at)
			}
			before[id] = at
		}
		s.closeAll()
		h = h.other(s.open())
		h.load()
		stranger = h.other(s.open())
		tell("a", told{true, 1, false})
		tell("b", told{true, 2, false})
		tell("c", told{})
	}
}

// windowFenced: an older writer sets no window (rule 65, B9).
func windowFenced(s *store) {
	old := s.deduplicated()
	young := old.other(s.open())
	young.load()
	young.want(done, young.keep(longWindow))
	young.next("a")
	young.finish("a")
	old.want(fenced, old.keep(0))
	young = old.other(s.open())
	young.load()
	young.wantKnown(young.put("a", 0, text("x")), 1, false)
}
