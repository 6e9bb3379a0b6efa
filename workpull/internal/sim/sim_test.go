package sim

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", 0, "play this seed only, and print its trace")
	seeds = flag.Uint64("seeds", 300, "how many seeds to play")
	first = flag.Uint64("first", 1, "the first seed")
)

func options(seed uint64) Options {
	return Options{
		Workers: 1 + int(seed%6), Jobs: 250, Window: []int{1, 2, 7, 50}[seed%4],
		Credits: []int{1, 1, 8}[seed%3], StoreAhead: []int{0, 20}[seed%2],
		Attempts: []int{0, 1, 3}[seed%3], Steps: 3000, Faults: true,
	}
}

// TestSeeds plays many histories with faults. What breaks prints the command
// that replays it.
func TestSeeds(t *testing.T) {
	if *seed != 0 {
		w, err := Run(*seed, options(*seed))
		t.Log("\n" + strings.Join(w.Trace, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	var sum Strikes
	recalls, late, dead := 0, 0, 0
	for s := *first; s < *first+*seeds; s++ {
		w, err := Run(s, options(s))
		if err != nil {
			t.Fatalf("seed %d: %v\nreplay: go test ./workpull/internal/sim -run TestSeeds -v -seed %d", s, err, s)
		}
		sum = add(sum, w.Strikes)
		recalls += w.Recalls
		late += w.Late
		dead += w.Dead
	}
	t.Logf("%+v recalls:%d late confirmations:%d dead letters:%d", sum, recalls, late, dead)
	if recalls < 100 || late < 20 || dead < 20 {
		t.Errorf("%d recalls, %d late confirmations, %d dead letters: the histories show little of them", recalls, late, dead)
	}
	for name, n := range map[string]int{
		"drop": sum.Drop, "duplicate": sum.Duplicate, "reorder": sum.Reorder, "send failure": sum.SendFailure,
		"crash": sum.Crash, "restart": sum.Restart, "pause": sum.Pause, "panic": sum.Panic,
		"rejection": sum.Rejection, "drain": sum.Drain, "silence": sum.Silence,
	} {
		if n < 20 {
			t.Errorf("the fault %q struck %d times only: the histories show little of it", name, n)
		}
	}
}

// TestSameSeedSameHistory is what a replay rests on.
func TestSameSeedSameHistory(t *testing.T) {
	a, errA := Run(3, options(3))
	b, errB := Run(3, options(3))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if strings.Join(a.Trace, "\n") != strings.Join(b.Trace, "\n") {
		t.Fatal("two runs of one seed differ")
	}
}

// TestCalm: without faults no job runs twice and nothing is requeued.
func TestCalm(t *testing.T) {
	w, err := Run(1, Options{Workers: 4, Jobs: 500, Window: 10, Credits: 4, StoreAhead: 50})
	if err != nil {
		t.Fatal(err)
	}
	if s := w.producer.Snapshot(time.Hour); s.Requeued != 0 || s.Rejected != 0 {
		t.Fatalf("requeued %d, rejected %d in calm weather", s.Requeued, s.Rejected)
	}
}

func add(a, b Strikes) Strikes {
	a.Drop += b.Drop
	a.Duplicate += b.Duplicate
	a.Reorder += b.Reorder
	a.SendFailure += b.SendFailure
	a.Crash += b.Crash
	a.Restart += b.Restart
	a.Pause += b.Pause
	a.Panic += b.Panic
	a.Rejection += b.Rejection
	a.Drain += b.Drain
	a.Silence += b.Silence
	return a
}
