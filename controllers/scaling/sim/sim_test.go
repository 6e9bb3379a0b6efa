package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at makes a trace of jobs of one length that come at the given seconds.
func at(length time.Duration, seconds ...int) *trace {
	t := &trace{name: "test"}
	for _, s := range seconds {
		t.jobs = append(t.jobs, job{time.Duration(s) * time.Second, length})
	}
	t.end = t.jobs[len(t.jobs)-1].arrival + 20*time.Minute
	return t
}

func poisson(rate float64, span time.Duration, length time.Duration) *trace {
	t := newTrace("test", "", 7, func(r *rand.Rand) []job {
		return arrivals(r, span, rate, func(time.Duration) float64 { return rate }, exponential(length))
	})
	return &t
}

func defaults() *ours { return oursGrid()[0].make().(*ours) }

func TestTheOracleStartsPodsAheadAndKeepsThemOverShortGaps(t *testing.T) {
	// Two at once, then one after a gap of 5 s, then one after a long one.
	waits, podTime := oracle(at(10*time.Second, 60, 60, 75, 600), 2, 20*time.Second)
	require.Equal(t, []time.Duration{0, 0, 0, 0}, waits)
	// Two starts of 20 s and jobs of 10 s; the gap of 5 s and 10 s; 30 s anew.
	require.Equal(t, 60*time.Second+15*time.Second+30*time.Second, podTime)
	waits, _ = oracle(at(10*time.Second, 60, 60, 65), 2, 20*time.Second)
	require.Equal(t, []time.Duration{0, 0, 5 * time.Second}, waits)
}

func TestAStoppedPodFinishesWithinItsGraceOrIsInterrupted(t *testing.T) {
	for _, c := range []struct {
		name        string
		length      time.Duration
		interrupted int
		wait        time.Duration
	}{
		{"finishes", 20 * time.Second, 0, 0},
		{"is interrupted and begins again", 50 * time.Second, 1, 40 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(at(c.length, 60), 0)
			w.create(1)
			w.at(70*time.Second, func() {
				w.stop(w.pods[0], 30*time.Second)
				w.create(1)
			})
			w.run(10 * time.Minute)
			require.Equal(t, c.interrupted, w.interrupted)
			require.Equal(t, c.wait, w.waits()[0])
			require.Zero(t, w.left)
		})
	}
}

// S7: pods that take a minute to start are capacity to come. Three jobs make
// exactly three of them.
func TestSlowStartsDoNotMultiplyPods(t *testing.T) {
	w := newWorld(at(10*time.Second, 60, 60, 60), time.Minute)
	defaults().begin(w)
	w.run(20 * time.Minute)
	require.Equal(t, 3, w.created)
	require.Equal(t, count{w.history[len(w.history)-1].at, 0}, w.history[len(w.history)-1], "nobody is left")
}

// The first job that is accepted brings a worker, long before the next poll.
func TestFromZeroInABlink(t *testing.T) {
	w := newWorld(at(10*time.Second, 60), time.Second)
	defaults().begin(w)
	w.run(10 * time.Minute)
	require.Equal(t, time.Second+50*time.Millisecond, w.waits()[0])
}

// So that a pool can shrink at all, its producer dispatches packed: 50 workers
// at 2% load.
func TestFiftyWorkersAtTwoPercentLoadShrinkWhenPacked(t *testing.T) {
	after := func(spread bool) int {
		load := poisson(1, time.Hour, time.Second) // one slot of 50
		first := at(time.Second, slices.Repeat([]int{60}, 50)...)
		load.jobs = append(first.jobs, load.jobs...)
		w := newWorld(load, time.Second)
		o := &ours{drain: 30 * time.Second, idle: time.Minute, most: 50, spread: spread}
		o.begin(w)
		left := 0
		w.at(30*time.Minute, func() { left = len(w.pods) })
		w.run(load.end)
		return left
	}
	require.Less(t, after(false), 10)
	// Each would have a job some 50 s after its last.
	require.Greater(t, after(true), 40, "round-robin keeps everybody from being idle for long")
}

// Victims that were chosen by snapshots that are three seconds old: many hold a
// job by the time they are told to go. None of them loses it, because they are
// asked first; without being asked many would.
func TestNoVictimIsInterruptedByStaleSnapshots(t *testing.T) {
	c := churnOf(2000)
	require.GreaterOrEqual(t, c.victims, 2000)
	require.Positive(t, c.refused, "the race did not come about")
	require.Zero(t, c.interrupted)

	load := at(time.Second, slices.Repeat([]int{60, 66, 75, 79, 90, 97, 103, 111}, 20)...)
	slices.SortFunc(load.jobs, func(a, b job) int { return int(a.arrival - b.arrival) })
	o := &ours{drain: time.Second, idle: 2 * time.Second, most: 50, delay: 3 * time.Second, hop: 50 * time.Millisecond, unasked: true}
	require.Positive(t, play(load, time.Second, "", o).interrupted)
}

func TestTheSameSeedGivesTheSameFigures(t *testing.T) {
	load := poisson(1, 10*time.Minute, 5*time.Second)
	for _, c := range []choice{kedaGrid()[0], oursGrid()[0]} {
		require.Equal(t, play(load, 10*time.Second, c.setting, c.make()), play(load, 10*time.Second, c.setting, c.make()))
	}
}

// KEDA sets one replica at its poll, the HPA goes on at its sync by 4 or the
// double, and zero comes only after the cooldown.
func TestKEDAAndTheHPADoAsTheyDocument(t *testing.T) {
	load := at(200*time.Second, slices.Repeat([]int{60}, 40)...)
	k := kedaGrid()[0].make().(*keda)
	w := newWorld(load, 0)
	k.begin(w)
	var replicas []int
	last := 0
	w.every(0, time.Second, func() {
		if k.replicas != last {
			last = k.replicas
			replicas = append(replicas, last)
		}
	})
	zero := time.Duration(0)
	w.every(2*time.Minute, time.Second, func() {
		if k.replicas == 0 && zero == 0 {
			zero = w.now
		}
	})
	w.run(load.end)
	require.Equal(t, []int{1, 5, 10, 20, 40}, replicas[:5])
	require.Equal(t, 0, replicas[len(replicas)-1])
	done := w.waits()[39] + 260*time.Second
	require.GreaterOrEqual(t, zero-done, 5*time.Minute-30*time.Second)
	require.LessOrEqual(t, zero-done, 5*time.Minute+30*time.Second)
}

// It does not know who works: as long jobs run out it stops who still runs one.
func TestKEDAInterruptsLongJobs(t *testing.T) {
	load := traces()[4]
	require.Equal(t, "heavy", load.name)
	load.jobs = load.jobs[:1000]
	load.end = load.jobs[len(load.jobs)-1].arrival + 20*time.Minute
	require.Positive(t, play(&load, 10*time.Second, "", kedaGrid()[0].make()).interrupted)
	require.Zero(t, play(&load, 10*time.Second, "", oursGrid()[0].make()).interrupted)
}

func TestReportAndPlot(t *testing.T) {
	load := poisson(0.5, 5*time.Minute, 5*time.Second)
	load.name = "short"
	c := comparison{trace: load, start: time.Second}
	waits, podTime := oracle(load, most, time.Second)
	c.oracle = outcomeOf("oracle", waits, podTime)
	c.keda, c.ours = playAll(load, time.Second, kedaGrid()[:3]), playAll(load, time.Second, oursGrid()[:3])
	c.best = slices.MinFunc(c.keda, byWait)
	c.within, _ = cheapEnough(c.ours, c.best.podTime)
	for _, o := range slices.Concat(c.keda, c.ours) {
		require.GreaterOrEqual(t, o.podTime, c.oracle.podTime, "nobody is cheaper than the oracle")
		require.GreaterOrEqual(t, o.p95, c.oracle.p95)
	}
	dir := t.TempDir()
	rows := rowsOf([]comparison{c}, churn{victims: 3})
	require.NoError(t, write(filepath.Join(dir, "rows.jsonl"), rows))
	text, err := os.ReadFile(filepath.Join(dir, "rows.jsonl"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, len(rows))
	var first map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.Equal(t, "short, pods start in 1 s: p95 wait beyond the oracle's", first["measure"])
	require.Equal(t, "lower", first["better"])

	require.NoError(t, draw(filepath.Join(dir, "plot.svg"), []comparison{c}))
	svg, err := os.ReadFile(filepath.Join(dir, "plot.svg"))
	require.NoError(t, err)
	require.Equal(t, 3+len(c.keda)+len(c.ours), strings.Count(string(svg), "<circle"))
}
