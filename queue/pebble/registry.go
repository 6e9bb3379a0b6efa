package pebble

import (
	"context"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stores are those of the process, by the file system and the directory. They
// are global because a queue that is made of bytes has nothing else to find its
// store by, and because only one may have a directory open.
var stores = registry{open: map[place]*store{}}

type registry struct {
	sync.Mutex
	open map[place]*store
}

// place is where a store is.
type place struct {
	fs  vfs.FS
	dir string
}

// acquire returns the store of a directory, to be released once. It is not yet
// open.
func (r *registry) acquire(ctx context.Context, dir string, settings settings) (*store, error) {
	settings = settings.complete()
	at := place{settings.fs, absolute(dir)}
	for {
		r.Lock()
		s := r.open[at]
		switch {
		case s == nil:
			s = newStore(at, settings)
			r.open[at] = s
			fallthrough
		case s.queues > 0:
			s.queues++
			r.Unlock()
			return s, nil
		}
		r.Unlock()
		// It is being closed: what comes after it begins when it is over.
		select {
		case <-s.gone:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// release closes the store when nobody else uses it.
func (r *registry) release(s *store) error {
	r.Lock()
	s.queues--
	last := s.queues == 0
	r.Unlock()
	if !last {
		return nil
	}
	err := s.close()
	r.Lock()
	defer r.Unlock()
	delete(r.open, s.place)
	close(s.gone)
	return err
}
