package scaling

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func some[T any](v T) *T { return &v }

// drawWorker makes one pod in any phase, busy or not.
func drawWorker(t *rapid.T, name string, now time.Time, phases ...Phase) Worker {
	w := Worker{Name: name, Phase: rapid.SampledFrom(phases).Draw(t, "phase"),
		Since:    now.Add(-time.Duration(rapid.IntRange(0, 700).Draw(t, "since")) * time.Second),
		Retiring: rapid.Bool().Draw(t, "retiring"), Leaving: rapid.IntRange(0, 9).Draw(t, "leaving") == 0}
	switch rapid.SampledFrom([]string{"busy", "idle", "unmentioned"}).Draw(t, "held") {
	case "busy":
		w.Held = some(rapid.IntRange(1, 4).Draw(t, "jobs"))
	case "idle":
		w.Held = some(0)
		w.IdleSince = some(now.Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "idle")) * time.Second))
	}
	return w
}

var everyPhase = []Phase{Unscheduled, Starting, Ready, Ready, Ready, NotReady, Failing, Lost, Terminating}

func drawPool(t *rapid.T, name string, now time.Time, phases ...Phase) Pool {
	p := Pool{Name: name, Weight: int32(rapid.IntRange(0, 2).Draw(t, "weight")), Slots: rapid.IntRange(1, 4).Draw(t, "slots"),
		StartupDeadline: 600 * time.Second, Suspend: rapid.IntRange(0, 9).Draw(t, "suspend") == 0}
	if rapid.IntRange(0, 4).Draw(t, "external") == 0 {
		p.Replicas = some(int32(rapid.IntRange(0, 10).Draw(t, "replicas")))
	} else {
		p.Autoscaling = drawAutoscaling(t)
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "workers") {
		p.Workers = append(p.Workers, drawWorker(t, fmt.Sprintf("%s-%d", name, i), now, phases...))
	}
	return p
}

func drawAutoscaling(t *rapid.T) *Autoscaling {
	a := &Autoscaling{MinReplicas: rapid.IntRange(0, 3).Draw(t, "min"), IdleTimeout: time.Minute}
	a.MaxReplicas = a.MinReplicas + rapid.IntRange(0, 15).Draw(t, "more")
	if rapid.Bool().Draw(t, "drain") {
		a.TargetDrain = time.Duration(rapid.IntRange(1, 60).Draw(t, "target")) * time.Second
	} else {
		a.TargetJobsPerSlot = float64(rapid.IntRange(1, 8).Draw(t, "jobs per slot"))
	}
	return a
}

func drawSnapshot(t *rapid.T, now time.Time) *Snapshot {
	s := &Snapshot{At: now, Waiting: some(int64(rapid.IntRange(0, 60).Draw(t, "waiting"))),
		Buffered: some(int64(rapid.IntRange(0, 20).Draw(t, "buffered"))), Running: some(int64(rapid.IntRange(0, 30).Draw(t, "running")))}
	if rapid.Bool().Draw(t, "measured") {
		s.ArrivalRate = some(float64(rapid.IntRange(0, 50).Draw(t, "arrivals")) / 10)
		s.ServiceRate = some(float64(rapid.IntRange(0, 50).Draw(t, "service")) / 10)
		s.JobTime = some(time.Duration(rapid.IntRange(1, 100).Draw(t, "job time")) * time.Second)
	}
	return s
}

func drawPools(t *rapid.T, phases ...Phase) []Pool {
	var pools []Pool
	for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
		pools = append(pools, drawPool(t, string(rune('a'+i)), noon, phases...))
	}
	return pools
}

// plain makes pools that only the rule decides on: autoscaled, not suspended,
// nothing stuck.
func plain(pools []Pool) []Pool {
	pools = slices.DeleteFunc(pools, func(p Pool) bool { return p.Autoscaling == nil })
	for i := range pools {
		pools[i].Suspend, pools[i].StartupDeadline = false, 0
	}
	return pools
}

func TestNoBusyWorkerIsEverAVictim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t, everyPhase...)
		producer := ProducerState{Snapshot: drawSnapshot(t, noon), Gone: rapid.IntRange(0, 9).Draw(t, "gone") == 0}
		_, producer.History = Decide(producer, pools, noon)
		now := noon.Add(2 * time.Minute)
		producer.Snapshot.At = now
		decisions, _ := Decide(producer, pools, now)
		for i, d := range decisions {
			require.Equal(t, pools[i].Name, d.Pool)
			named := map[string]bool{}
			for _, name := range slices.Concat(d.Victims, d.Drain) {
				require.False(t, named[name], "%s is named twice", name)
				named[name] = true
			}
			for _, w := range pools[i].Workers {
				if w.busy() {
					require.NotContains(t, d.Victims, w.Name)
				}
				if w.Phase == Terminating || w.Phase == Lost || w.Leaving {
					require.False(t, named[w.Name], "%s goes already", w.Name)
				}
				delete(named, w.Name)
			}
			require.Empty(t, named, "nobody of these names is there")
		}
	})
}

func TestNeverAboveTheMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t, everyPhase...)
		producer := ProducerState{Snapshot: drawSnapshot(t, noon), Stale: rapid.Bool().Draw(t, "stale")}
		decisions, _ := Decide(producer, pools, noon)
		for i, d := range decisions {
			most := d.Numbers.Max
			if d.Create > 0 {
				require.LessOrEqual(t, d.Numbers.Present+d.Create, most)
				require.Equal(t, d.Desired, d.Numbers.Present+d.Create)
				require.Empty(t, d.Victims, "pods are made and removed at once")
			}
			if !producer.Stale && pools[i].Autoscaling != nil {
				require.LessOrEqual(t, d.Desired, most)
				require.GreaterOrEqual(t, d.Desired, d.Numbers.Min)
			}
		}
	})
}

func TestUnknownNeverShrinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t, everyPhase...)
		producer := ProducerState{Snapshot: drawSnapshot(t, noon)}
		_, producer.History = Decide(producer, pools, noon)
		now := noon.Add(time.Hour)
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			producer.Snapshot = nil
		case 1:
			producer.Stale, producer.Snapshot.At = true, now
		case 2:
			producer.Snapshot.At = now
			producer.Snapshot.Running = nil // S26
		default: // an hour old
		}
		decisions, _ := Decide(producer, pools, now)
		for i, d := range decisions {
			require.Empty(t, d.Victims)
			require.Empty(t, d.Drain)
			if pools[i].Autoscaling != nil {
				require.GreaterOrEqual(t, d.Desired, d.Numbers.Present)
			}
		}
	})
}

func TestMoreWorkNeverLeadsToFewerWorkers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t, everyPhase...)
		producer := ProducerState{Snapshot: drawSnapshot(t, noon)}
		before, _ := Decide(producer, pools, noon)
		more := *producer.Snapshot
		more.Waiting = some(*more.Waiting + int64(rapid.IntRange(0, 20).Draw(t, "more waiting")))
		more.Buffered = some(*more.Buffered + int64(rapid.IntRange(0, 20).Draw(t, "more buffered")))
		if more.ArrivalRate != nil {
			more.ArrivalRate = some(*more.ArrivalRate + float64(rapid.IntRange(0, 20).Draw(t, "more arrivals")))
		}
		producer.Snapshot = &more
		after, _ := Decide(producer, pools, noon)
		for i := range before {
			require.GreaterOrEqual(t, after[i].Numbers.Wanted, before[i].Numbers.Wanted)
			require.GreaterOrEqual(t, after[i].Desired, before[i].Desired)
		}
	})
}

func TestNeverMoreSlotsThanJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := plain(drawPools(t, Ready, Starting))
		s := drawSnapshot(t, noon)
		decisions, _ := Decide(ProducerState{Snapshot: s}, pools, noon)
		jobs, slots, last := *s.Waiting+*s.Buffered+*s.Running, 0, 0
		for i, d := range decisions {
			slots += d.Numbers.Wanted * pools[i].Slots
			if d.Numbers.Wanted > max(d.Numbers.Min, d.Numbers.Busy) {
				last = max(last, pools[i].Slots) // has a pod that is no floor
			}
		}
		if last > 0 {
			require.Less(t, slots-last, int(jobs), "a pod more than there are jobs for")
		}
	})
}

// Pools that differ only in weight and bounds: the shares add up to the demand,
// and nobody gets any while a pool of higher weight has room.
func TestSharesAddUpAndFollowTheWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := plain(drawPools(t, Ready, Starting))
		for i := range pools {
			pools[i].Slots = 1
			pools[i].Autoscaling.TargetDrain, pools[i].Autoscaling.TargetJobsPerSlot = 30*time.Second, 0
		}
		s := drawSnapshot(t, noon)
		decisions, _ := Decide(ProducerState{Snapshot: s}, pools, noon)
		need, floors, room, sum := 0, 0, 0, 0
		for _, d := range decisions {
			floor := max(d.Numbers.Min, d.Numbers.Busy)
			floors += floor
			room += max(d.Numbers.Max, floor)
			need = int(math.Ceil(d.Numbers.Slots - 1e-6))
			sum += d.Numbers.Wanted
		}
		require.Equal(t, max(floors, min(need, room)), sum)
		for i, high := range decisions {
			for j, low := range decisions {
				if pools[i].Weight > pools[j].Weight && high.Numbers.Wanted < high.Numbers.Max {
					require.Equal(t, max(low.Numbers.Min, low.Numbers.Busy), low.Numbers.Wanted)
				}
			}
		}
	})
}

// Over a random walk, who is not above the maximum goes only when as few were
// wanted all through the idle time.
func TestWorkersLeaveOnlyAfterAWholeIdleTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := plain([]Pool{drawPool(t, "a", noon, Ready, Starting)})
		if len(pools) == 0 {
			t.Skip("external")
		}
		var wanted []Wanted
		producer, now := ProducerState{}, noon
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "pause")) * time.Second)
			producer.Snapshot = drawSnapshot(t, now)
			decisions, history := Decide(producer, pools, now)
			d := decisions[0]
			if len(wanted) > 0 {
				wanted[len(wanted)-1].Until = now
			}
			wanted = append(wanted, Wanted{d.Numbers.Wanted, now})
			if len(d.Victims) > 0 && d.Desired < d.Numbers.Max {
				require.GreaterOrEqual(t, now.Sub(noon), time.Minute)
				for _, w := range wanted {
					if w.Until.After(now.Add(-time.Minute)) {
						require.LessOrEqual(t, w.Count, d.Desired)
					}
				}
			}
			producer.History = history
			pools[0].Workers = slices.DeleteFunc(slices.Clone(pools[0].Workers), func(w Worker) bool { return slices.Contains(d.Victims, w.Name) })
			for range d.Create {
				pools[0].Workers = append(pools[0].Workers, Worker{Name: fmt.Sprint("a-", len(wanted), "-", len(pools[0].Workers)),
					Phase: Ready, Since: now, Held: some(0), IdleSince: some(now)})
			}
		}
	})
}

func TestDecideIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pools := drawPools(t, everyPhase...)
		producer := ProducerState{Snapshot: drawSnapshot(t, noon)}
		_, producer.History = Decide(producer, pools, noon)
		equal := func(a, b any) { require.Empty(t, cmp.Diff(a, b, cmpopts.EquateEmpty())) }
		copied := slices.Clone(pools)
		for i := range copied {
			copied[i].Workers = slices.Clone(pools[i].Workers)
		}
		history := producer.History
		history.Pools = map[string]PoolHistory{}
		for name, h := range producer.History.Pools {
			h.Peaks, h.Lows, h.Events = slices.Clone(h.Peaks), slices.Clone(h.Lows), slices.Clone(h.Events)
			history.Pools[name] = h
		}
		now := noon.Add(time.Minute)
		first, after := Decide(producer, pools, now)
		equal(copied, pools)
		equal(history, producer.History)
		again, afterAgain := Decide(producer, pools, now)
		equal(first, again)
		equal(after, afterAgain)
	})
}
