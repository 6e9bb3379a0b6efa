package sim

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpull/operator/internal/race"
)

// What the suite plays when nobody says anything else, and how many steps that
// has to be. The floors of faultTable and sightTable are for so many seeds.
const (
	fullSeeds = 1_000
	fullSteps = 2_000_000
)

// defaultSeeds are fewer under the race detector, which makes a run ten times as
// long and finds nothing in code of one goroutine: CI plays fullSeeds without it
// (make sim).
func defaultSeeds() uint64 {
	if race.Enabled {
		return 60
	}
	return fullSeeds
}

var (
	seed     = flag.Uint64("seed", 0, "play this seed only, and print what happened")
	only     = flag.String("only", "", "with -seed: the faults to play, as a report names them")
	seeds    = flag.Uint64("seeds", defaultSeeds(), "how many seeds to play")
	first    = flag.Uint64("first", 1, "the first seed")
	duration = flag.Duration("duration", 0, "play for so long, however many seeds that is")
	parallel = flag.Int("parallel", 1, "how many seeds at once; 0 is one for each processor")
	minimise = flag.Duration("minimise", 20*time.Second, "how long to look for a shorter history when an invariant breaks")
)

// TestSeeds plays many histories with faults. One that breaks an invariant
// prints the command that replays it and the shortest history that was found
// to break it. Every kind of fault has to strike, and what follows from them
// has to be seen, often enough.
func TestSeeds(t *testing.T) {
	if *seed != 0 {
		replay(t, *seed)
		return
	}
	sum := play(t)
	t.Logf("%d steps in %d seeds\nfaults: %s\nseen: %s", sum.steps, sum.seeds, sum.faults(), sum.sights())
	if t.Failed() || sum.seeds < 50 {
		return
	}
	if sum.seeds >= fullSeeds && sum.steps < fullSteps {
		t.Errorf("%d seeds took %d steps, wanted %d", sum.seeds, sum.steps, fullSteps)
	}
	for kind, n := range sum.count {
		if least := faultTable[kind].floor * sum.seeds / fullSeeds; n < least {
			t.Errorf("broken invariant: %s strikes often enough\n%d times in %d seeds, wanted %d", FaultKind(kind), n, sum.seeds, least)
		}
	}
	for sight, n := range sum.seen {
		if least := sightTable[sight].floor * sum.seeds / fullSeeds; n < least {
			t.Errorf("broken invariant: %s is seen often enough\n%d times in %d seeds, wanted %d", sightTable[sight].name, n, sum.seeds, least)
		}
	}
}

func replay(t *testing.T, seed uint64) {
	opt := OptionsFor(seed)
	if *only != "" {
		keys, err := ParseKeys(*only)
		if err != nil {
			t.Fatal(err)
		}
		opt.Only = keys
	}
	w, err := run(opt, true)
	var broken *Broken
	switch {
	case errors.As(err, &broken) && *only == "":
		t.Error(Report(opt, broken, *minimise))
	case err != nil:
		t.Errorf("%s\nbroken: %v", strings.Join(w.Trace, "\n"), err)
	default:
		t.Log(strings.Join(w.Trace, "\n"))
	}
}

// tally sums up runs.
type tally struct {
	steps, seeds int
	count        [faultKinds]int
	seen         [sights]int
}

func (s *tally) add(w *World) {
	s.steps += w.Steps
	s.seeds++
	for i, n := range w.Count {
		s.count[i] += n
	}
	for i, n := range w.Seen {
		s.seen[i] += n
	}
}

func (s *tally) faults() string {
	var b strings.Builder
	for kind, n := range s.count {
		writeCount(&b, FaultKind(kind).String(), n)
	}
	return b.String()
}

func (s *tally) sights() string {
	var b strings.Builder
	for sight, n := range s.seen {
		writeCount(&b, sightTable[sight].name, n)
	}
	return b.String()
}

func writeCount(b *strings.Builder, name string, n int) {
	if b.Len() > 0 {
		b.WriteString(", ")
	}
	fmt.Fprintf(b, "%s %d", name, n)
}

// play plays the seeds until one breaks an invariant.
func play(t *testing.T) *tally {
	n := *parallel
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	var (
		sum    tally
		mu     sync.Mutex
		group  sync.WaitGroup
		next   atomic.Uint64
		broken atomic.Bool
	)
	started := time.Now()
	for range n {
		group.Go(func() {
			for !broken.Load() {
				s := next.Add(1) - 1
				if *duration > 0 && time.Since(started) > *duration || *duration == 0 && s >= *seeds {
					return
				}
				opt := OptionsFor(*first + s)
				w, err := Run(opt)
				mu.Lock()
				sum.add(w)
				mu.Unlock()
				var b *Broken
				switch {
				case errors.As(err, &b):
					if !broken.Swap(true) {
						t.Error(Report(opt, b, *minimise))
					}
				case err != nil:
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return &sum
}

// TestSameSeedSameHistory is what a replay rests on.
func TestSameSeedSameHistory(t *testing.T) {
	for s := uint64(1); s <= 8; s++ {
		a, errA := run(OptionsFor(s), true)
		b, errB := run(OptionsFor(s), false)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.digest != b.digest || a.Steps != b.Steps || !slices.Equal(a.Faults, b.Faults) {
			t.Fatalf("two runs of seed %d differ", s)
		}
	}
}

// TestCalm: without faults no job runs twice and nothing is requeued or
// rejected, and the queue gives no cause for anything. A job may be sent twice,
// when a heartbeat's answer crosses it.
func TestCalm(t *testing.T) {
	for s := uint64(1); s <= 20; s++ {
		opt := OptionsFor(s)
		opt.Faulty = 0
		w, err := Run(opt)
		if err != nil {
			t.Fatalf("seed %d: %v", s, err)
		}
		sn := w.core.Snapshot(w.now)
		if w.Seen[Failures]+w.Seen[Resets]+w.Seen[StaleAnswers]+w.Seen[ResubmittedDone] != 0 {
			t.Errorf("seed %d: the lane fails %d times and begins anew %d times in calm weather", s, w.Seen[Failures], w.Seen[Resets])
		}
		if sn.Requeued != 0 || sn.Rejected != 0 || w.Seen[SecondRuns] != 0 {
			t.Errorf("seed %d: requeued %d, rejected %d, run twice %d in calm weather", s, sn.Requeued, sn.Rejected, w.Seen[SecondRuns])
		}
	}
}
