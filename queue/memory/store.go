package memory

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/workpull/operator/workpull"
)

// stores are those of the process. They are global because a queue that is made
// of bytes has nothing else to find its store by.
var stores = struct {
	sync.Mutex
	named map[string]*store
}{named: map[string]*store{}}

// store is what the queues of one name share.
type store struct {
	sync.Mutex
	epoch, cursor uint64
	// jobs are those that are not compacted, and those that were in this epoch
	// (rules 69, 70).
	jobs map[string]*job
}

// job is a stored one. It is compacted by the next load once both are noted
// (rule 71).
type job struct {
	first               workpull.StoreResult
	accepted, confirmed bool
}

// load begins an epoch, which fences all before (rule 65).
func (s *store) load() (workpull.WorkQueueState, workpull.QueueEpoch, error) {
	var messages []workpull.UnconfirmedMessage
	for id, j := range s.jobs {
		if j.confirmed {
			continue
		}
		m, err := workpull.NewUnconfirmedMessage(id, j.first.Sequence(), j.first.Payload(), j.accepted)
		if err != nil {
			return workpull.WorkQueueState{}, workpull.QueueEpoch{}, fmt.Errorf("load job %q: %w", id, err)
		}
		messages = append(messages, m)
	}
	slices.SortFunc(messages, func(a, b workpull.UnconfirmedMessage) int {
		return cmp.Compare(a.Sequence(), b.Sequence())
	})
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
		if j.accepted && j.confirmed {
			delete(s.jobs, id)
		}
	}
	return state, epoch, nil
}

// commit carries out all of a batch or nothing. Proposed tells that the stores
// propose their sequences (rule 68).
func (s *store) commit(epoch workpull.QueueEpoch, batch workpull.WorkBatch, proposed bool) ([]workpull.StoreResult, error) {
	if epoch.Value() == 0 || epoch.Value() != s.epoch {
		return nil, fmt.Errorf("epoch %d, the queue's is %d: %w", epoch.Value(), s.epoch, workpull.ErrQueueFenced)
	}
	// What is new waits here until nothing can go wrong any more.
	added := map[string]*job{}
	find := func(id string) *job {
		if j := s.jobs[id]; j != nil {
			return j
		}
		return added[id]
	}
	cursor := s.cursor
	var results []workpull.StoreResult
	for _, request := range batch.Stores() {
		already := true
		j := find(request.MessageID())
		if j == nil {
			already = false
			if proposed && request.Sequence() != cursor+1 {
				return nil, fmt.Errorf("job %q proposes sequence %d, the cursor is %d: %w", request.MessageID(), request.Sequence(), cursor, workpull.ErrQueueConflict)
			}
			cursor++
			first, err := firstWrite(request, cursor)
			if err != nil {
				return nil, err
			}
			j = &job{first: first}
			added[request.MessageID()] = j
		}
		result, err := workpull.NewStoreResult(j.first.Sequence(), j.first.Payload(), already)
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
		s.jobs[id].accepted = true
	}
	for _, id := range confirms {
		s.jobs[id].confirmed = true
	}
	return results, nil
}

// firstWrite is what a job is stored as. The zero request is refused, so that
// what is stored can be loaded.
func firstWrite(request workpull.StoreRequest, sequence uint64) (workpull.StoreResult, error) {
	if request.MessageID() == "" {
		return workpull.StoreResult{}, fmt.Errorf("request without a MessageID: %w", workpull.ErrQueueConflict)
	}
	first, err := workpull.NewStoreResult(sequence, request.Payload(), false)
	if err != nil {
		return workpull.StoreResult{}, fmt.Errorf("job %q: %w", request.MessageID(), err)
	}
	return first, nil
}
