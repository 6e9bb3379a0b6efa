package workpull_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/remote"

	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/workpull"
)

// What the pattern starts ends with its system: timers, outboxes, look-ups.
func TestNothingIsLeftBehind(t *testing.T) {
	before := len(ours())
	ports := testport.Free(t, 2)
	systems := make([]actor.ActorSystem, 2)
	for i := range systems {
		systems[i] = startSystem(t, actor.WithRemote(remote.NewConfig("127.0.0.1", ports[i])))
	}
	events, err := workpull.Subscribe(context.Background(), systems[0])
	require.NoError(t, err)
	d := newDispatcher(jobNames(50)...)
	producer := spawnProducer(t, systems[0], d, workpull.WithReliableDeliveryConfirmation())
	spawnWorker(t, systems[0], "near", &worker{})
	spawnWorker(t, systems[1], "far", &worker{}, workpull.WithReliableRemoteProducer("127.0.0.1", ports[0]))
	require.Eventually(t, func() bool { return d.confirmations() == 50 && len(inspectProducer(t, producer).Workers) == 2 }, patience, glance)
	for _, s := range systems {
		require.NoError(t, workpull.Stop(context.Background(), s))
	}
	_, open := <-events.C()
	require.False(t, open, "the subscription ends with the system")
	noMoreOfOurs(t, before)
}

// noMoreOfOurs waits until there are as many of our goroutines as before: a
// send may be under way for two seconds.
func noMoreOfOurs(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	left := ours()
	for ; len(left) > before && time.Now().Before(deadline); left = ours() {
		<-time.After(20 * time.Millisecond)
	}
	require.LessOrEqual(t, len(left), before, "goroutines are left:\n%s", strings.Join(left, "\n\n"))
}

// ours lists the stacks of this module's goroutines, but for tests' own.
// Those of the libraries come and go as they please.
func ours() []string {
	buf := make([]byte, 16<<20)
	var out []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "operator/workpull") && !strings.Contains(stack, "testing.tRunner") && !strings.Contains(stack, "testing.(*") {
			out = append(out, stack)
		}
	}
	return out
}
