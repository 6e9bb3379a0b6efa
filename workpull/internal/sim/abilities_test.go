package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// TestWorlds: the seeds of a usual run have plain queues and those that take
// batches, with each ability and without, and controllers that remember and adopt
// and that do not.
func TestWorlds(t *testing.T) {
	type world struct {
		mode    queueMode
		ability string
		has     bool
	}
	count := map[world]int{}
	for seed := uint64(1); seed <= fullSeeds; seed++ {
		o := OptionsFor(seed)
		for ability, has := range map[string]bool{
			"pages": o.Pages, "keeps": o.Keeps, "remembers": o.Remembers, "reloads": o.Reloads,
			"window": o.Known > 0, "settle": o.Settle > 0, "remembers for a while": o.Remembers && o.Known > 0, "adopts and pages": o.Settle > 0 && o.Pages,
			"keeps and remembers": o.Keeps && o.Remembers && o.Known > 0,
		} {
			count[world{o.Queue, ability, has}]++
		}
	}
	for mode := inMemory; mode < queueModes; mode++ {
		for _, ability := range []string{
			"pages", "keeps", "remembers", "reloads", "window", "settle", "remembers for a while", "adopts and pages", "keeps and remembers",
		} {
			for _, has := range []bool{true, false} {
				possible := mode != inMemory || !has || ability == "window"
				if n := count[world{mode, ability, has}]; possible != (n >= fullSeeds/50) {
					t.Errorf("queue %d, %s %v: %d of %d seeds", mode, ability, has, n, fullSeeds)
				}
			}
		}
	}
}

// TestQueueOffers: the model queue keeps what the optional interfaces of a queue
// promise (B3, B9, B11, B16).
func TestQueueOffers(t *testing.T) {
	q := newQueue(10 * time.Second)
	epoch, _, _ := q.load()
	for i, id := range []string{"a", "b", "c"} {
		if _, _, err := q.store(epoch, uint64(i+1), id, []byte(id)); err != nil {
			t.Fatalf("store %s: %v", id, err)
		}
	}
	q.now = time.Second
	dropped := core.SavedProgress{ID: "b", Progress: &core.Progress{Attempt: 2, Dropped: true}}
	if err := errors.Join(q.save(epoch, []core.SavedProgress{dropped}), q.accept(epoch, "a"), q.confirm(epoch, "a"), q.confirm(epoch, "b"), q.accept(epoch, "b")); err != nil {
		t.Fatalf("mark a and b: %v", err)
	}
	if err := q.save(epoch, []core.SavedProgress{{ID: "c", Progress: &core.Progress{Attempt: 3}}, {ID: "never", Progress: &core.Progress{}}}); !errors.Is(err, errConflict) || q.known["c"].progress != nil {
		t.Errorf("progress of what was never stored: %v, c has %+v", err, q.known["c"].progress)
	}
	if err := q.save(epoch, []core.SavedProgress{{ID: "a", Progress: &core.Progress{Attempt: 3}}}); err != nil || q.known["a"].progress != nil {
		t.Errorf("progress of what is compacted: %v, a has %+v", err, q.known["a"].progress)
	}
	if p, err := q.payloads(epoch, []string{"c"}); err != nil || len(p) != 1 || string(p[0].Value) != "c" {
		t.Errorf("the payload of c: %v, %v", p, err)
	}
	for _, id := range []string{"a", "never"} {
		if _, err := q.payloads(epoch, []string{"c", id}); !errors.Is(err, errConflict) {
			t.Errorf("the payload of %s: %v", id, err)
		}
	}
	q.now = 11*time.Second - 1
	epoch, _, _ = q.load()
	if s, already, err := q.store(epoch, 9, "b", nil); err != nil || !already || !s.dropped() || s.seq != 2 {
		t.Errorf("b within the window: %+v, already %v: %v", s, already, err)
	}
	if err := errors.Join(q.save(epoch-1, nil), func() error { _, err := q.payloads(epoch-1, nil); return err }()); !errors.Is(err, errFenced) || q.owned(epoch-1) {
		t.Errorf("by an older epoch: %v", err)
	}
	q.now = 11 * time.Second
	epoch, _, _ = q.load()
	if _, already, err := q.store(epoch, 4, "a", []byte("a")); err != nil || already {
		t.Errorf("a past the window: already %v: %v", already, err)
	}
}
