package queuetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/workpull/operator/workpull"
)

// Size of the concurrent histories. They are short and many: what goes wrong
// goes wrong between two or three operations, and the search for an order grows
// with the length.
const (
	clients   = 4
	rounds    = 8
	schedules = 40
)

// linearizable: what several writers at once are told is what they would be
// told one after the other, in some order that agrees with the clock (rule 64).
// Half of the writers share a queue.
func linearizable(s *store) {
	for seed := range uint64(schedules) {
		in := s
		if seed > 0 {
			in = s.another()
		}
		past := in.record(seed)
		// The search has no deadline: a busy machine must not fail it.
		if !porcupine.CheckOperations(sequential(offersOf(in.open())), past) {
			slices.SortFunc(past, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			var b strings.Builder
			for _, o := range past {
				fmt.Fprintf(&b, "%9d to %9d ns, client %d: %s: %s\n", o.Call, o.Return, o.ClientId, o.Input, o.Output)
			}
			s.Fatalf("schedule %d is not linearizable:\n%s", seed, b.String())
		}
	}
}

// sequential is the model as porcupine wants it.
func sequential(has offers) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return model{offers: has} },
		Step: func(state, input, output any) (bool, any) {
			next, err := state.(model).step(input.(call), output.(reply))
			return err == nil, next
		},
		Equal: func(a, b any) bool { return a.(model).equal(b.(model)) },
	}
}

// record lets the clients loose on a store. They start each round together.
func (s *store) record(seed uint64) []porcupine.Operation {
	s.Helper()
	shared := s.open()
	var past []porcupine.Operation
	var mu sync.Mutex
	start := time.Now()
	var cursor, latest atomic.Uint64 // the highest that anybody was told
	raise := func(to *atomic.Uint64, n uint64) {
		for old := to.Load(); n > old && !to.CompareAndSwap(old, n); old = to.Load() {
		}
	}
	do := func(client int, q workpull.DurableWorkQueue, c call) reply {
		ctx, cancel := bounded()
		defer cancel()
		called := time.Since(start)
		r := perform(ctx, q, c)
		returned := time.Since(start)
		raise(&latest, r.epoch)
		raise(&cursor, r.cursor)
		for _, f := range r.results {
			raise(&cursor, f.sequence)
		}
		mu.Lock()
		defer mu.Unlock()
		past = append(past, porcupine.Operation{ClientId: client, Input: c, Call: called.Nanoseconds(), Output: r, Return: returned.Nanoseconds()})
		return r
	}
	epoch := do(clients, shared, call{kind: load}).epoch

	var together [rounds]sync.WaitGroup
	for i := range together {
		together[i].Add(clients)
	}
	var all sync.WaitGroup
	for client := range clients {
		q := shared
		if client >= clients/2 {
			q = s.open()
		}
		has := offersOf(q)
		dice := rand.New(rand.NewPCG(seed, uint64(client)))
		mine := epoch
		all.Go(func() {
			for round := range rounds {
				c := someCall(dice, has, fmt.Sprintf("%d of %d", round, client), cursor.Load()+1)
				c.epoch = mine
				together[round].Done()
				together[round].Wait()
				switch r := do(client, q, c); {
				case r.epoch != 0:
					mine = r.epoch
					for _, page := range r.pages() { // fenced by now, or not
						do(client, q, page)
					}
				case r.verdict == fenced && dice.IntN(4) > 0: // or stay an old writer
					mine = latest.Load()
				}
			}
		})
	}
	all.Wait()
	do(clients, shared, call{kind: load})
	return past
}

// contended are few, so that the clients get in each other's way.
var contended = []string{"a", "b", "c", "d", "e"}

// someCall is any operation on the contended jobs. Writer is the value that it
// stores.
func someCall(dice *rand.Rand, has offers, writer string, next uint64) call {
	some := func() string { return contended[dice.IntN(len(contended))] }
	n := dice.IntN(30)
	switch {
	case n == 0:
		return call{kind: load}
	case n == 1 && has.reloads:
		return call{kind: reload}
	case n < 4 && has.attempts:
		c := call{kind: save}
		for range 1 + dice.IntN(2) {
			if id := some(); len(c.progress) == 0 || id != c.progress[0].MessageID() {
				c.progress = append(c.progress, someProgress(dice, id))
			}
		}
		return c
	case n < 7 && has.pages:
		return call{kind: payloads, ids: []string{some(), some()}}
	case n == 7 && has.deduplicates:
		return call{kind: keep, window: time.Duration(dice.IntN(2)) * longWindow}
	case n < 10 && has.deduplicates:
		return call{kind: completed, ids: []string{some()}}
	case n < 18:
		return call{kind: put, stores: []job{{some(), next, text(writer)}}}
	case n < 21:
		return call{kind: accept, accepts: []string{some()}}
	case n < 25 || !has.batches:
		return call{kind: confirm, confirms: []string{some()}}
	}
	c := call{kind: commit}
	for range 1 + dice.IntN(2) {
		c.stores = append(c.stores, job{some(), 0, text(writer)})
	}
	if dice.IntN(2) == 0 {
		c.accepts = []string{some()}
	}
	if dice.IntN(2) == 0 {
		c.confirms = []string{c.stores[0].id}
	}
	return c
}

// racer is one of the writers that race for a store.
type racer struct {
	queue         workpull.DurableWorkQueue
	id            string
	takes         bool // it loads, whoever owns the queue
	loaded, wrote reply
}

// racingWriters: of writers that load and store at the same time the one with
// the highest epoch writes; another one wrote before that epoch began or was
// fenced, and nothing that was fenced is there (rule 65).
func racingWriters(s *store) {
	const writers, races = 6, 8
	h := s.begin()
	epochs := map[uint64]bool{h.epoch: true}
	held := map[string]bool{}
	queues := make([]workpull.DurableWorkQueue, writers)
	for i := range queues {
		queues[i] = s.open()
	}
	ctx, cancel := bounded()
	defer cancel()
	for race := range races {
		racers := make([]*racer, writers)
		var start, all sync.WaitGroup
		start.Add(writers)
		for i := range racers {
			r := &racer{queue: queues[i], id: fmt.Sprintf("job %d of race %d", i, race)}
			racers[i] = r
			all.Go(func() {
				start.Done()
				start.Wait()
				if r.loaded = perform(ctx, r.queue, call{kind: load}); r.loaded.verdict == done {
					r.wrote = r.put(ctx, r.id, r.loaded.cursor+1)
				}
			})
		}
		all.Wait()
		last := racers[0]
		for _, r := range racers {
			if r.loaded.verdict != done || epochs[r.loaded.epoch] {
				s.Fatalf("load: %s, wanted an epoch that nobody had", r.loaded)
			}
			epochs[r.loaded.epoch] = true
			if r.loaded.epoch > last.loaded.epoch {
				last = r
			}
		}
		if last.wrote.verdict != done {
			s.Fatalf("store under the latest epoch, %d: %s", last.loaded.epoch, last.wrote)
		}
		for _, r := range racers {
			switch {
			case r.wrote.verdict == done:
				held[r.id] = true
			case r.wrote.verdict != fenced:
				s.Fatalf("store under epoch %d of %d: %s", r.loaded.epoch, last.loaded.epoch, r.wrote)
			}
			if _, ok := r.queue.(workpull.BatchWorkQueue); ok && r != last {
				batch := call{kind: commit, epoch: r.loaded.epoch, stores: []job{{"batch of " + r.id, 0, text("late")}}}
				if late := perform(ctx, r.queue, batch); late.verdict != fenced {
					s.Fatalf("commit under epoch %d of %d: %s", r.loaded.epoch, last.loaded.epoch, late)
				}
			}
			if late := r.put(ctx, "late "+r.id, last.wrote.results[0].sequence+1); late.verdict != fenced && r != last {
				s.Fatalf("store under epoch %d of %d: %s", r.loaded.epoch, last.loaded.epoch, late)
			} else if r == last && late.verdict != done {
				s.Fatalf("store under the latest epoch: %s", late)
			}
		}
		held["late "+last.id] = true
		state := perform(ctx, h.queue, call{kind: load})
		if state.verdict != done || epochs[state.epoch] {
			s.Fatalf("load after race %d: %s", race, state)
		}
		epochs[state.epoch] = true
		for _, j := range state.jobs {
			if !held[j.id] || !j.paged && j.payload != text(j.id) {
				s.Fatalf("%s is there, which nobody was told", short(j.id))
			}
		}
		if len(state.jobs) != len(held) || state.cursor != uint64(len(held)) {
			s.Fatalf("%d jobs and cursor %d, wanted the %d that were stored", len(state.jobs), state.cursor, len(held))
		}
	}
}

// put stores the job under the racer's epoch.
func (r *racer) put(ctx context.Context, id string, sequence uint64) reply {
	return perform(ctx, r.queue, call{kind: put, epoch: r.loaded.epoch, stores: []job{{id, sequence, text(id)}}})
}
