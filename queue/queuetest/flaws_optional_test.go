package queuetest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/workpull/operator/workpull"
)

// SaveProgress, KeepCompleted and Payloads of an unfenced queue.
func (q *unfenced) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	return q.whole.SaveProgress(ctx, q.epoch(epoch), progress)
}

func (q *unfenced) KeepCompleted(ctx context.Context, epoch workpull.QueueEpoch, window time.Duration) error {
	return q.whole.KeepCompleted(ctx, q.epoch(epoch), window)
}

func (q *unfenced) Payloads(ctx context.Context, epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	return q.whole.Payloads(ctx, q.epoch(epoch), ids)
}

// changed are the progresses with something done to their failures.
func changed(progress []workpull.JobProgress, change func([]workpull.FailedAttempt) []workpull.FailedAttempt) ([]workpull.JobProgress, error) {
	var all []workpull.JobProgress
	for _, p := range progress {
		p, err := workpull.NewJobProgress(p.MessageID(), p.Counts(), change(p.Failures()), p.RetryAt(), p.Fate())
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// curt keeps the last 16 failures.
type curt struct{ whole }

func (q *curt) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	progress, err := changed(progress, func(f []workpull.FailedAttempt) []workpull.FailedAttempt { return f[max(0, len(f)-16):] })
	return errors.Join(err, q.whole.SaveProgress(ctx, epoch, progress))
}

// censoring keeps reasons up to what its column cannot hold.
type censoring struct{ whole }

func (q *censoring) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	progress, err := changed(progress, func(failures []workpull.FailedAttempt) []workpull.FailedAttempt {
		for i := range failures {
			failures[i].Reason, _, _ = strings.Cut(failures[i].Reason, "\x00")
		}
		return failures
	})
	return errors.Join(err, q.whole.SaveProgress(ctx, epoch, progress))
}

// stubborn keeps what was saved first.
type stubborn struct {
	whole
	saved sync.Map
}

func (q *stubborn) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	progress = slices.DeleteFunc(slices.Clone(progress), func(p workpull.JobProgress) bool {
		_, before := q.saved.LoadOrStore(p.MessageID(), true)
		return before
	})
	return q.whole.SaveProgress(ctx, epoch, progress)
}

// gradual saves progress one by one.
type gradual struct{ whole }

func (q *gradual) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	for _, p := range progress {
		if err := q.whole.SaveProgress(ctx, epoch, []workpull.JobProgress{p}); err != nil {
			return err
		}
	}
	return nil
}

// lenient saves no progress of what it never heard of, and says nothing.
type lenient struct{ whole }

func (q *lenient) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	err := q.whole.SaveProgress(ctx, epoch, progress)
	if errors.Is(err, workpull.ErrQueueConflict) {
		return nil
	}
	return err
}

// punctual does not take progress of a job that is done.
type punctual struct{ whole }

func (q *punctual) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	for _, p := range progress {
		if _, found, _ := q.Completed(ctx, p.MessageID()); found {
			return workpull.ErrQueueConflict
		}
	}
	return q.whole.SaveProgress(ctx, epoch, progress)
}

// resentful gives up a job whenever it is told so.
type resentful struct {
	whole
	dropped sync.Map
}

func (q *resentful) SaveProgress(ctx context.Context, epoch workpull.QueueEpoch, progress []workpull.JobProgress) error {
	for _, p := range progress {
		if p.Fate() == workpull.FateDropped {
			q.dropped.Store(p.MessageID(), true)
		}
	}
	return q.whole.SaveProgress(ctx, epoch, progress)
}

func (q *resentful) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	result, err := q.whole.Store(ctx, epoch, r)
	if _, dropped := q.dropped.Load(r.MessageID()); dropped && err == nil {
		result = result.AsDropped()
	}
	return result, err
}

// discreet tells nobody that a job was given up.
type discreet struct{ whole }

func (q *discreet) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	result, err := q.whole.Store(ctx, epoch, r)
	if err != nil {
		return result, err
	}
	return workpull.NewStoreResult(result.Sequence(), result.Payload(), result.AlreadyStored())
}

// unmoved sets no window.
type unmoved struct{ whole }

func (q *unmoved) KeepCompleted(ctx context.Context, epoch workpull.QueueEpoch, _ time.Duration) error {
	return q.whole.KeepCompleted(ctx, epoch, 0)
}

// estranged knows completed jobs, but for their marks.
type estranged struct {
	whole
	mu     sync.Mutex
	loaded time.Time
}

func (q *estranged) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loaded = time.Now()
	return q.whole.Load(ctx)
}

func (q *estranged) Accept(ctx context.Context, epoch workpull.QueueEpoch, id string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m, found, _ := q.Completed(ctx, id); found && m.Time().Before(q.loaded) {
		return workpull.ErrQueueConflict
	}
	return q.whole.Accept(ctx, epoch, id)
}

// hoarding forgets nothing for an hour.
type hoarding struct{ whole }

func (q *hoarding) KeepCompleted(ctx context.Context, epoch workpull.QueueEpoch, window time.Duration) error {
	return q.whole.KeepCompleted(ctx, epoch, max(window, time.Hour))
}

// premature takes what is accepted for completed.
type premature struct {
	whole
	accepted sync.Map
}

func (q *premature) Accept(ctx context.Context, epoch workpull.QueueEpoch, id string) error {
	q.accepted.Store(id, true)
	return q.whole.Accept(ctx, epoch, id)
}

func (q *premature) Completed(ctx context.Context, id string) (workpull.CompletedMessage, bool, error) {
	m, found, err := q.whole.Completed(ctx, id)
	if _, accepted := q.accepted.Load(id); accepted && !found && err == nil {
		m, err = workpull.NewCompletedMessage(2, time.Now(), false)
		found = true
	}
	return m, found, err
}

// timeless does not keep when a job was confirmed.
type timeless struct{ whole }

func (q *timeless) Completed(ctx context.Context, id string) (workpull.CompletedMessage, bool, error) {
	m, found, err := q.whole.Completed(ctx, id)
	if !found || err != nil {
		return m, found, err
	}
	m, err = workpull.NewCompletedMessage(m.Sequence(), time.Time{}, m.Dropped())
	return m, true, err
}

// sorting reads payloads in an order of its own.
type sorting struct{ whole }

func (q *sorting) Payloads(ctx context.Context, epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	return q.whole.Payloads(ctx, epoch, slices.Sorted(slices.Values(ids)))
}

// skipping leaves out what it does not know.
type skipping struct{ whole }

func (q *skipping) Payloads(ctx context.Context, epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	var page []workpull.ReliablePayload
	for _, id := range ids {
		switch p, err := q.whole.Payloads(ctx, epoch, []string{id}); {
		case errors.Is(err, workpull.ErrQueueConflict):
		case err != nil:
			return nil, err
		default:
			page = append(page, p...)
		}
	}
	return page, nil
}

// trimming has smaller pages than are asked for.
type trimming struct{ whole }

func (q *trimming) Payloads(ctx context.Context, epoch workpull.QueueEpoch, ids []string) ([]workpull.ReliablePayload, error) {
	return q.whole.Payloads(ctx, epoch, ids[:min(len(ids), workpull.MaxPage-24)])
}

// capped loads no more than a thousand jobs.
type capped struct{ whole }

func (q *capped) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.whole.Load(ctx)
	if err != nil {
		return state, epoch, err
	}
	state, err = workpull.NewWorkQueueState(state.Cursor(), state.Messages()[:min(state.Len(), 1000)])
	return state, epoch, err
}

// timid reloads under the epoch that it has.
type timid struct{ whole }

func (q *timid) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, _, err := q.whole.Reload(ctx, epoch)
	return state, epoch, err
}

// emptied finds only the cursor when it reloads.
type emptied struct{ whole }

func (q *emptied) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.whole.Reload(ctx, epoch)
	if err != nil {
		return state, epoch, err
	}
	state, err = workpull.NewWorkQueueState(state.Cursor(), nil)
	return state, epoch, err
}

// grasping loads for whoever wants to reload.
type grasping struct{ whole }

func (q *grasping) Reload(ctx context.Context, _ workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	return q.Load(ctx)
}

// vengeful begins an epoch before it refuses.
type vengeful struct{ whole }

func (q *vengeful) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, young, err := q.whole.Reload(ctx, epoch)
	if errors.Is(err, workpull.ErrQueueFenced) {
		_, _, again := q.Load(ctx)
		err = errors.Join(err, again)
	}
	return state, young, err
}

// ajar looks at the epoch first and loads later.
type ajar struct{ whole }

func (q *ajar) Reload(ctx context.Context, epoch workpull.QueueEpoch) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	if _, err := q.Commit(ctx, epoch, workpull.WorkBatch{}); err != nil {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, err
	}
	for range 100 {
		runtime.Gosched()
	}
	return q.Load(ctx)
}
