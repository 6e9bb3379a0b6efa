package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// sabotaged breaks an invariant once a duplicate and, after it, a crash have
// struck, whatever else did.
func sabotaged(w *World) {
	for i, f := range w.Faults {
		if f.Kind == Duplicate && slices.ContainsFunc(w.Faults[i:], func(g Fault) bool { return g.Kind == Crash }) {
			w.fail("sabotage", "a crash after a duplicate")
			return
		}
	}
}

// brokenRun is a run that the sabotage breaks after many other faults.
func brokenRun(t *testing.T) (Options, *Broken, *World) {
	t.Helper()
	for seed := uint64(1); seed < 100; seed++ {
		opt := OptionsFor(seed)
		opt.sabotage = sabotaged
		w, err := Run(opt)
		var broken *Broken
		if errors.As(err, &broken) && len(w.Faults) > 20 {
			return opt, broken, w
		}
	}
	t.Fatal("no seed has a crash after a duplicate and twenty faults")
	return Options{}, nil, nil
}

// TestMinimise: of all the faults of a broken run those remain that break it.
func TestMinimise(t *testing.T) {
	opt, broken, w := brokenRun(t)
	if broken.Invariant != "sabotage" {
		t.Fatalf("broken: %v", broken)
	}
	faults := Minimise(opt, time.Hour)
	if len(faults) != 2 || faults[0].Kind != Duplicate || faults[1].Kind != Crash {
		t.Fatalf("%d faults were left of %d, wanted a duplicate and a crash: %v", len(faults), len(w.Faults), faults)
	}
}

// TestReport: the command and the short trace are there, and what the report
// names breaks the same invariant when it is played alone.
func TestReport(t *testing.T) {
	opt, broken, _ := brokenRun(t)
	report := Report(opt, broken, time.Hour)
	for _, part := range []string{
		fmt.Sprintf("go test ./workpull/internal/sim -run TestSeeds -v -args -seed %d\n", opt.Seed),
		"broken invariant: sabotage\n", "2 faults are enough", "FAULT duplicate", "FAULT crash", "BROKEN sabotage",
	} {
		if strings.Count(report, part) != 1 {
			t.Errorf("the report holds %q %d times, wanted once", part, strings.Count(report, part))
		}
	}
	_, rest, _ := strings.Cut(report, "with -only ")
	line, _, _ := strings.Cut(rest, "\n")
	alone, err := ParseKeys(line)
	if err != nil || len(alone) != 2 {
		t.Fatalf("%q names %d faults: %v", line, len(alone), err)
	}
	opt.Only = alone
	w, err := Run(opt)
	var again *Broken
	if !errors.As(err, &again) || again.Invariant != "sabotage" || len(w.Faults) != 2 {
		t.Fatalf("played alone: %v after %v", err, w.Faults)
	}
	if t.Failed() {
		t.Log(report)
	}
}

// TestBudget: with no time left the minimiser returns what it was given.
func TestBudget(t *testing.T) {
	opt, _, w := brokenRun(t)
	if faults := Minimise(opt, 0); !slices.Equal(faults, w.Faults) {
		t.Fatalf("%d faults were left of %d without any time", len(faults), len(w.Faults))
	}
}

func TestParseKeys(t *testing.T) {
	got, err := ParseKeys("3.17,42.0")
	if err != nil || len(got) != 2 || !got[Key{3, 17}] || !got[Key{42, 0}] {
		t.Fatalf("got %v: %v", got, err)
	}
	for _, text := range []string{"", "3", "3.x", "x.3", "1.2,"} {
		if _, err := ParseKeys(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
