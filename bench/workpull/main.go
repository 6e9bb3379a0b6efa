// Command workpull measures the pattern on one node: 200-byte jobs from submit
// to confirmed, for several numbers of workers and credits.
//
//	go run ./workpull -runs 5
//
// Each row is the median of its runs, with the spread from the lowest to the
// highest, and is also written to -out as one JSON object a line: measure,
// value, unit, better, runs, spread.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"

	"github.com/workpull/operator/workpull"
)

// row is one line of the table.
type row struct {
	Measure string  `json:"measure"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Better  string  `json:"better"`
	Runs    int     `json:"runs"`
	// Spread is the highest run less the lowest, in Unit.
	Spread float64 `json:"spread"`
}

func main() {
	runs := flag.Int("runs", 5, "runs of each measure")
	jobs := flag.Int("jobs", 300_000, "jobs of one run")
	out := flag.String("out", "", "file for the rows as JSON lines")
	flag.Parse()
	if err := run(context.Background(), *runs, *jobs, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, runs, jobs int, out string) error {
	if runs < 1 || jobs < 1 {
		return fmt.Errorf("%d runs of %d jobs: wanted at least one of each", runs, jobs)
	}
	var rows []row
	for _, m := range []struct{ workers, credits int }{{4, 1}, {4, 64}, {100, 64}, {1000, 64}, {5000, 64}} {
		r, err := measure(ctx, m.workers, m.credits, runs, jobs)
		if err != nil {
			return fmt.Errorf("%d workers, %d credits: %w", m.workers, m.credits, err)
		}
		rows = append(rows, r)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "measure\tmedian\tspread\tunit")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%s\n", r.Measure, r.Value, r.Spread, r.Unit)
	}
	if err := w.Flush(); err != nil || out == "" {
		return err
	}
	return write(out, rows)
}

func write(path string, rows []row) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := json.NewEncoder(f)
	for _, r := range rows {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func measure(ctx context.Context, workers, credits, runs, jobs int) (row, error) {
	rates := make([]float64, runs)
	for i := range rates {
		rate, err := once(ctx, workers, credits, jobs)
		if err != nil {
			return row{}, err
		}
		rates[i] = rate
	}
	slices.Sort(rates)
	return row{
		Measure: fmt.Sprintf("one node, %d workers, window 50, %d credits", workers, credits),
		Value:   rates[runs/2], Unit: "jobs/s", Better: "higher", Runs: runs, Spread: rates[runs-1] - rates[0],
	}, nil
}

// once runs all jobs through a system of its own and returns jobs a second,
// from the first confirmation to the last.
func once(ctx context.Context, workers, credits, jobs int) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	system, err := actor.NewActorSystem("bench", actor.WithLogger(log.DiscardLogger))
	if err != nil {
		return 0, err
	}
	if err := system.Start(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, workpull.Stop(ctx, system)) }()
	for i := range workers {
		_, err := workpull.Spawn(ctx, system, fmt.Sprintf("worker-%d", i), sink{},
			workpull.AsReliableWorkPullingWorker("source"))
		if err != nil {
			return 0, err
		}
	}
	s := newSource(jobs)
	_, err = workpull.Spawn(ctx, system, "source", s, workpull.AsReliableWorkPullingProducer(
		workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableCredits(credits)))
	if err != nil {
		return 0, err
	}
	if err := wait(ctx, s.begun); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := wait(ctx, s.done); err != nil {
		return 0, err
	}
	return float64(jobs) / time.Since(start).Seconds(), nil
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
