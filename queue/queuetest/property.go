package queuetest

import (
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"github.com/workpull/operator/workpull"
)

// histories: whatever is done, by whatever writers of one store, one after the
// other, the answers are the model's.
func histories(s *store) {
	ids := []string{"a", "a\x00", "b", "b/../a", "\xff", "c"}
	rapid.Check(s.T, func(t *rapid.T) {
		in := s.another()
		defer in.closeAll()
		writers := []*history{in.begin()}
		writers[0].tb = t
		any1 := func() *history { return rapid.SampledFrom(writers).Draw(t, "writer") }
		id := rapid.SampledFrom(ids)
		value := rapid.Map(rapid.StringN(0, 8, 32), text)
		actions := map[string]func(*rapid.T){
			"load": func(*rapid.T) { any1().load() },
			"open": func(t *rapid.T) {
				if len(writers) == 3 {
					t.Skip("enough writers")
				}
				h := writers[0].other(in.open())
				h.load()
				writers = append(writers, h)
			},
			"reopen": func(t *rapid.T) { // the store outlives its writers
				in.closeAll()
				h := writers[0].other(in.open())
				h.load()
				writers = []*history{h}
			},
			"store": func(t *rapid.T) {
				h := any1()
				// The right sequence, most of the time.
				off := rapid.SampledFrom([]uint64{1, 1, 1, 1, 0, 2}).Draw(t, "off")
				h.put(id.Draw(t, "id"), h.model.cursor+off, value.Draw(t, "value"))
			},
			"accept":  func(t *rapid.T) { any1().accept(id.Draw(t, "id")) },
			"confirm": func(t *rapid.T) { any1().confirm(id.Draw(t, "id")) },
		}
		offered(writers[0].model.offers, actions, any1, id, value)
		t.Repeat(actions)
	})
}

// offered adds what not every queue takes to the actions of a history.
func offered(has offers, actions map[string]func(*rapid.T), writer func() *history, id *rapid.Generator[string], value *rapid.Generator[payload]) {
	some := rapid.SliceOfN(id, 0, 4)
	if has.batches {
		actions["commit"] = func(t *rapid.T) {
			var stores []job
			for _, id := range some.Draw(t, "stores") {
				stores = append(stores, job{id, 0, value.Draw(t, "value")})
			}
			writer().commit(stores, some.Draw(t, "accepts"), some.Draw(t, "confirms"))
		}
	}
	if has.pages {
		actions["payloads"] = func(t *rapid.T) { writer().payloads(some.Draw(t, "ids")...) }
	}
	if has.attempts {
		actions["save"] = func(t *rapid.T) {
			dice := rand.New(rand.NewPCG(rapid.Uint64Max(1_000).Draw(t, "progress"), 3))
			var saves []workpull.JobProgress
			for _, id := range rapid.SliceOfNDistinct(id, 0, 3, rapid.ID).Draw(t, "of") {
				saves = append(saves, someProgress(dice, id))
			}
			writer().save(saves...)
		}
	}
	if has.deduplicates {
		actions["keep"] = func(t *rapid.T) {
			writer().keep(rapid.SampledFrom([]time.Duration{0, longWindow, 2 * longWindow}).Draw(t, "window"))
		}
		actions["completed"] = func(t *rapid.T) { writer().completed(id.Draw(t, "id")) }
	}
	if has.reloads {
		actions["reload"] = func(*rapid.T) { writer().reload() }
	}
}

// everyPrefix: wherever a history ends, the next writer finds what was done up
// to there, progress included, and goes on (rule 67, B3).
func everyPrefix(s *store) {
	const length = 24
	for seed := range uint64(2) {
		for end := range length + 1 {
			in := s.another()
			h := in.begin()
			dice := rand.New(rand.NewPCG(seed, 7))
			for range end {
				c := someCall(dice, h.model.offers, "first", h.model.cursor+1)
				if h.do(c); c.kind == load || c.kind == reload {
					h.want(fenced, (&history{tb: h.tb, queue: h.queue, epoch: h.epoch - 1, model: h.model, lines: h.lines}).accept("a"))
				}
			}
			in.closeAll()
			h = h.other(in.open())
			h.load()
			for _, id := range contended {
				if e, known := h.model.jobs[id]; known && !e.forgettable {
					if h.model.offers.attempts && !e.compacted() {
						h.want(done, h.save(attempt(id, 1)))
					}
					h.want(done, h.put(id, 0, text("second")))
					h.want(done, h.confirm(id))
				}
			}
			h.next("the next")
			in.closeAll()
			h = h.other(in.open())
			h.wantJobs(h.load(), h.model.cursor, "the next?")
			in.closeAll()
		}
	}
}
