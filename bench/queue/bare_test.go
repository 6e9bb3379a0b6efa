package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/workpull"
)

// history of commits: jobs are accepted and confirmed later than they are
// stored, or at once, whole spans of marks go, and some jobs stay in each state.
var history = []commit{
	{stores: 1}, {accepts: 1, confirms: 1}, {stores: 700}, {stores: 300, accepts: 600},
	{stores: 200, accepts: 300, confirms: 500}, {accepts: 200}, {stores: 1000, accepts: 100, confirms: 650},
	{stores: 1200, accepts: 1500, confirms: 1100}, {stores: 10, accepts: 20, confirms: 30},
}

// shape is what a store holds: how many rows there are of each tag and sizes, and
// the rows themselves where no MessageID and no payload is in them.
type shape map[string]int

func shapeOf(t *testing.T, path string) shape {
	t.Helper()
	b, err := openBare(path)
	if err != nil {
		t.Fatal(err)
	}
	found := shape{}
	for _, tag := range []byte("mipbfgdc") {
		err := b.each(tag, func(key, value []byte) error {
			row := fmt.Sprintf("%c, %d bytes: %d bytes", tag, len(key), len(value))
			if tag == 'm' || tag == 'b' {
				row = fmt.Sprintf("%c, %x: %x", tag, key, value)
			}
			found[row]++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	return found
}

// play makes the commits of a history through a queue, with jobs accepted and
// confirmed in the order in which they were stored.
func play(ctx context.Context, queue workpull.BatchWorkQueue, commits []commit) error {
	_, epoch, err := queue.Load(ctx)
	if err != nil {
		return err
	}
	made := newJobs()
	var unaccepted, waiting []string
	for _, c := range commits {
		var stores []workpull.StoreRequest
		for range c.stores {
			r, err := made.request()
			if err != nil {
				return err
			}
			stores = append(stores, r)
			unaccepted = append(unaccepted, r.MessageID())
		}
		accepts := unaccepted[:c.accepts]
		waiting, unaccepted = append(waiting, accepts...), unaccepted[c.accepts:]
		confirms := waiting[:c.confirms]
		waiting = waiting[c.confirms:]
		if _, err := queue.Commit(ctx, epoch, workpull.NewWorkBatch(stores, accepts, confirms)); err != nil {
			return err
		}
	}
	return nil
}

// After each commit the bare loop's store holds what the queue's does, byte for
// byte but for what is random.
func TestTheBareLoopWritesWhatTheQueueWrites(t *testing.T) {
	for n := 1; n <= len(history); n++ {
		theirs, ours := t.TempDir(), t.TempDir()
		queue := pebble.New(theirs)
		if err := errors.Join(play(t.Context(), queue, history[:n]), queue.Close()); err != nil {
			t.Fatal(err)
		}
		queue = pebble.New(ours)
		if err := errors.Join(play(t.Context(), queue, nil), queue.Close()); err != nil {
			t.Fatal(err)
		}
		b, err := openBare(ours)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range history[:n] {
			if err := b.commit(c.stores, c.accepts, c.confirms); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		want, got := shapeOf(t, theirs), shapeOf(t, ours)
		if !maps.Equal(got, want) {
			t.Fatalf("after %d commits the bare loop's store differs from the queue's:\n%v\n%v", n, got, want)
		}
	}
}

// The bare loop finds the jobs that the queue left, in each state, and goes on
// with them.
func TestTheBareLoopGoesOnWhereTheQueueEnded(t *testing.T) {
	whole, halves := t.TempDir(), t.TempDir()
	queue := pebble.New(whole)
	if err := errors.Join(play(t.Context(), queue, history), queue.Close()); err != nil {
		t.Fatal(err)
	}
	const half = 5
	queue = pebble.New(halves)
	if err := errors.Join(play(t.Context(), queue, history[:half]), queue.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := openBare(halves)
	if err != nil {
		t.Fatal(err)
	}
	rate, err := b.repeat(t.Context(), history[half:])
	if err := errors.Join(err, b.close()); err != nil || rate <= 0 {
		t.Fatalf("rate %v, error %v", rate, err)
	}
	if want, got := shapeOf(t, whole), shapeOf(t, halves); !maps.Equal(got, want) {
		t.Errorf("the store differs from one that the queue wrote alone:\n%v\n%v", got, want)
	}
}

// The bare Pebble has the queue's options.
func TestTheBareLoopHasTheOptionsOfTheQueue(t *testing.T) {
	path := t.TempDir()
	queue := pebble.New(path, pebble.WithMemory(3<<20), pebble.WithCache(5<<20))
	if err := errors.Join(play(t.Context(), queue, history), queue.Close()); err != nil {
		t.Fatal(err)
	}
	options := func() []byte {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(path, "OPTIONS-*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("options %v, error %v", files, err)
		}
		text, err := os.ReadFile(slices.Max(files))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	want := options()
	b, err := openBare(path)
	if err != nil {
		t.Fatal(err)
	}
	got := options()
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("options\n%s\nwant\n%s", got, want)
	}
}

// What the store does not have enough of for one commit, the next makes up for.
func TestTheBareLoopOwesWhatIsNotThere(t *testing.T) {
	path := t.TempDir()
	queue := pebble.New(path)
	if err := errors.Join(play(t.Context(), queue, nil), queue.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := openBare(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.repeat(t.Context(), []commit{{accepts: 3, confirms: 2}, {stores: 4}, {accepts: 1}}); err != nil {
		t.Error(err)
	}
	if len(b.unaccepted) != 0 || len(b.waiting) != 2 {
		t.Errorf("%d jobs are not accepted and %d wait, want 0 and 2", len(b.unaccepted), len(b.waiting))
	}
	rate, err := b.oneByOne(t.Context(), 50*time.Millisecond)
	if err := errors.Join(err, b.close()); err != nil || rate <= 0 || len(b.waiting) != 0 {
		t.Errorf("rate %v, %d jobs wait, error %v; want a rate and no job", rate, len(b.waiting), err)
	}
}
