package workpull

import (
	"github.com/workpull/operator/workpull/internal/codec"
	"github.com/workpull/operator/workpull/internal/core"
)

const (
	// tellLate is how often a late confirmation is told: once when it comes,
	// and again after the registrations that follow.
	tellLate = 3
	// maxLate bounds how many are remembered.
	maxLate = 32
)

// lates are late confirmations that may not have arrived yet (B6). Nobody asks
// for one, and what waits in an outbox is thrown away after a failed send: a
// worker that was cut off has one on its way as likely as not. The producer
// takes each once.
type lates []lateTold

type lateTold struct {
	*late
	times int
}

func (l *lates) add(m *late) {
	if len(*l) == maxLate {
		*l = append((*l)[:0], (*l)[1:]...)
	}
	*l = append(*l, lateTold{late: m})
}

// tell tells each, and forgets those that were told often enough.
func (l *lates) tell(c *consumerController, to core.Peer) {
	kept := (*l)[:0]
	for _, m := range *l {
		c.send(to, m.late, func() protoMessage { return codec.EncodeLate(m.session, m.HeldAttempt) })
		if m.times++; m.times < tellLate {
			kept = append(kept, m)
		}
	}
	*l = kept
}
