package worker

import (
	"context"
	"errors"
	"time"
)

const (
	// splitTimeout is how long a member may be without a registration while
	// the producer can be reached, and splitPoll how often that is looked at.
	// A member that joins needs a few seconds, a registry that lost nodes some
	// more.
	splitTimeout = time.Minute
	splitPoll    = 5 * time.Second
)

// errSplit ends a member that is in another cluster than its producer: nothing
// merges two halves again (docs/decisions/002-discovery.md). The process that
// follows joins anew.
var errSplit = errors.New("the producer can be reached and has not registered this member for a minute: its cluster is another one")

// watchSplit returns errSplit, or nil when ctx ends.
func (p *process) watchSplit(ctx context.Context) error {
	ticker := p.clock.NewTicker(splitPoll)
	defer ticker.Stop()
	whole := p.clock.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		asking, cancel := context.WithTimeout(ctx, statusTimeout)
		registered, err := p.registered(asking)
		cancel()
		if registered > 0 || err != nil || !p.linked() {
			whole = p.clock.Now()
		}
		if p.clock.Since(whole) >= splitTimeout {
			return errSplit
		}
	}
}
