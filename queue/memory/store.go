package memory

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/workpull/operator/workpull"
)

// stores are those of the process. They are global because a queue that is made
// of bytes has nothing else to find its store by.
var stores = struct {
	sync.Mutex
	named map[string]*store
}{named: map[string]*store{}}

// find returns the store of that name, which is made when there is none.
func find(name string) *store {
	stores.Lock()
	defer stores.Unlock()
	s := stores.named[name]
	if s == nil {
		s = &store{jobs: map[string]*job{}, now: time.Now}
		stores.named[name] = s
	}
	return s
}

// store is what the queues of one name share.
type store struct {
	sync.Mutex
	epoch, cursor uint64
	// jobs are those that are not compacted, those that were in this epoch
	// (rules 69, 70) and those that the window keeps (B9).
	jobs   map[string]*job
	window time.Duration
	now    func() time.Time
}

// job is a stored one.
type job struct {
	sequence            uint64
	payload             workpull.ReliablePayload // the zero value once it is compacted
	accepted, confirmed bool
	progress            *workpull.JobProgress
	dropped             bool
	confirmedAt         time.Time
	// compactedAt and compactedIn, an epoch, are when it was both accepted and
	// confirmed (rule 71).
	compactedAt time.Time
	compactedIn uint64
}

func (j *job) compacted() bool { return j.accepted && j.confirmed }

// known returns the job of that MessageID unless it is forgotten.
func (s *store) known(id string) *job {
	j := s.jobs[id]
	if j == nil || s.forgets(j, s.epoch) {
		return nil
	}
	return j
}

// forgets tells whether the job is none that the store knows in that epoch.
func (s *store) forgets(j *job, epoch uint64) bool {
	return j.compacted() && j.compactedIn != epoch && !s.now().Before(j.compactedAt.Add(s.window))
}

// owns fails for an epoch that is not the latest (rule 65).
func (s *store) owns(epoch workpull.QueueEpoch) error {
	if epoch.Value() == 0 || epoch.Value() != s.epoch {
		return fmt.Errorf("epoch %d, the queue's is %d: %w", epoch.Value(), s.epoch, workpull.ErrQueueFenced)
	}
	return nil
}

// load begins an epoch, which fences all before (rule 65).
func (s *store) load() (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	messages, err := s.messages()
	if err != nil {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, err
	}
	state, err := workpull.NewWorkQueueState(s.cursor, messages)
	if err != nil {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, err
	}
	epoch, err := workpull.NewQueueEpoch(s.epoch + 1)
	if err != nil {
		return workpull.WorkQueueState{}, workpull.QueueEpoch{}, err
	}
	// From here on nothing fails (rule 66).
	s.epoch++
	for id, j := range s.jobs {
		if s.forgets(j, s.epoch) {
			delete(s.jobs, id)
		}
	}
	return state, epoch, nil
}

// Of a backlog the first jobs are loaded with their payloads, up to so many and
// so many bytes; the others are paged (B11).
const (
	loadedJobs  = workpull.MaxPage
	loadedBytes = 1 << 20
)

// messages are the jobs that are not confirmed, in the order of their
// sequences.
func (s *store) messages() ([]workpull.UnconfirmedMessage, error) {
	var ids []string
	for id, j := range s.jobs {
		if !j.confirmed {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(s.jobs[a].sequence, s.jobs[b].sequence) })
	messages := make([]workpull.UnconfirmedMessage, len(ids))
	size := 0
	for i, id := range ids {
		j := s.jobs[id]
		size += j.payload.Size()
		var err error
		if i < loadedJobs && size <= loadedBytes {
			messages[i], err = workpull.NewUnconfirmedMessage(id, j.sequence, j.payload, j.accepted)
		} else {
			messages[i], err = workpull.NewPagedMessage(id, j.sequence, j.accepted)
		}
		if err == nil && j.progress != nil {
			messages[i], err = messages[i].WithProgress(*j.progress)
		}
		if err != nil {
			return nil, fmt.Errorf("load job %q: %w", id, err)
		}
	}
	return messages, nil
}

// commit carries out all of a batch or nothing. Proposed tells that the stores
// propose their sequences (rule 68).
func (s *store) commit(epoch workpull.QueueEpoch, batch workpull.WorkBatch, proposed bool) ([]workpull.StoreResult, error) {
	if err := s.owns(epoch); err != nil {
		return nil, err
	}
	// What is new waits here until nothing can go wrong any more.
	added := map[string]*job{}
	find := func(id string) *job {
		if j := added[id]; j != nil {
			return j
		}
		return s.known(id)
	}
	cursor := s.cursor
	var results []workpull.StoreResult
	for _, request := range batch.Stores() {
		j := find(request.MessageID())
		already := j != nil
		if !already {
			if proposed && request.Sequence() != cursor+1 {
				return nil, fmt.Errorf("job %q proposes sequence %d, the cursor is %d: %w", request.MessageID(), request.Sequence(), cursor, workpull.ErrQueueConflict)
			}
			if request.MessageID() == "" {
				return nil, fmt.Errorf("request without a MessageID: %w", workpull.ErrQueueConflict)
			}
			cursor++
			j = &job{sequence: cursor, payload: request.Payload()}
			added[request.MessageID()] = j
		}
		result, err := j.result(request, already)
		if err != nil {
			return nil, fmt.Errorf("job %q: %w", request.MessageID(), err)
		}
		results = append(results, result)
	}
	accepts, confirms := batch.Accepts(), batch.Confirms()
	for _, id := range slices.Concat(accepts, confirms) {
		if find(id) == nil {
			return nil, fmt.Errorf("job %q was never stored: %w", id, workpull.ErrQueueConflict)
		}
	}
	s.cursor = cursor
	for id, j := range added {
		s.jobs[id] = j
	}
	for _, id := range accepts {
		s.mark(s.jobs[id], true, false)
	}
	for _, id := range confirms {
		s.mark(s.jobs[id], false, true)
	}
	return results, nil
}

// result is the answer to a request (rule 69). The payload of a job that is
// compacted is gone, and the request's serves as well.
func (j *job) result(request workpull.StoreRequest, already bool) (workpull.StoreResult, error) {
	payload := j.payload
	if j.compacted() {
		payload = request.Payload()
	}
	result, err := workpull.NewStoreResult(j.sequence, payload, already)
	if err == nil && j.confirmed && j.dropped {
		result = result.AsDropped()
	}
	return result, err
}

// mark accepts or confirms a job, and gives up what is of no more use when it
// is both.
func (s *store) mark(j *job, accepted, confirmed bool) {
	if j.compacted() {
		return
	}
	if confirmed && !j.confirmed {
		j.confirmedAt = s.now().UTC().Round(0)
	}
	j.accepted = j.accepted || accepted
	j.confirmed = j.confirmed || confirmed
	if j.compacted() {
		j.payload, j.progress = workpull.ReliablePayload{}, nil
		j.compactedAt, j.compactedIn = s.now().Round(0), s.epoch
	}
}
