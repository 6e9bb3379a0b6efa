package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
)

// brief is just long enough for every part of every experiment to be reached.
var brief = extent{
	Span:    testbed.Span{Warm: 20 * time.Millisecond, Steady: 200 * time.Millisecond},
	samples: 50,
	before:  300 * time.Millisecond, during: 300 * time.Millisecond,
	arrivals: 300,
	crowds:   []int{10},
}

// TestMain lets the test binary be the processes that experiments start.
func TestMain(m *testing.M) {
	c := command(brief)
	if !c.Starts(os.Args[1:]) {
		os.Exit(m.Run())
	}
	if err := c.Start(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Every experiment runs, in processes of its own, and fills its rows.
func TestEveryMeasureIsTaken(t *testing.T) {
	everything := regexp.MustCompile("")
	s := series.Series{Runs: 1, Profiles: t.TempDir(), Experiments: experiments(brief, 1)}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range s.Experiments {
		for _, m := range e.Measures {
			want = append(want, m.Name)
		}
	}
	rows := s.Rows(everything)
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, r := range rows {
		if r.Measure != want[i] || r.Runs != 1 || r.Value <= 0 {
			t.Errorf("row %+v, want a run of %s with a value", r, want[i])
		}
	}
	if notes := s.Notes(); len(notes) != 2 {
		t.Errorf("notes %q, want one on allocations and one on arrivals", notes)
	}
	for _, e := range s.Experiments {
		for _, end := range []string{".1.cpu.prof", ".1.alloc.prof"} {
			if info, err := os.Stat(filepath.Join(s.Profiles, series.Slug(e.Name)+end)); err != nil || info.Size() == 0 {
				t.Errorf("profile of %s: %v", e.Name, err)
			}
		}
	}
	if found, err := filepath.Glob(filepath.Join(s.Profiles, "*.1.worker-1.cpu.prof")); err != nil || len(found) != 3 {
		t.Errorf("profiles %q of second workers: wanted those of three experiments", found)
	}
}

// A frozen worker process stands still, and is ended all the same.
func TestAFrozenWorkerIsEnded(t *testing.T) {
	n, err := testbed.StartRemote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := n.Produce(t.Context(), testbed.NewSource()); err != nil {
		t.Fatal(err)
	}
	c, err := startCrew(t.Context(), new(series.Run), 2, workerConfig{producer: n.Port, window: 10, work: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	doMore := func(c crew) {
		t.Helper()
		first, err := c.sum()
		if err != nil {
			t.Fatal(err)
		}
		if err := testbed.Until(t.Context(), func() (bool, error) { last, err := c.sum(); return last.Done > first.Done, err }); err != nil {
			t.Fatalf("no more jobs are done: %v", err)
		}
	}
	doMore(c[:1])
	if err := c[0].freeze(); err != nil {
		t.Fatal(err)
	}
	err = testbed.Until(t.Context(), func() (bool, error) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c[0].cmd.Process.Pid))
		return strings.Contains(string(stat), ") T "), err
	})
	if err != nil {
		t.Errorf("the worker process is not stopped: %v", err)
	}
	doMore(c[1:])
	if err := c.stop(); err != nil {
		t.Error(err)
	}
	for _, p := range c {
		if p.cmd.ProcessState == nil || !p.cmd.ProcessState.Success() {
			t.Errorf("worker process ended as %v, want with success", p.cmd.ProcessState)
		}
	}
}

// A run that fails is reported and costs only its own values.
func TestAFailedRunIsReported(t *testing.T) {
	all := experiments(brief, 1)
	unknown := series.Experiment{Name: "unknown", Measures: []series.Measure{{Name: "unknown", Unit: "s", Better: series.Lower}}}
	s := series.Series{Runs: 1, Experiments: []series.Experiment{unknown, all[0]}}
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "unknown, run 1") {
		t.Errorf("error %v, want one that names the run", err)
	}
	if rows := s.Rows(regexp.MustCompile("")); len(rows) != 4 {
		t.Errorf("%d rows, want the 4 of the other experiment", len(rows))
	}
}

func TestChooseKeepsWhatAPercentageRefersTo(t *testing.T) {
	all := experiments(full, 1)
	names := func(pattern string) (names []string) {
		for _, e := range series.Choose(all, regexp.MustCompile(pattern)) {
			names = append(names, e.Name)
		}
		return names
	}
	want := []string{"one node, 4 workers, window 50, 64 credits", "one node, 100 workers, window 50, 64 credits"}
	if got := names("100 workers.*64 credits"); !slices.Equal(got, want) {
		t.Errorf("chose %q, want %q", got, want)
	}
	if got := names("latency, same node, p99"); !slices.Equal(got, []string{"latency, same node"}) {
		t.Errorf("chose %q, want the latency on one node", got)
	}
	if got := names("nothing"); got != nil {
		t.Errorf("chose %q, want nothing", got)
	}
	if got := names(""); len(got) != len(all) {
		t.Errorf("chose %d of %d", len(got), len(all))
	}
}
