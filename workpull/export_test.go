package workpull

import (
	"context"
	"time"

	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/workpull/internal/core"
)

// QueueSettled tells whether a producer's controller has told its queue all that
// there is to tell.
func QueueSettled(ctx context.Context, producer *actor.PID) (settled bool, err error) {
	err = order(ctx, producer, func(p *core.Producer, _ time.Duration) { settled = p.QueueSettled() })
	return settled, err
}
