package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
)

// brief is just long enough for every part of every experiment to be reached,
// and the backlog longer than the jobs that are stored ahead.
var brief = extent{
	Span:    testbed.Span{Warm: 50 * time.Millisecond, Steady: 500 * time.Millisecond},
	backlog: 3 * ahead / 2,
	name:    "a few thousand",
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

// Every experiment runs, in processes of its own and on real stores, and fills
// its rows; no store is left behind.
func TestEveryMeasureIsTaken(t *testing.T) {
	dir := t.TempDir()
	s := series.Series{Runs: 1, Profiles: t.TempDir(), Arguments: []string{"-dir=" + dir}, Experiments: experiments(brief, dir)}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, e := range s.Experiments {
		for _, m := range e.Measures {
			want = append(want, m.Name)
		}
	}
	rows := s.Rows(regexp.MustCompile(""))
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, r := range rows {
		if r.Measure != want[i] || r.Runs != 1 || r.Value <= 0 {
			t.Errorf("row %+v, want a run of %s with a value", r, want[i])
		}
	}
	for _, e := range s.Experiments {
		for _, end := range []string{".1.cpu.prof", ".1.alloc.prof"} {
			if info, err := os.Stat(filepath.Join(s.Profiles, series.Slug(e.Name)+end)); err != nil || info.Size() == 0 {
				t.Errorf("profile of %s: %v", e.Name, err)
			}
		}
		if !strings.Contains(strings.Join(s.Notes(), "\n"), e.Name+": ") {
			t.Errorf("no note on %s", e.Name)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left in the folder of the stores, error %v", left, err)
	}
}

// The table has the bars that the queues are to reach.
func TestBars(t *testing.T) {
	want := map[string]float64{
		"Pebble, 256 credits, empty queue":                                40_000,
		"Pebble, 256 credits, empty queue: of the bare Pebble loop":       60,
		"Pebble, 256 credits, a million waiting":                          25_000,
		"Pebble, 256 credits, a million waiting: of the bare Pebble loop": 60,
		"Pebble, 1 credit: of the bare Pebble loop":                       60,
		"PostgreSQL, 256 credits":                                         20_000,
		"Pebble, reload of a million waiting: to the first dispatch":      3,
		"Pebble, reload of a million waiting: memory":                     250,
	}
	for _, e := range experiments(full, "") {
		for _, m := range e.Measures {
			if m.Bar != want[m.Name] {
				t.Errorf("%s has the bar %v, want %v", m.Name, m.Bar, want[m.Name])
			}
			delete(want, m.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("no measures %v", want)
	}
}

func TestAStageReportsAsATestDoes(t *testing.T) {
	s := new(stage)
	var order []int
	err := s.play(func() {
		s.Helper()
		s.Cleanup(func() { order = append(order, 1) })
		s.Cleanup(func() { order = append(order, 2) })
		s.Errorf("a remark on %d", 7)
		s.Fatalf("cannot do %d", 8)
		t.Error("went on after Fatalf")
	})
	if err == nil || err.Error() != "cannot do 8" {
		t.Errorf("error %v, want that of Fatalf", err)
	}
	if err := s.end(); err == nil || err.Error() != "a remark on 7" {
		t.Errorf("error %v at the end, want that of Errorf", err)
	}
	if len(order) != 2 || order[0] != 2 {
		t.Errorf("cleaned up in the order %v, want the latest first", order)
	}
}
