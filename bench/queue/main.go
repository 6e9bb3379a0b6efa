// Command queue measures durable queues under the work-pulling pattern: 200-byte
// jobs that do not compress, from submit to DeliveryConfirmed, which tells that
// the confirmation is on the disk (B10). No queue acknowledges before a sync,
// but for the one in memory.
//
//	go run ./queue -runs 3 -run 'Pebble, 256' -profile /tmp/profiles
//
// The table on standard output gives for each measure the median of its runs,
// the spread from the lowest to the highest, and the bar beside it. The rows go
// to -out too, one JSON object a line: measure, value, unit, bar, better, runs,
// spread. A bar that is not met does not fail the command. The measures take
// turns, and each run has a process and a store of its own.
//
// All rows have the producer and 4 workers at the default window in one process;
// MessageIDs are random, of 26 characters, as those are that the stock intake
// makes. With 256 credits the source answers every RequestNext at once and is
// stored ahead of the workers by up to 4,096 jobs; with one credit the base
// contract holds, and nothing is stored ahead of demand. Rates are of
// confirmations over 5 s, once the stream has run for a second.
//
//   - "Pebble, 256 credits, empty queue": queue/pebble with its defaults.
//   - "..., a million waiting": the same on a million jobs that were stored and
//     accepted before, in batches of 4,096. The workers do those at the head,
//     and the source keeps as many waiting as there were.
//   - "...: bare Pebble loop": what one goroutine does that repeats the very
//     commits of the row above, each with as many stores, accepts and
//     confirmations, as one synced batch of the rows that queue/pebble writes
//     for them. It has the store that the run left, once the queue has closed
//     it, and the options that are noted there. "...: of the bare Pebble loop"
//     is what part of it the queue reaches.
//   - "Pebble, 1 credit": the same with one credit. Its bare loop makes two
//     synced commits for each job, one that stores it, one that removes it.
//   - "PostgreSQL, 256 credits": queue/postgres over TCP on a server that is
//     started for the run, with fsync and synchronous_commit on.
//   - "in memory, 256 credits": queue/memory, so what the lane itself costs.
//   - "Pebble, reload of a million waiting": a store with a million jobs that
//     was closed is opened by a Spawn of the producer: the time from the call
//     of Spawn to the first delivery at a worker, four of which are spawned
//     right after it. What was written is still in the kernel's cache, as
//     after the end of a process, not of the machine. "...: memory" is the Go
//     heap after a collection then, less that before the Spawn, by waiting
//     job: the controller's, the queue's and Pebble's. Pebble's memtables and
//     block cache, up to 64 MiB each by default, lie outside of it where Pebble
//     is built with cgo. A note tells how much all memory of the process grew.
//
// The stores lie in -dir. A file system in memory makes the figures worthless.
package main

import (
	"flag"
	"os"

	"github.com/workpull/operator/bench/internal/series"
)

func main() { command(full).Main() }

// command runs the experiments to an extent.
func command(e extent) *series.Command {
	dir := os.TempDir()
	return &series.Command{
		Name: "queue",
		Runs: 3,
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&dir, "dir", dir, "folder for the stores")
		},
		Experiments: func() []series.Experiment { return experiments(e, dir) },
	}
}
