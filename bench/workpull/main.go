// Command workpull measures the work-pulling pattern: 200-byte jobs, from
// submit to confirmed, on one node and over loopback between processes.
//
//	go run ./workpull -runs 5 -run 'one node' -profile /tmp/profiles
//
// The table on standard output gives for each measure the median of its runs,
// the spread from the lowest to the highest, and the bar beside it. The rows go
// to -out too, one JSON object a line: measure, value, unit, bar, better, runs,
// spread. A bar that is not met does not fail the command.
//
// The measures take turns, so that a machine whose speed drifts treats them
// alike, and each run has a process of its own, so that none inherits another's
// heap.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
)

// Roles in which the command starts itself, as the first argument.
const (
	onceRole   = "once"   // one run of one experiment
	workerRole = "worker" // a worker process of an experiment
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := start(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case onceRole:
			return runOnce(ctx, full, args[1:])
		case workerRole:
			return runWorker(ctx, args[1:])
		}
	}
	flags := flag.NewFlagSet("workpull", flag.ContinueOnError)
	runs := flags.Int("runs", 5, "runs of each measure")
	pattern := flags.String("run", "", "regular expression that selects measures; all without it")
	out := flags.String("out", "", "file for the rows as JSON lines")
	profiles := flags.String("profile", "", "folder for a CPU and an allocation profile of each run and process (slows the runs down)")
	seed := flags.Uint64("seed", 1, "seed of the arrivals")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *runs < 1 || flags.NArg() > 0 {
		return fmt.Errorf("%d runs, arguments %q: wanted at least one run and no arguments", *runs, flags.Args())
	}
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if *profiles != "" {
		if err := os.MkdirAll(*profiles, 0o755); err != nil {
			return fmt.Errorf("-profile: %w", err)
		}
	}
	s := series{runs: *runs, profiles: *profiles, seed: *seed, experiments: choose(experiments(full, *seed), wanted)}
	if len(s.experiments) == 0 {
		return fmt.Errorf("-run %s: selects no measure", *pattern)
	}
	failed := s.run(ctx)
	rows := s.rows(wanted)
	if err := report(os.Stdout, rows, s.notes()); err != nil {
		return errors.Join(failed, err)
	}
	if *out != "" {
		failed = errors.Join(failed, write(*out, rows))
	}
	return failed
}
