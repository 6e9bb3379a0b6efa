package queuetest

import (
	"fmt"
	"sync"

	"github.com/workpull/operator/workpull"
)

// reloading begins a subtest about conditional reload.
func (s *store) reloading() *history {
	s.Helper()
	h := s.begin()
	s.needs(h.model.offers.reloads, "to be reloaded")
	return h
}

// ownerReloads: the owner begins a new epoch, finds what a load would find, and
// fences what it was before (B16).
func ownerReloads(s *store) {
	h := s.reloading()
	h.wantJobs(h.reload(), 0)
	h.next("a", "b", "c", "d")
	h.accept("a")
	h.finish("b")
	h.confirm("c")
	for range 3 {
		stale := *h
		h.wantJobs(h.reload(), 4, "a", "d?")
		if h.epoch <= stale.epoch {
			s.Fatalf("epoch %d after %d", h.epoch, stale.epoch)
		}
		stale.refused(s)
		h.wantFirst(h.put("c", 5, text("x")), first{3, text("c"), true})
	}
	h.next("e")
	if h.model.offers.attempts {
		h.want(done, h.save(attempt("e", 3)))
	}
	h.wantJobs(h.reload(), h.model.cursor, "a", "d?", "e?")
	h.want(done, h.accept("e"))
	h = h.other(s.open())
	h.wantJobs(h.load(), h.model.cursor, "a", "d?", "e")
}

// othersDoNotReload: whoever does not own the queue is fenced, begins no epoch
// and changes nothing (B16).
func othersDoNotReload(s *store) {
	old := s.reloading()
	old.next("a", "b")
	never := old.other(s.open()) // of no epoch
	never.want(fenced, never.reload())
	young := old.other(s.open())
	young.load()
	for _, epoch := range []uint64{old.epoch, 0, young.epoch + 1, young.epoch + 1_000} {
		for _, q := range []workpull.DurableWorkQueue{old.queue, young.queue, never.queue} {
			h := old.other(q)
			h.epoch = epoch
			h.want(fenced, h.reload())
		}
		young.want(done, young.accept("a")) // it is still the owner
	}
	young.next("c")
	young.wantJobs(young.reload(), 3, "a", "b?", "c?")
	young.finish("b")
	old.want(fenced, old.reload())
	young.wantJobs(young.reload(), 3, "a", "c?")
}

// racingReloads: of writers that load and reload at the same time only one may
// reload under an epoch, each begins an epoch of its own, and the one with the
// highest writes (B16, rule 65).
func racingReloads(s *store) {
	const writers, races = 6, 8
	h := s.reloading()
	queues := make([]workpull.DurableWorkQueue, writers)
	for i := range queues {
		queues[i] = s.open()
	}
	ctx, cancel := bounded()
	defer cancel()
	owned, stored := h.epoch, 0
	for race := range races {
		racers := make([]*racer, writers)
		var start, all sync.WaitGroup
		start.Add(writers)
		for i := range racers {
			c := call{kind: reload, epoch: owned}
			if race%2 == 1 && i < 2 { // every other race is among reloads alone
				c = call{kind: load}
			}
			r := &racer{queue: queues[i], id: fmt.Sprintf("job %d of race %d", i, race), takes: c.kind == load}
			racers[i] = r
			all.Go(func() {
				start.Done()
				start.Wait()
				if r.loaded = perform(ctx, r.queue, c); r.loaded.verdict == done {
					r.wrote = r.put(ctx, r.id, r.loaded.cursor+1)
				}
			})
		}
		all.Wait()
		last, wrote := s.settled(owned, racers)
		stored += wrote
		for _, r := range racers {
			if r == last {
				continue
			}
			if again := perform(ctx, r.queue, call{kind: reload, epoch: r.loaded.epoch}); again.verdict != fenced {
				s.Fatalf("reload under epoch %d of %d: %s", r.loaded.epoch, last.loaded.epoch, again)
			}
		}
		r := perform(ctx, last.queue, call{kind: reload, epoch: last.loaded.epoch})
		if r.verdict != done || r.cursor != uint64(stored) || len(r.jobs) != stored {
			s.Fatalf("reload by the owner: %s, wanted the %d jobs that were stored", r, stored)
		}
		owned = r.epoch
	}
}

// settled returns the racer that owns the queue after a race that began under
// the epoch, and how many jobs were stored.
func (s *store) settled(owned uint64, racers []*racer) (last *racer, stored int) {
	s.Helper()
	epochs := map[uint64]bool{}
	loads, reloads := 0, 0
	for _, r := range racers {
		switch {
		case r.loaded.verdict == fenced && !r.takes:
			continue
		case r.loaded.verdict != done || r.loaded.epoch <= owned || epochs[r.loaded.epoch]:
			s.Fatalf("%s after epoch %d, wanted an epoch that nobody had", r.loaded, owned)
		case r.wrote.verdict != done && r.wrote.verdict != fenced:
			s.Fatalf("store under epoch %d: %s", r.loaded.epoch, r.wrote)
		case r.takes:
			loads++
		default:
			reloads++
		}
		if r.wrote.verdict == done {
			stored++
		}
		epochs[r.loaded.epoch] = true
		if last == nil || r.loaded.epoch > last.loaded.epoch {
			last = r
		}
	}
	switch {
	case reloads > 1 || loads+reloads == 0:
		s.Fatalf("%d loads and %d reloads under epoch %d, wanted one reload at most, and an owner", loads, reloads, owned)
	case last.wrote.verdict != done:
		s.Fatalf("store under the latest epoch, %d: %s", last.loaded.epoch, last.wrote)
	}
	return last, stored
}
