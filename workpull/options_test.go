package workpull_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/passivation"

	"github.com/workpull/operator/workpull"
)

func TestRefusedOptions(t *testing.T) { // rules 1, 73, 89
	system := startSystem(t)
	producer := workpull.AsReliableWorkPullingProducer
	worker := func(o ...workpull.WorkerOption) workpull.SpawnOption {
		return workpull.AsReliableWorkPullingWorker("dispatcher", o...)
	}
	address := func(context.Context) (string, int, error) { return "", 0, nil }
	for name, c := range map[string]struct {
		options []workpull.SpawnOption
		option  string
		is      error
	}{
		"chunking":                 {[]workpull.SpawnOption{producer(workpull.WithReliableChunking(1))}, "WithReliableChunking", workpull.ErrChunkingRefused},
		"the point-to-point queue": {[]workpull.SpawnOption{producer(workpull.WithReliableDurableQueue(nil))}, "WithReliableDurableQueue", workpull.ErrDurableQueueRefused},
		"retry interval zero":      {[]workpull.SpawnOption{producer(workpull.WithReliableRetryInterval(0))}, "WithReliableRetryInterval", nil},
		"negative store-ahead":     {[]workpull.SpawnOption{producer(workpull.WithReliableStoreAhead(-1))}, "WithReliableStoreAhead", nil},
		"no credits":               {[]workpull.SpawnOption{producer(workpull.WithReliableCredits(0))}, "WithReliableCredits", nil},
		"a tiny lease":             {[]workpull.SpawnOption{producer(workpull.WithReliableLease(time.Millisecond))}, "WithReliableLease", nil},
		"window zero":              {[]workpull.SpawnOption{worker(workpull.WithReliableFlowControlWindow(0))}, "WithReliableFlowControlWindow", nil},
		"window 10,001":            {[]workpull.SpawnOption{worker(workpull.WithReliableFlowControlWindow(10_001))}, "WithReliableFlowControlWindow", nil},
		"negative resend interval": {[]workpull.SpawnOption{worker(workpull.WithReliableResendInterval(-1))}, "WithReliableResendInterval", nil},
		"no host":                  {[]workpull.SpawnOption{worker(workpull.WithReliableRemoteProducer("", 1))}, "WithReliableRemoteProducer", nil},
		"no port":                  {[]workpull.SpawnOption{worker(workpull.WithReliableRemoteProducer("h", 0))}, "WithReliableRemoteProducer", nil},
		"no function":              {[]workpull.SpawnOption{worker(workpull.WithReliableRemoteProducerFunc(nil))}, "WithReliableRemoteProducerFunc", nil},
		"two addresses":            {[]workpull.SpawnOption{worker(workpull.WithReliableRemoteProducer("h", 1), workpull.WithReliableRemoteProducerFunc(address))}, "WithReliableRemoteProducerFunc", workpull.ErrResolutionConflict},
		"a blank identity":         {[]workpull.SpawnOption{worker(workpull.WithReliableIdentity(" "))}, "WithReliableIdentity", nil},
		"a blank producer":         {[]workpull.SpawnOption{workpull.AsReliableWorkPullingWorker(" ")}, "AsReliableWorkPullingWorker", nil},
		"itself as producer":       {[]workpull.SpawnOption{workpull.AsReliableWorkPullingWorker("refused")}, "AsReliableWorkPullingWorker", nil},
		"two roles":                {[]workpull.SpawnOption{producer(), worker()}, "endpoint", nil},
		"no role":                  {nil, "endpoint", nil},
		"a nil option":             {[]workpull.SpawnOption{nil}, "option", nil},
		"passivation":              {[]workpull.SpawnOption{producer(), workpull.WithActorOptions(actor.WithPassivationStrategy(passivation.NewTimeBasedStrategy(time.Minute)))}, "WithActorOptions", workpull.ErrPassivationRefused},
	} {
		t.Run(name, func(t *testing.T) {
			pid, err := workpull.Spawn(context.Background(), system, "refused", &worker1{}, c.options...)
			require.Nil(t, pid)
			var refused *workpull.OptionError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.option, refused.Option)
			require.True(t, refused.Err != nil || refused.Want != "", "it says what was wanted")
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			_, err = system.LocalActor("refused")
			require.Error(t, err, "rule 87: nothing is left behind")
		})
	}
}

// worker1 does nothing.
type worker1 struct{ worker }

func TestReservedAndTakenNames(t *testing.T) { // rule 87
	system := startSystem(t)
	ctx := context.Background()
	_, err := workpull.Spawn(ctx, system, "Workpull-x", &worker1{}, workpull.AsReliableWorkPullingProducer())
	require.ErrorIs(t, err, workpull.ErrReservedName)

	spawnProducer(t, system, newDispatcher())
	_, err = workpull.Spawn(ctx, system, "dispatcher", &worker1{}, workpull.AsReliableWorkPullingProducer())
	require.ErrorIs(t, err, workpull.ErrNameTaken)

	foreign, err := system.Spawn(ctx, "foreign", &worker1{})
	require.NoError(t, err)
	_, err = workpull.Spawn(ctx, system, "foreign", &worker1{}, workpull.AsReliableWorkPullingProducer())
	require.ErrorIs(t, err, workpull.ErrNameTaken)
	require.True(t, foreign.IsRunning(), "part 5, trap 3: GoAkt returns the existing actor, which is not ours to stop")
}

func TestASpawnThatCannotStartLeavesNothing(t *testing.T) { // rule 87
	system := startSystem(t, actor.WithActorInitMaxRetries(1))
	_, err := workpull.Spawn(context.Background(), system, "w", &failing{}, workpull.AsReliableWorkPullingWorker("dispatcher"))
	require.Error(t, err)
	_, err = system.LocalActor("w")
	require.Error(t, err)
	spawnWorker(t, system, "w", &worker{})
}

type failing struct{ worker1 }

func (*failing) PreStart(*actor.Context) error { return context.Canceled }
