package workpull_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/workpull"
)

// A system that is busy stops at once. GoAkt's own Stop sends its dead-letter
// actor into a recursion when a controller still ticks.
func TestABusySystemStops(t *testing.T) {
	for range 10 {
		system := startSystem(t)
		d := &endless{dispatcher: newDispatcher()}
		spawnProducer(t, system, d, workpull.WithReliableCredits(8), workpull.WithReliableRetryInterval(time.Millisecond))
		l := newLedger()
		for i := range 4 {
			spawnWorker(t, system, fmt.Sprintf("w%d", i), &worker{ledger: l}, workpull.WithReliableResendInterval(time.Millisecond))
		}
		require.Eventually(t, func() bool { return l.distinct() > 100 }, patience, glance)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		require.NoError(t, workpull.Stop(ctx, system))
		require.NoError(t, ctx.Err())
		cancel()
	}
	require.Error(t, workpull.Stop(context.Background(), nil))
}
