package queuetest_test

import (
	"bytes"
	"context"
	"encoding"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/workpull/operator/queue/memory"
	"github.com/workpull/operator/workpull"
)

// whole is a queue without a flaw.
type whole = memory.Queue

// named lets a flawed queue be made for a store.
func named[Q any, P interface {
	*Q
	workpull.DurableWorkQueue
}](name string) workpull.DurableWorkQueue {
	data, err := memory.New(name).MarshalBinary()
	q := P(new(Q))
	if err == nil {
		err = encoding.BinaryUnmarshaler(q).UnmarshalBinary(data)
	}
	if err != nil {
		panic(err)
	}
	return q
}

// flaws are queues that break one rule each, and the subtest that has to notice.
var flaws = map[string]struct {
	open    func(name string) workpull.DurableWorkQueue
	noticed string
}{
	"answers cross":                 {named[crossing], "rule 64"},
	"older writers go on":           {named[unfenced], "rule 65 epochs"},
	"looked at the epoch too early": {named[tardy], "rule 65 only"},
	"batches are not fenced":        {named[unfenced], "B8 a batch is fenced"},
	"a failed load fences":          {named[hasty], "rule 66"},
	"the cursor goes back":          {named[shrinking], "rule 67 the state"},
	"the cursor is forgotten":       {named[shrinking], "rule 67 reload"},
	"any proposal will do":          {named[obliging], "rule 68"},
	"the last write wins":           {named[overwriting], "rule 69"},
	"unknown jobs are marked":       {named[credulous], "rule 70"},
	"a mark is a conflict twice":    {named[once], "rule 70"},
	"confirmed is done":             {named[eager], "rule 71"},
	"accepted is done":              {named[rash], "rule 71"},
	"jobs are serialized":           {named[talkative], "rule 72"},
	"any bytes are a queue":         {named[gullible], "rule 72"},
	"only the accepted come back":   {named[choosy], "B1 jobs"},
	"half a batch":                  {named[piecemeal], "B8 a batch is all"},
	"a batch from behind":           {named[backward], "B8 a batch goes"},
	"known jobs shift":              {named[shifting], "B8 rule 68"},
	"identifiers end at NUL":        {named[cutting], "identifiers"},
	"large values are cut":          {named[shortening], "large values"},
	"contexts are ignored":          {named[deaf], "contexts"},
	"cut off and stored again":      {named[twofold], "operations that are cut off"},
	"a rare history":                {named[shifting], "histories"},

	"progress is cut short":          {named[curt], "B3 progress is kept"},
	"reasons end at NUL":             {named[censoring], "B3 progress is kept"},
	"the first progress stays":       {named[stubborn], "B3 progress is kept"},
	"progress one by one":            {named[gradual], "B3 progress is saved"},
	"progress of unknown jobs":       {named[lenient], "B3 progress is saved"},
	"late progress is a conflict":    {named[punctual], "B3 progress of what"},
	"late progress gives up":         {named[resentful], "B3 progress of what"},
	"progress is not fenced":         {named[unfenced], "B3 progress is fenced"},
	"dropped is done":                {named[discreet], "B3 a job that was dropped"},
	"dropped before it is confirmed": {named[resentful], "B3 a job that was dropped"},
	"there is no window":             {named[unmoved], "B9 a completed job is known"},
	"completed jobs are strangers":   {named[estranged], "B9 a completed job is known"},
	"dropped is done after a load":   {named[discreet], "B9 a completed job that was dropped"},
	"completed jobs are hoarded":     {named[hoarding], "B9 without a window"},
	"the window does not close":      {named[hoarding], "B9 a short window"},
	"unaccepted jobs are forgotten":  {named[eager], "B9 a short window"},
	"accepted is completed":          {named[premature], "B9 completion"},
	"nobody knows when":              {named[timeless], "B9 completion"},
	"the window is not fenced":       {named[unfenced], "B9 the window"},
	"payloads in any order":          {named[sorting], "B11 payloads come"},
	"unknown payloads are left out":  {named[skipping], "B11 payloads of"},
	"payloads are not fenced":        {named[unfenced], "B11 payloads are fenced"},
	"pages are cut":                  {named[trimming], "B11 a long backlog"},
	"a backlog is cut":               {named[capped], "B11 a long backlog"},
	"a reload begins no epoch":       {named[timid], "B16 the owner"},
	"a reload forgets":               {named[emptied], "B16 the owner"},
	"anybody reloads":                {named[grasping], "B16 nobody"},
	"a refused reload fences":        {named[vengeful], "B16 nobody"},
	"reloads from an earlier look":   {named[ajar], "B16 only"},
}

// crossing keeps the answer to a store where another finds it.
type crossing struct {
	whole
	answer atomic.Pointer[workpull.StoreResult]
}

func (q *crossing) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	result, err := q.whole.Store(ctx, epoch, r)
	if err != nil {
		return result, err
	}
	q.answer.Store(&result)
	for range 100 {
		runtime.Gosched()
	}
	return *q.answer.Load(), nil
}

// unfenced writes under whatever epoch is the latest.
type unfenced struct{ whole }

var latest sync.Map // epochs by ID

func (q *unfenced) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.whole.Load(ctx)
	if err == nil {
		latest.Store(q.ID(), epoch)
	}
	return state, epoch, err
}

func (q *unfenced) epoch(mine workpull.QueueEpoch) workpull.QueueEpoch {
	if now, ok := latest.Load(q.ID()); ok && mine.Value() != 0 {
		return now.(workpull.QueueEpoch)
	}
	return mine
}

func (q *unfenced) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	return q.whole.Store(ctx, q.epoch(epoch), r)
}

func (q *unfenced) Commit(ctx context.Context, epoch workpull.QueueEpoch, b workpull.WorkBatch) ([]workpull.StoreResult, error) {
	return q.whole.Commit(ctx, q.epoch(epoch), b)
}

// tardy looks at the epoch first and writes later.
type tardy struct{ unfenced }

func (q *tardy) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	if _, err := q.whole.Commit(ctx, epoch, workpull.WorkBatch{}); err != nil {
		return workpull.StoreResult{}, err
	}
	for range 100 {
		runtime.Gosched()
	}
	return q.unfenced.Store(ctx, epoch, r)
}

// hasty takes the epoch before it looks whether it may.
type hasty struct{ whole }

func (q *hasty) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.whole.Load(context.WithoutCancel(ctx))
	return state, epoch, errors.Join(err, ctx.Err())
}

// shrinking takes the last job's sequence for the cursor.
type shrinking struct{ whole }

func (q *shrinking) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.whole.Load(ctx)
	if err != nil {
		return state, epoch, err
	}
	cursor := uint64(0)
	if m := state.Messages(); len(m) > 0 {
		cursor = m[len(m)-1].Sequence()
	}
	state, err = workpull.NewWorkQueueState(cursor, state.Messages())
	return state, epoch, err
}

// obliging gives the next sequence, whatever was proposed.
type obliging struct{ whole }

func (q *obliging) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	results, err := q.Commit(ctx, epoch, workpull.NewWorkBatch([]workpull.StoreRequest{r}, nil, nil))
	if err != nil {
		return workpull.StoreResult{}, err
	}
	return results[0], nil
}

// overwriting answers with what was stored last.
type overwriting struct{ whole }

func (q *overwriting) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	result, err := q.whole.Store(ctx, epoch, r)
	if err != nil {
		return result, err
	}
	return workpull.NewStoreResult(result.Sequence(), r.Payload(), result.AlreadyStored())
}

// credulous marks what it never heard of.
type credulous struct{ whole }

func (q *credulous) Accept(ctx context.Context, epoch workpull.QueueEpoch, id string) error {
	err := q.whole.Accept(ctx, epoch, id)
	if errors.Is(err, workpull.ErrQueueConflict) {
		return nil
	}
	return err
}

// once marks a job as confirmed, and knows it no more.
type once struct {
	whole
	confirmed sync.Map
}

func (q *once) ConfirmMessage(ctx context.Context, epoch workpull.QueueEpoch, id string) error {
	err := q.whole.ConfirmMessage(ctx, epoch, id)
	if _, twice := q.confirmed.LoadOrStore(id, true); err == nil && twice {
		return workpull.ErrQueueConflict
	}
	return err
}

// eager compacts what is confirmed, rash what is accepted.
type eager struct{ whole }

func (q *eager) ConfirmMessage(ctx context.Context, epoch workpull.QueueEpoch, id string) error {
	return errors.Join(q.whole.ConfirmMessage(ctx, epoch, id), q.Accept(ctx, epoch, id))
}

type rash struct{ whole }

func (q *rash) Accept(ctx context.Context, epoch workpull.QueueEpoch, id string) error {
	return errors.Join(q.whole.Accept(ctx, epoch, id), q.ConfirmMessage(ctx, epoch, id))
}

// talkative serializes what it stored.
type talkative struct {
	whole
	mu     sync.Mutex
	stored []string
}

func (q *talkative) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stored = append(q.stored, r.MessageID())
	return q.whole.Store(ctx, epoch, r)
}

func (q *talkative) MarshalBinary() ([]byte, error) {
	data, err := q.whole.MarshalBinary()
	return append(data, "\x00"+strings.Join(q.stored, "\x00")...), err
}

func (q *talkative) UnmarshalBinary(data []byte) error {
	name, _, _ := bytes.Cut(data, []byte{0})
	return q.whole.UnmarshalBinary(name)
}

// gullible takes any bytes for a queue.
type gullible struct{ whole }

func (q *gullible) UnmarshalBinary(data []byte) error {
	_ = q.whole.UnmarshalBinary(data)
	return nil
}

// choosy loads what was accepted.
type choosy struct{ whole }

func (q *choosy) Load(ctx context.Context) (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	state, epoch, err := q.whole.Load(ctx)
	if err != nil {
		return state, epoch, err
	}
	state, err = workpull.NewWorkQueueState(state.Cursor(), slices.DeleteFunc(state.Messages(), func(m workpull.UnconfirmedMessage) bool { return !m.Accepted() }))
	return state, epoch, err
}

// piecemeal does a batch part by part.
type piecemeal struct{ whole }

func (q *piecemeal) Commit(ctx context.Context, epoch workpull.QueueEpoch, b workpull.WorkBatch) ([]workpull.StoreResult, error) {
	results, err := q.whole.Commit(ctx, epoch, workpull.NewWorkBatch(b.Stores(), nil, nil))
	for _, id := range b.Accepts() {
		err = errors.Join(err, q.Accept(ctx, epoch, id))
	}
	for _, id := range b.Confirms() {
		err = errors.Join(err, q.ConfirmMessage(ctx, epoch, id))
	}
	return results, err
}

// backward marks first and stores then.
type backward struct{ whole }

func (q *backward) Commit(ctx context.Context, epoch workpull.QueueEpoch, b workpull.WorkBatch) ([]workpull.StoreResult, error) {
	if _, err := q.whole.Commit(ctx, epoch, workpull.NewWorkBatch(nil, b.Accepts(), b.Confirms())); err != nil {
		return nil, err
	}
	return q.whole.Commit(ctx, epoch, workpull.NewWorkBatch(b.Stores(), nil, nil))
}

// shifting spends a sequence on a job that is known.
type shifting struct{ whole }

func (q *shifting) Commit(ctx context.Context, epoch workpull.QueueEpoch, b workpull.WorkBatch) ([]workpull.StoreResult, error) {
	results, err := q.whole.Commit(ctx, epoch, b)
	for i, r := range results {
		if !r.AlreadyStored() {
			continue
		}
		for j := i + 1; j < len(results) && err == nil; j++ {
			results[j], err = workpull.NewStoreResult(results[j].Sequence()+1, results[j].Payload(), results[j].AlreadyStored())
		}
	}
	return results, err
}

// cutting takes a MessageID for a C string.
type cutting struct{ whole }

func (q *cutting) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	id, _, _ := strings.Cut(r.MessageID()+"\x00", "\x00")
	cut, err := workpull.NewStoreRequest("id:"+id, r.Sequence(), r.Payload())
	if err != nil {
		return workpull.StoreResult{}, err
	}
	return q.whole.Store(ctx, epoch, cut)
}

// shortening keeps the first 64 KiB.
type shortening struct{ whole }

func (q *shortening) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	value := r.Payload().Value()
	payload, err := workpull.NewReliablePayload(r.Payload().TypeURL(), value[:min(len(value), 1<<16)])
	if err != nil {
		return workpull.StoreResult{}, err
	}
	r, err = workpull.NewStoreRequest(r.MessageID(), r.Sequence(), payload)
	if err != nil {
		return workpull.StoreResult{}, err
	}
	return q.whole.Store(ctx, epoch, r)
}

// deaf does not hear that it is late.
type deaf struct{ whole }

func (q *deaf) Accept(ctx context.Context, epoch workpull.QueueEpoch, id string) error {
	return q.whole.Accept(context.WithoutCancel(ctx), epoch, id)
}

// twofold does not know its own job again.
type twofold struct{ whole }

func (q *twofold) Store(ctx context.Context, epoch workpull.QueueEpoch, r workpull.StoreRequest) (workpull.StoreResult, error) {
	result, err := q.whole.Store(ctx, epoch, r)
	if err == nil && result.AlreadyStored() {
		return result, workpull.ErrQueueConflict
	}
	return result, err
}
