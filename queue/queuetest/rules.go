package queuetest

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/workpull/operator/workpull"
)

// epochsFence: each load begins a positive epoch above all before, through
// whatever writer, and fences what is older, for every operation (rule 65).
func epochsFence(s *store) {
	old := s.begin()
	if old.epoch == 0 {
		s.Fatal("the first epoch is 0")
	}
	old.next("a", "b")
	zero := old.other(old.queue)
	zero.refused(s)
	for range 3 {
		young := old.other(s.open())
		young.wantJobs(young.load(), 2, "a?", "b?")
		if young.epoch <= old.epoch {
			s.Fatalf("epoch %d after %d", young.epoch, old.epoch)
		}
		old.refused(s)
		young.wantJobs(young.load(), 2, "a?", "b?") // nothing of it was done
		old = young
	}
	// A writer fences itself, too.
	stale := old.other(old.queue)
	stale.epoch = old.epoch
	old.load()
	stale.refused(s)
	ahead := old.other(old.queue)
	ahead.epoch = old.epoch + 1_000
	ahead.refused(s)
}

// refused does every operation under an epoch that is not the queue's, right
// ones and wrong ones: it is the fence that is found first.
func (h *history) refused(s *store) {
	h.Helper()
	h.want(fenced, h.put("a", 1, text("a")))
	h.want(fenced, h.put("new", h.model.cursor+1, text("new")))
	h.want(fenced, h.put("new", h.model.cursor+7, text("new")))
	for _, id := range []string{"a", "never"} {
		h.want(fenced, h.accept(id))
		h.want(fenced, h.confirm(id))
	}
	has := offersOf(h.queue)
	if has.batches {
		h.want(fenced, h.commit([]job{{"new", 0, text("new")}}, []string{"a"}, []string{"b"}))
		h.want(fenced, h.commit(nil, nil, []string{"never"}))
	}
	if has.pages {
		h.want(fenced, h.payloads("a"))
		h.want(fenced, h.payloads("never"))
	}
	if has.attempts {
		h.want(fenced, h.save(attempt("a", 7)))
		h.want(fenced, h.save(attempt("never", 7)))
	}
	if has.deduplicates {
		h.want(fenced, h.keep(longWindow))
	}
	if has.reloads {
		h.want(fenced, h.reload())
	}
}

// stateInOrder: sequences ascend below the cursor, MessageIDs are unique, the
// cursor outlives the jobs, and there may be holes (rule 67).
func stateInOrder(s *store) {
	h := s.begin()
	if h.model.cursor != 0 || len(h.model.jobs) != 0 {
		s.Fatalf("a fresh store has cursor %d and %d jobs", h.model.cursor, len(h.model.jobs))
	}
	h.wantJobs(h.load(), 0)
	var ids []string
	for i := range 120 { // as numbers and as text these are ordered otherwise
		ids = append(ids, fmt.Sprintf("%x", (i*37+11)%120))
	}
	h.next(ids...)
	for i, id := range ids {
		if i%3 == 1 || i >= 110 {
			h.accept(id)
			h.confirm(id)
		}
	}
	r := h.other(s.open()).load()
	if r.cursor != 120 {
		s.Fatalf("cursor %d after 120 jobs", r.cursor)
	}
	last := uint64(0)
	for _, j := range r.jobs {
		if j.sequence <= last || j.sequence > r.cursor || ids[j.sequence-1] != j.id || j.payload != text(j.id) {
			s.Fatalf("job %s has sequence %d after %d, payload %s", short(j.id), j.sequence, last, short(j.payload.value))
		}
		last = j.sequence
	}
	if len(r.jobs) != 73 {
		s.Fatalf("%d jobs, wanted 73", len(r.jobs))
	}
	h.load()
	for _, id := range ids {
		if !h.model.jobs[id].confirmed {
			h.accept(id)
			h.confirm(id)
		}
	}
	h = h.other(s.open())
	h.wantJobs(h.load(), 120)
	h.wantFirst(h.put("one more", 121, text("x")), first{121, text("x"), false})
}

// nextSequence: a new job proposes the cursor and one, and nothing else will do
// (rule 68).
func nextSequence(s *store) {
	h := s.begin()
	for _, wrong := range []uint64{0, 2, 3, 1 << 40, 1<<64 - 1} {
		h.want(conflict, h.put("a", wrong, text("a")))
	}
	h.wantFirst(h.put("a", 1, text("a")), first{1, text("a"), false})
	for _, wrong := range []uint64{0, 1, 3} {
		h.want(conflict, h.put("b", wrong, text("b")))
	}
	h.want(conflict, h.accept("b")) // what was refused was not stored
	h.wantFirst(h.put("b", 2, text("b")), first{2, text("b"), false})
	h = h.other(s.open())
	h.wantJobs(h.load(), 2, "a?", "b?")
	h.want(conflict, h.put("c", 1, text("c")))
	h.wantFirst(h.put("c", 3, text("c")), first{3, text("c"), false})
}

// firstWrites: a known MessageID returns what was stored first, whatever is
// proposed, and appends nothing (rule 69).
func firstWrites(s *store) {
	h := s.begin()
	h.next("a", "b", "c", "d")
	h.accept("b")
	h.confirm("c")
	h.accept("d")
	h.confirm("d")
	again := func(ids ...string) {
		s.Helper()
		for _, id := range ids {
			want := first{h.model.jobs[id].sequence, text(id), true}
			for _, proposed := range []uint64{0, want.sequence, h.model.cursor, h.model.cursor + 1, 1 << 50} {
				r := h.put(id, proposed, payload{"type.test/other", "another"})
				if e := h.model.jobs[id]; e.compacted() {
					h.wantKnown(r, want.sequence, false)
				} else {
					h.wantFirst(r, want)
				}
			}
		}
	}
	again("a", "b", "c", "d") // d was compacted in this epoch, or may have been: its payload may be gone
	h.wantFirst(h.put("e", 5, text("e")), first{5, text("e"), false})
	h = h.other(s.open())
	h.wantJobs(h.load(), 5, "a?", "b", "e?")
	again("a", "b", "c") // c was never accepted
}

// idempotentMarks: accept and confirm may be repeated, in any order, also for
// what was compacted in this epoch; what was never stored is a conflict (rule
// 70).
func idempotentMarks(s *store) {
	h := s.begin()
	h.want(conflict, h.accept("a"))
	h.want(conflict, h.confirm("a"))
	h.next("a", "b", "c")
	for range 3 {
		h.want(done, h.accept("a"))
	}
	for range 3 {
		h.want(done, h.confirm("b"))
	}
	for range 2 {
		h.want(done, h.confirm("a"))
		h.want(done, h.accept("b"))
		h.want(done, h.accept("a"))
		h.want(done, h.confirm("b"))
	}
	h.want(conflict, h.accept("never"))
	h.want(conflict, h.confirm("never"))
	h = h.other(s.open())
	h.wantJobs(h.load(), 3, "c?")
	h.want(done, h.accept("c"))
	h.want(done, h.accept("c"))
	h = h.other(s.open())
	h.wantJobs(h.load(), 3, "c")
	h.want(done, h.accept("c"))
	h.want(done, h.confirm("c"))
	h.want(done, h.confirm("c"))
}

// compaction: a job that is only accepted, or only confirmed, is known over any
// number of loads (rule 71).
func compaction(s *store) {
	h := s.begin()
	h.next("accepted", "confirmed", "both")
	h.accept("accepted")
	h.confirm("confirmed")
	h.accept("both")
	h.confirm("both")
	for range 3 {
		h = h.other(s.open())
		h.wantJobs(h.load(), 3, "accepted")
		h.wantFirst(h.put("accepted", 4, text("x")), first{1, text("accepted"), true})
		h.wantFirst(h.put("confirmed", 4, text("x")), first{2, text("confirmed"), true})
		h.want(done, h.confirm("confirmed"))
	}
	h.want(done, h.accept("confirmed"))
	h.want(done, h.confirm("accepted"))
	h = h.other(s.open())
	h.wantJobs(h.load(), 3)
}

// unaccepted: what was stored and not accepted is loaded, and can be accepted
// and confirmed by the next writer (B1).
func unaccepted(s *store) {
	h := s.begin()
	h.next("a", "b", "c")
	h.accept("b")
	for range 2 {
		h = h.other(s.open())
		h.wantJobs(h.load(), 3, "a?", "b", "c?")
	}
	h.wantFirst(h.put("a", 4, text("again")), first{1, text("a"), true})
	h.want(done, h.accept("a"))
	h.want(done, h.confirm("c"))
	h = h.other(s.open())
	h.wantJobs(h.load(), 3, "a", "b")
}

// identity is what an ID may look like.
var identity = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,254}$`)

// serialized: what MarshalBinary returns tells how to reach the store, and never
// what is in it; the queue that is made of it sees the same state; what is not
// of it is refused (rule 72).
func serialized(s *store) {
	h := s.begin()
	before := s.marshal(h.queue)
	if !identity.MatchString(h.queue.ID()) {
		s.Errorf("ID %q, wanted %s", h.queue.ID(), identity)
	}
	h.next("a job that is easily found")
	h.put("a second", 2, text("a payload that is easily found"))
	h.accept("a second")
	after := s.marshal(h.queue)
	for _, found := range []string{"easily found", "a second", "type.test/text"} {
		if bytes.Contains(after, []byte(found)) {
			s.Errorf("%q is in what MarshalBinary returns", found)
		}
	}
	if len(after) > len(before) {
		s.Errorf("MarshalBinary returns %d bytes, and %d when nothing is stored", len(after), len(before))
	}
	for _, data := range [][]byte{before, after} {
		twin := s.blank(h.queue)
		if err := twin.UnmarshalBinary(slices.Clone(data)); err != nil {
			s.Fatalf("unmarshal: %v", err)
		}
		s.keep(twin)
		if twin.ID() != h.queue.ID() {
			s.Errorf("ID %q, and %q of the queue that was made of it", h.queue.ID(), twin.ID())
		}
		heir := h.other(twin)
		heir.wantJobs(heir.load(), 2, "a job that is easily found?", "a second")
		h.want(fenced, h.confirm("a second"))
		h = heir
	}
	for _, bad := range [][]byte{nil, {}, {0}, []byte("\xff\xfe not a queue \x00"), bytes.Repeat([]byte{0xff}, 1<<16)} {
		if err := s.blank(h.queue).UnmarshalBinary(bad); err == nil {
			s.Errorf("%d bytes that are no queue are unmarshalled: %.20q", len(bad), bad)
		}
	}
	// What is damaged may be another queue's, and must not panic.
	for i := range after {
		_ = s.blank(h.queue).UnmarshalBinary(after[:i:i])
		flipped := slices.Clone(after)
		flipped[i] ^= 0x5a
		_ = s.blank(h.queue).UnmarshalBinary(flipped)
	}
}

func (s *store) marshal(q workpull.DurableWorkQueue) []byte {
	s.Helper()
	data, err := q.MarshalBinary()
	if err != nil {
		s.Fatalf("marshal: %v", err)
	}
	return data
}

// blank is a queue of the same type as it is made before UnmarshalBinary.
func (s *store) blank(q workpull.DurableWorkQueue) workpull.DurableWorkQueue {
	s.Helper()
	t := reflect.TypeOf(q)
	if t.Kind() != reflect.Pointer {
		s.Fatalf("%s is not a pointer, so that it cannot be made of bytes", t)
	}
	blank, ok := reflect.New(t.Elem()).Interface().(workpull.DurableWorkQueue)
	if !ok {
		s.Fatalf("%s is not a queue", t)
	}
	return blank
}
