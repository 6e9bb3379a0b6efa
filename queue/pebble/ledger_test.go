package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/workpull"
)

// patience is how long an operation may take before it counts as hung.
const patience = 20 * time.Second

// noted is what a queue has to know of a job.
type noted struct {
	sequence            uint64
	accepted, confirmed bool
}

// held are the jobs that are not compacted, by MessageID, and the cursor.
type held struct {
	cursor uint64
	jobs   map[string]noted
}

// ledger writes down what a queue was told to do, batch by batch, apart from the
// queue: all states that it may have had.
type ledger struct {
	states []held // states[n] is after n batches
	dice   *rand.Rand
	next   int
	size   int // of payloads
	// onlyStores leaves out the marks.
	onlyStores bool
}

func newLedger(seed uint64, size int) *ledger {
	return &ledger{states: []held{{jobs: map[string]noted{}}}, dice: rand.New(rand.NewPCG(seed, 1)), size: size}
}

// payloadFor is a payload that tells whose it is and can hardly be compressed.
func payloadFor(id string, size int) workpull.ReliablePayload {
	value := make([]byte, size)
	seed := [32]byte{}
	copy(seed[:], id)
	rand.NewChaCha8(seed).Read(value) //nolint:errcheck // it never fails
	p, err := workpull.NewReliablePayload("type.test/"+id, value)
	if err != nil {
		panic(err)
	}
	return p
}

// batch makes up the next batch and notes the state that it leads to.
func (l *ledger) batch() workpull.WorkBatch {
	now := l.states[len(l.states)-1]
	then := held{now.cursor, maps.Clone(now.jobs)}
	var stores []workpull.StoreRequest
	var accepts, confirms []string
	for range 1 + l.dice.IntN(8) {
		l.next++
		id := fmt.Sprintf("job %d", l.next)
		request, err := workpull.NewStoreRequest(id, 0, payloadFor(id, l.size))
		if err != nil {
			panic(err)
		}
		stores = append(stores, request)
		then.cursor++
		then.jobs[id] = noted{sequence: then.cursor}
	}
	var ids []string
	if !l.onlyStores {
		ids = slices.Sorted(maps.Keys(then.jobs)) // the same in each run
	}
	note := func(n int, set func(*noted)) (noted []string) {
		for range min(n, len(ids)) {
			id := ids[l.dice.IntN(len(ids))]
			j, ok := then.jobs[id]
			if !ok {
				continue
			}
			set(&j)
			then.jobs[id] = j
			noted = append(noted, id)
		}
		return noted
	}
	accepts = note(l.dice.IntN(12), func(j *noted) { j.accepted = true })
	confirms = note(l.dice.IntN(12), func(j *noted) { j.confirmed = true })
	for id, j := range then.jobs {
		if j.accepted && j.confirmed {
			delete(then.jobs, id)
		}
	}
	l.states = append(l.states, then)
	return workpull.NewWorkBatch(stores, accepts, confirms)
}

// done is how many batches were made.
func (l *ledger) done() int { return len(l.states) - 1 }

// matches tells whether a loaded state is that after n batches.
func (l *ledger) matches(n int, state workpull.WorkQueueState) bool {
	want := l.states[n]
	unconfirmed := 0
	for _, j := range want.jobs {
		if !j.confirmed {
			unconfirmed++
		}
	}
	if state.Cursor() != want.cursor || state.Len() != unconfirmed {
		return false
	}
	for _, m := range state.Messages() {
		j, ok := want.jobs[m.MessageID()]
		if !ok || j.confirmed || j.accepted != m.Accepted() || j.sequence != m.Sequence() {
			return false
		}
	}
	return true
}

// check finds which of the states from..to the queue is in, and that it is whole:
// all payloads are there, and jobs that are confirmed and not accepted are known.
func (l *ledger) check(t *testing.T, q *pebble.Queue, from, to int, afterEpoch uint64) {
	t.Helper()
	ctx := within(t)
	state, epoch, err := q.Load(ctx)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if epoch.Value() <= afterEpoch {
		t.Fatalf("epoch %d after %d", epoch.Value(), afterEpoch)
	}
	n := from
	for n <= to && !l.matches(n, state) {
		n++
	}
	if n > to {
		t.Fatalf("found cursor %d and %d jobs, which is none of the states after %d to %d batches (cursor %d to %d)",
			state.Cursor(), state.Len(), from, to, l.states[from].cursor, l.states[to].cursor)
	}
	for id, j := range l.states[n].jobs {
		request, err := workpull.NewStoreRequest(id, 0, payloadFor("other", 1))
		if err != nil {
			t.Fatal(err)
		}
		result, err := q.Store(ctx, epoch, request)
		if err != nil || !result.AlreadyStored() || result.Sequence() != j.sequence {
			t.Fatalf("store of %s again: %v, already %t, sequence %d, wanted %d", id, err, result.AlreadyStored(), result.Sequence(), j.sequence)
		}
		if want := payloadFor(id, l.size); result.Payload().TypeURL() != want.TypeURL() || !slices.Equal(result.Payload().Value(), want.Value()) {
			t.Fatalf("payload of %s is another", id)
		}
	}
}

// within is a context that ends what hangs.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// loadNew opens an epoch of a queue.
func loadNew(t *testing.T, q *pebble.Queue) workpull.QueueEpoch {
	t.Helper()
	_, epoch, err := q.Load(within(t))
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return epoch
}

func closeQueue(t *testing.T, q *pebble.Queue) {
	t.Helper()
	if err := q.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// refused fails unless all operations of the queue are refused so.
func refused(t *testing.T, q *pebble.Queue, epoch workpull.QueueEpoch, want error) {
	t.Helper()
	request, err := workpull.NewStoreRequest("refused", 1, payloadFor("refused", 1))
	if err != nil {
		t.Fatal(err)
	}
	progress, err := workpull.NewJobProgress("refused", workpull.ProgressCounts{Attempt: 1}, nil, time.Time{}, workpull.FateNone)
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	for name, do := range map[string]func() error{
		"load":     func() error { _, _, err := q.Load(ctx); return err },
		"reload":   func() error { _, _, err := q.Reload(ctx, epoch); return err },
		"store":    func() error { _, err := q.Store(ctx, epoch, request); return err },
		"accept":   func() error { return q.Accept(ctx, epoch, "refused") },
		"confirm":  func() error { return q.ConfirmMessage(ctx, epoch, "refused") },
		"commit":   func() error { _, err := q.Commit(ctx, epoch, workpull.NewWorkBatch(nil, nil, nil)); return err },
		"payloads": func() error { _, err := q.Payloads(ctx, epoch, []string{"refused"}); return err },
		"progress": func() error { return q.SaveProgress(ctx, epoch, []workpull.JobProgress{progress}) },
		"window":   func() error { return q.KeepCompleted(ctx, epoch, time.Hour) },
		"look up":  func() error { _, _, err := q.Completed(ctx, "refused"); return err },
	} {
		if err := do(); !errors.Is(err, want) {
			t.Errorf("%s: %v, wanted %v", name, err, want)
		}
	}
}
