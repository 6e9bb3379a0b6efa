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
	"flag"

	"github.com/workpull/operator/bench/internal/series"
)

// workerRole is the first argument of a worker process of an experiment.
const workerRole = "worker"

func main() { command(full).Main() }

// command runs the experiments to an extent.
func command(e extent) *series.Command {
	seed := uint64(1)
	return &series.Command{
		Name: "workpull",
		Runs: 5,
		Flags: func(flags *flag.FlagSet) {
			flags.Uint64Var(&seed, "seed", seed, "seed of the arrivals")
		},
		Experiments: func() []series.Experiment { return experiments(e, seed) },
		Roles:       map[string]func(context.Context, []string) error{workerRole: runWorker},
	}
}
