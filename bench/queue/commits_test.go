package main

import (
	"errors"
	"testing"
	"time"

	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/workpull"
)

// A watched queue notes what was committed, and nothing of what was refused.
func TestCommitsAreNoted(t *testing.T) {
	defer memory.Drop(t.Name())
	w := &watched{wholeQueue: memory.New(t.Name())}
	begun := time.Now()
	if err := play(t.Context(), w, history); err != nil {
		t.Fatal(err)
	}
	ended := time.Now()
	stale, err := workpull.NewQueueEpoch(99)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(t.Context(), stale, workpull.WorkBatch{}); !errors.Is(err, workpull.ErrQueueFenced) {
		t.Errorf("error %v of a stale epoch, want ErrQueueFenced", err)
	}
	noted := w.between(begun, ended)
	if len(noted) != len(history) || len(w.commits) != len(history) {
		t.Fatalf("%d commits noted, %d of them in time, want %d", len(w.commits), len(noted), len(history))
	}
	for i, c := range noted {
		want := history[i]
		if c.stores != want.stores || c.accepts != want.accepts || c.confirms != want.confirms || c.ended.IsZero() {
			t.Errorf("commit %d: %+v, want the sizes of %+v", i, c, want)
		}
	}
	if late := w.between(noted[4].ended, ended); len(late) != len(history)-5 {
		t.Errorf("%d commits after the fifth, want %d", len(late), len(history)-5)
	}
}

func TestCommitsAreDescribed(t *testing.T) {
	commits := []commit{
		{stores: 1, accepts: 2, confirms: 3, took: time.Millisecond},
		{stores: 2, accepts: 2, confirms: 6, took: 3 * time.Millisecond},
	}
	want := "4 commits a second, each of 1.5 stores, 2.0 accepts and 4.5 confirmations on average and 2.00 ms, under way for 1% of the time"
	if got := describe(commits, 500*time.Millisecond); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := describe(nil, time.Second); got != "no commits" {
		t.Errorf("got %q of none", got)
	}
}

// A queue that was filled has that many jobs waiting, all of them accepted.
func TestFill(t *testing.T) {
	defer memory.Drop(t.Name())
	queue := memory.New(t.Name())
	const count = 5000 // more than one batch
	if err := fill(t.Context(), queue, count); err != nil {
		t.Fatal(err)
	}
	state, _, err := queue.Load(t.Context())
	if err != nil || state.Len() != count {
		t.Fatalf("%d jobs, error %v; want %d", state.Len(), err, count)
	}
	for _, m := range state.Messages() {
		if !m.Accepted() || len(m.MessageID()) != 26 {
			t.Fatalf("job %q, accepted %v: want one that is, with 26 characters", m.MessageID(), m.Accepted())
		}
	}
}
