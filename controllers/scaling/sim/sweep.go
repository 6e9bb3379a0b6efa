package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// most is maxReplicas, for everybody.
const most = 60

// scaler is who creates and deletes the pods of a world.
type scaler interface{ begin(*world) }

// outcome is what a scaler made of a trace.
type outcome struct {
	setting       string
	p50, p95, p99 time.Duration // of the waits
	podTime       time.Duration
	interrupted   int
	history       []count
}

func outcomeOf(setting string, waits []time.Duration, podTime time.Duration) outcome {
	waits = slices.Sorted(slices.Values(waits))
	at := func(q float64) time.Duration { return waits[int(q*float64(len(waits)-1))] }
	return outcome{setting: setting, p50: at(0.50), p95: at(0.95), p99: at(0.99), podTime: podTime}
}

func play(t *trace, start time.Duration, setting string, s scaler) outcome {
	w := newWorld(t, start)
	s.begin(w)
	w.run(t.end)
	o := outcomeOf(setting, w.waits(), w.podTime)
	o.interrupted, o.history = w.interrupted, w.history
	return o
}

// A choice is a setting of a scaler, made anew for each run.
type choice struct {
	setting string
	make    func() scaler
}

// kedaGrid are the settings of KEDA and the HPA. The first is their default, at
// one job for each pod, as each pod here works on one job at a time.
func kedaGrid() []choice {
	grid := []choice{kedaChoice(keda{poll: 30 * time.Second, sync: 15 * time.Second, stabilization: 5 * time.Minute, cooldown: 5 * time.Minute, target: 1})}
	for _, poll := range []time.Duration{5 * time.Second, 30 * time.Second} {
		for _, sync := range []time.Duration{5 * time.Second, 15 * time.Second} {
			for _, stabilization := range []time.Duration{0, time.Minute, 5 * time.Minute} {
				for _, cooldown := range []time.Duration{time.Minute, 5 * time.Minute} {
					for _, target := range []float64{0.5, 1, 2, 5} {
						for _, unlimited := range []bool{false, true} {
							grid = append(grid, kedaChoice(keda{poll: poll, sync: sync, stabilization: stabilization,
								cooldown: cooldown, target: target, unlimited: unlimited}))
						}
					}
				}
			}
		}
	}
	return grid
}

func kedaChoice(k keda) choice {
	k.most, k.grace = most, 30*time.Second
	limit := "default scale-up"
	if k.unlimited {
		limit = "unlimited scale-up"
	}
	return choice{
		fmt.Sprintf("poll %s, sync %s, stabilization %s, cooldown %s, target %g, %s", short(k.poll), short(k.sync), short(k.stabilization), short(k.cooldown), k.target, limit),
		func() scaler { fresh := k; return &fresh },
	}
}

// oursGrid are our settings. The first is the default.
func oursGrid() []choice {
	grid := []choice{oursChoice(30*time.Second, time.Minute)}
	for _, drain := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second} {
		for _, idle := range []float64{15, 30, 45, 60, 90, 120, 150, 180, 210, 240, 300, 450, 600} { // seconds
			idle := time.Duration(idle * float64(time.Second))
			grid = append(grid, oursChoice(drain, idle))
		}
	}
	return grid
}

func oursChoice(drain, idle time.Duration) choice {
	return choice{
		fmt.Sprintf("drain %s, idle %s", short(drain), short(idle)),
		func() scaler {
			return &ours{drain: drain, idle: idle, most: most, delay: 50 * time.Millisecond, hop: 10 * time.Millisecond}
		},
	}
}

func short(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// comparison is one trace with one start time of pods.
type comparison struct {
	trace       *trace
	start       time.Duration
	oracle      outcome
	keda, ours  []outcome // of the grids
	best        outcome   // of keda's grid: the least p95 wait
	within      outcome   // of our grid: the least p95 wait at no more pod time than best
	affordable  bool      // whether there is one; within is else the cheapest
	cheaperKeda outcome   // of keda's grid: the least p95 wait at no more pod time than within
}

// byWait orders outcomes: the least p95 wait, and among equal ones the least pod
// time.
func byWait(a, b outcome) int {
	return cmp.Or(cmp.Compare(a.p95, b.p95), cmp.Compare(a.podTime, b.podTime))
}

func byPodTime(a, b outcome) int { return cmp.Compare(a.podTime, b.podTime) }

// compare plays a trace with every setting of both.
func compare(t *trace, start time.Duration) comparison {
	c := comparison{trace: t, start: start}
	waits, podTime := oracle(t, most, start)
	c.oracle = outcomeOf("oracle", waits, podTime)
	c.keda, c.ours = playAll(t, start, kedaGrid()), playAll(t, start, oursGrid())
	c.best = slices.MinFunc(c.keda, byWait)
	c.within, c.affordable = cheapEnough(c.ours, c.best.podTime)
	c.cheaperKeda, _ = cheapEnough(c.keda, c.within.podTime)
	return c
}

func playAll(t *trace, start time.Duration, grid []choice) []outcome {
	out := make([]outcome, len(grid))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range grid {
		group.Go(func() error {
			out[i] = play(t, start, c.setting, c.make())
			return nil
		})
	}
	_ = group.Wait() // they cannot fail
	return out
}

// cheapEnough is the best outcome at no more than the given pod time.
func cheapEnough(all []outcome, podTime time.Duration) (outcome, bool) {
	fit := slices.DeleteFunc(slices.Clone(all), func(o outcome) bool { return o.podTime > podTime })
	if len(fit) == 0 {
		return slices.MinFunc(all, byPodTime), false
	}
	return slices.MinFunc(fit, byWait), true
}

// excess is the p95 wait beyond the oracle's.
func (c *comparison) excess(o outcome) time.Duration { return max(o.p95-c.oracle.p95, 0) }

// bar is what our excess has to be within: half of theirs, and on the steady
// trace theirs.
func (c *comparison) bar() time.Duration {
	if c.trace.name == "steady" {
		return c.excess(c.best)
	}
	return c.excess(c.best) / 2
}
