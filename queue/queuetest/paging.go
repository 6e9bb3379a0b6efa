package queuetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/workpull/operator/workpull"
)

// paged begins a subtest about paging.
func (s *store) paged() *history {
	s.Helper()
	h := s.begin()
	s.needs(h.model.offers.pages, "paging")
	return h
}

// wantPage fails unless those are the payloads.
func (h *history) wantPage(r reply, wanted ...payload) {
	h.Helper()
	if r.verdict != done || !slices.Equal(r.payloads, wanted) {
		h.Fatalf("%s, wanted %s", r, reply{verdict: done, payloads: wanted})
	}
}

// payloadsAsked: payloads come in the order in which they are asked for,
// whatever became of the jobs, as long as they are not compacted (B11).
func payloadsAsked(s *store) {
	h := s.paged()
	ids := hostileIDs()
	h.next(ids...)
	dice := rand.New(rand.NewPCG(11, 11))
	for range 2 {
		h.wantPage(h.payloads())
		for range 20 {
			dice.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			some := ids[:1+dice.IntN(len(ids))]
			var wanted []payload
			for _, id := range some {
				wanted = append(wanted, text(id))
			}
			h.wantPage(h.payloads(some...), wanted...)
		}
		h.accept(ids[0])
		h.confirm(ids[1])
		h = h.other(s.open())
		h.load()
	}
	h.wantPage(h.payloads(ids[1], ids[0], ids[1]), text(ids[1]), text(ids[0]), text(ids[1]))
}

// payloadsUnknown: there is no page of a job that was never stored, nor of those
// beside it (B11).
func payloadsUnknown(s *store) {
	h := s.paged()
	h.want(conflict, h.payloads("a"))
	h.next("a", "b")
	h.want(conflict, h.payloads("never"))
	h.want(conflict, h.payloads("a", "never", "b"))
	h.want(conflict, h.payloads("A"))
	h.want(conflict, h.payloads(""))
	h.wantPage(h.payloads("b", "a"), text("b"), text("a"))
}

// payloadsFenced: an older writer is given no page, so that it learns that it
// is one (rule 65, B11).
func payloadsFenced(s *store) {
	old := s.paged()
	old.next("a")
	young := old.other(s.open())
	young.load()
	old.want(fenced, old.payloads("a"))
	old.want(fenced, old.payloads("never"))
	old.want(fenced, old.payloads())
	young.wantPage(young.payloads("a"), text("a"))
}

// longBacklog: of more jobs than are worth loading at once every payload is to
// be had, with the load or in pages of MaxPage, as it was stored (B11).
func longBacklog(s *store) {
	h := s.paged()
	jobs := backlog(1_200, 4<<10)
	if h.model.offers.batches {
		jobs = backlog(3_000, 8<<10)
	}
	var holes []string
	var left []job
	for i, j := range jobs { // at the front and in between
		if i < 50 || i < 200 && i%3 == 0 {
			holes = append(holes, j.id)
		} else {
			left = append(left, j)
		}
	}
	if h.model.offers.batches {
		for some := range slices.Chunk(jobs, 500) {
			h.want(done, h.commit(some, nil, nil))
		}
		h.want(done, h.commit(nil, holes, holes))
	} else {
		for i, j := range jobs {
			h.want(done, h.put(j.id, uint64(i+1), j.payload))
		}
		h.finish(holes...)
	}
	h = h.other(s.open())
	r := h.load() // which asks for the pages, and the model knows what is in them
	if len(r.jobs) != len(left) {
		s.Fatalf("%d jobs, wanted %d", len(r.jobs), len(left))
	}
	for i, j := range r.jobs {
		if j.id != left[i].id || j.payload != left[i].payload {
			s.Fatalf("job %s holds %s, wanted %s with %s", short(j.id), short(j.payload.value), short(left[i].id), short(left[i].payload.value))
		}
	}
	// A page may be asked for from anywhere, also what came with the load.
	var ids []string
	var wanted []payload
	for _, j := range slices.Backward(r.jobs[:workpull.MaxPage]) {
		ids, wanted = append(ids, j.id), append(wanted, j.payload)
	}
	h.wantPage(h.payloads(ids...), wanted...)
	ids[len(ids)/2] = "never"
	h.want(conflict, h.payloads(ids...))
}

// backlog are jobs with payloads of the size that cannot be compressed.
func backlog(n, size int) []job {
	noise := rand.NewChaCha8([32]byte{11})
	jobs := make([]job, n)
	for i := range jobs {
		value := make([]byte, size)
		noise.Read(value) //nolint:errcheck // it never fails
		jobs[i] = job{id: fmt.Sprintf("job %d", i), payload: payload{"type.test/noise", string(value)}}
	}
	return jobs
}
