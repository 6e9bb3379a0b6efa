package queuetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/workpull/operator/workpull"
)

// progress is what happened to a job, as a controller would say it.
func progress(id string, counts workpull.ProgressCounts, failures []workpull.FailedAttempt, retryAt time.Time, fate workpull.JobFate) workpull.JobProgress {
	p, err := workpull.NewJobProgress(id, counts, failures, retryAt, fate)
	if err != nil {
		panic(fmt.Sprintf("the suite made up what is no progress: %v", err))
	}
	return p
}

// attempt is progress that says no more than which attempt is next.
func attempt(id string, number uint32) workpull.JobProgress {
	return progress(id, workpull.ProgressCounts{Attempt: number}, nil, time.Time{}, workpull.FateNone)
}

// dropping is progress of a job that was given up.
func dropping(id string) workpull.JobProgress {
	return progress(id, workpull.ProgressCounts{Attempt: 4}, nil, time.Time{}, workpull.FateDropped)
}

// wall is a wall time with all its nanoseconds, in a zone that does not come
// back as it was.
var wall = time.Date(2031, 7, 14, 23, 59, 59, 123456789, time.FixedZone("", 5*3600+1800))

// hostileProgress are progresses of a job that go wrong where they are taken
// apart, put into a column that cannot hold them, or cut.
func hostileProgress(id string) []workpull.JobProgress {
	last := make([]workpull.FailedAttempt, 32)
	for i := range last {
		last[i] = workpull.FailedAttempt{Attempt: i + 1, Worker: fmt.Sprintf("pod-%d", i), Time: wall.Add(time.Duration(i) * time.Nanosecond), Reason: strings.Repeat("why ", 256)}
	}
	failed := func(reason string) []workpull.FailedAttempt {
		return []workpull.FailedAttempt{{Attempt: 1, Worker: reason, Time: wall, Reason: reason}}
	}
	counts := workpull.ProgressCounts{Attempt: 2, Interruptions: 3, Deaths: 4}
	all := []workpull.JobProgress{
		attempt(id, 1),
		attempt(id, math.MaxUint32),
		progress(id, workpull.ProgressCounts{Attempt: math.MaxUint32, Interruptions: math.MaxUint32, Deaths: math.MaxUint32}, nil, time.Time{}, workpull.FateNone),
		progress(id, counts, last, wall, workpull.FateNone),
		progress(id, counts, nil, time.Unix(0, 1), workpull.FateNone),
		progress(id, counts, nil, time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), workpull.FateNone),
		progress(id, counts, []workpull.FailedAttempt{{}}, time.Time{}, workpull.FateNone),
		progress(id, counts, last, time.Time{}, workpull.FateDead),
		progress(id, counts, failed("late"), time.Time{}, workpull.FateDropped),
		progress(id, counts, failed(strings.Repeat("long ", 1<<16)), time.Time{}, workpull.FateNone),
	}
	for _, reason := range []string{"a\x00b", "\x00", "\xff\xfe", "\xed\xa0\x80", "\ufffd", "\u2028", "\U0001f4a9", `\u0000`, "'; drop table jobs; --", `"}`, "\r\n", "<&>"} {
		all = append(all, progress(id, counts, failed(reason), wall, workpull.FateNone))
	}
	return all
}

// someProgress is any progress of the job.
func someProgress(dice *rand.Rand, id string) workpull.JobProgress {
	counts := workpull.ProgressCounts{Attempt: 1 + dice.Uint32N(5), Interruptions: dice.Uint32N(3), Deaths: dice.Uint32N(2)}
	var failures []workpull.FailedAttempt
	for i := range dice.IntN(3) {
		failures = append(failures, workpull.FailedAttempt{Attempt: i + 1, Worker: "worker", Time: wall, Reason: []string{"", "no", "\x00", "\xff"}[dice.IntN(4)]})
	}
	switch dice.IntN(4) {
	case 0:
		return progress(id, counts, failures, wall, workpull.FateNone)
	case 1:
		return progress(id, counts, failures, time.Time{}, workpull.FateDead)
	case 2:
		return progress(id, counts, failures, time.Time{}, workpull.FateDropped)
	}
	return progress(id, counts, failures, time.Time{}, workpull.FateNone)
}

// attempts begins a subtest that is about them.
func (s *store) attempts() *history {
	s.Helper()
	h := s.begin()
	s.needs(h.model.offers.attempts, "to keep attempts")
	return h
}

// progressKept: what was saved of a job comes back whole with every load, until
// something else is saved of it, whether the job is accepted or not (B3).
func progressKept(s *store) {
	h := s.attempts()
	h.next("a", "b", "none")
	h.accept("b")
	again := func(wanted string) {
		s.Helper()
		for _, j := range h.load().jobs {
			if j.id == "a" && j.progress != wanted || j.id == "none" && j.progress != "" {
				s.Fatalf("progress of %s is %s, wanted %s", j.id, short(j.progress), short(wanted))
			}
		}
	}
	for i, p := range hostileProgress("a") {
		h.want(done, h.save(attempt("a", 77), attempt("b", 77)))
		h.want(done, h.save(p, attempt("b", uint32(i+1))))
		h.want(done, h.accept("b"))
		again(canonical(p))
		if h.model.offers.reloads {
			h.reload()
		}
		s.closeAll()
		h = h.other(s.open())
		again(canonical(p))
	}
	h.want(done, h.save()) // of none
	ids := hostileIDs()[1:]
	h.next(ids...)
	var all []workpull.JobProgress
	for i, id := range ids {
		all = append(all, attempt(id, uint32(i+1)))
	}
	h.want(done, h.save(all...))
	h = h.other(s.open())
	h.load() // the model knows what there is
}

// progressAtomic: of a job that was never stored nothing can be saved, nor of
// those beside it (B3).
func progressAtomic(s *store) {
	h := s.attempts()
	h.next("a", "b")
	h.want(done, h.save(attempt("a", 2)))
	h.want(conflict, h.save(attempt("never", 1)))
	h.want(conflict, h.save(attempt("a", 3), attempt("never", 1), attempt("b", 3)))
	h.want(conflict, h.save(attempt("b", 3), attempt("never", 1)))
	h.want(conflict, h.save(attempt("never", 1), dropping("a")))
	h = h.other(s.open())
	h.wantJobs(h.load(), 2, "a?", "b?")
	h.want(done, h.save(attempt("b", 4), attempt("a", 5)))
	h = h.other(s.open())
	h.wantJobs(h.load(), 2, "a?", "b?")
}

// progressOfCompacted: progress that comes too late changes nothing, does not
// bring the job back, and is not the next one's of that MessageID (B3).
func progressOfCompacted(s *store) {
	h := s.attempts()
	h.next("a", "b")
	h.want(done, h.save(attempt("a", 2)))
	h.finish("a")
	h.want(done, h.save(attempt("a", 3)))
	h.want(done, h.save(attempt("b", 2), dropping("a")))
	h.wantKnown(h.put("a", 3, text("again")), 1, false)
	h = h.other(s.open())
	h.wantJobs(h.load(), 2, "b?")
	if r := h.put("a", 3, text("again")); !r.results[0].already {
		h = h.other(s.open())
		h.wantJobs(h.load(), 3, "b?", "a?") // the model wants no progress of a
	}
}

// progressFenced: nothing that an older writer saves is kept (rule 65, B3).
func progressFenced(s *store) {
	old := s.attempts()
	old.next("a")
	young := old.other(s.open())
	young.load()
	old.want(fenced, old.save(attempt("a", 9)))
	old.want(fenced, old.save(attempt("never", 9)))
	old.want(fenced, old.save())
	young.wantJobs(young.load(), 1, "a?")
	young.want(done, young.save(attempt("a", 2)))
	young.load()
}

// droppedKnown: whoever submits a job again that was given up is told so, as
// long as it is known (B3).
func droppedKnown(s *store) {
	h := s.attempts()
	h.next("dropped", "dead", "redriven", "waits", "done")
	dead := progress("dead", workpull.ProgressCounts{Attempt: 4}, nil, time.Time{}, workpull.FateDead)
	h.want(done, h.save(dropping("dropped"), dead, dropping("redriven"), dropping("waits")))
	h.wantKnown(h.put("waits", 0, text("x")), 4, false) // it is not confirmed yet
	h.want(done, h.save(attempt("redriven", 1)))
	h.want(done, h.confirm("dropped"))
	h.wantKnown(h.put("dropped", 0, text("x")), 1, true)
	h = h.other(s.open())
	h.load()
	h.wantKnown(h.put("dropped", 0, text("x")), 1, true) // confirmed and not accepted
	h.want(done, h.accept("dropped"))
	h.wantKnown(h.put("dropped", 0, text("x")), 1, true) // in this epoch
	h.finish("dead", "redriven", "done")
	h.want(done, h.accept("waits"))
	h.want(done, h.confirm("waits"))
	for id, sequence := range map[string]uint64{"dead": 2, "redriven": 3, "done": 5} {
		h.wantKnown(h.put(id, 0, text("x")), sequence, false)
	}
	h.wantKnown(h.put("waits", 0, text("x")), 4, true)
}
