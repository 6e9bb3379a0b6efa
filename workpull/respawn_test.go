package workpull_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// ReSpawn as the answer to the failure event makes a new controller, though the
// failed one may not have stopped yet (rules 61, 88).
func TestReSpawnAnswersTheEventAtOnce(t *testing.T) {
	system := startSystem(t)
	events, err := workpull.Subscribe(context.Background(), system)
	require.NoError(t, err)
	defer events.Close()
	d := newDispatcher()
	var violate atomic.Bool
	d.onMessage = func(ctx *actor.ReceiveContext) bool {
		m, ok := ctx.Message().(*workpull.RequestNext)
		if !ok || !violate.Swap(false) {
			return false
		}
		for _, id := range []string{"first", "second"} { // rule 9
			p, err := workpull.NewProduced(m, id, wrapperspb.String(id))
			if err != nil {
				panic(err)
			}
			ctx.Tell(ctx.Sender(), p)
		}
		return true
	}
	violate.Store(true)
	pid := spawnProducer(t, system, d, workpull.WithReliableStoreAhead(1), workpull.WithReliableRetryInterval(time.Millisecond))
	for range 100 {
		select {
		case <-events.C():
		case <-time.After(patience):
			t.Fatal("no event")
		}
		_, err := workpull.ReSpawn(context.Background(), system, "dispatcher")
		require.NoError(t, err)
		_, err = workpull.Inspect(context.Background(), pid)
		require.NoError(t, err, "there is a live controller")
		require.Len(t, pid.Children(), 1, "and one only")
		violate.Store(true) // the next request, or its repetition
	}
}
