package pebble

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
)

// live is the index in memory: the sequence of each job that is not compacted.
// It is there because nearly all look-ups are of new MessageIDs, which no table
// has, and those cost more than the writes of their jobs. Each job takes some 40
// bytes, whatever its MessageID, of which the controller holds the whole.
type live struct {
	known atomic.Bool  // it was read from the store
	mu    sync.RWMutex // of what follows, which changes only in turn
	jobs  map[digest]uint64
}

// digest stands for a MessageID: half of its SHA-256, of which no two are found
// that are the same.
type digest [sha256.Size / 2]byte

func digestOf(id string) digest {
	sum := sha256.Sum256([]byte(id))
	return digest(sum[:])
}

// learn takes the index from the store, where that was not done. It needs the
// turn.
func (s *store) learn() error {
	if s.live.known.Load() {
		return nil
	}
	jobs, err := s.index(context.Background())
	if err != nil {
		return err
	}
	s.take(jobs)
	return nil
}

// take makes the index of what there is. It needs the turn.
func (s *store) take(jobs []indexed) {
	m := make(map[digest]uint64, len(jobs))
	for _, j := range jobs {
		m[digestOf(j.id)] = j.sequence
	}
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	s.live.jobs = m
	s.live.known.Store(true)
}
