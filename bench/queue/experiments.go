package main

import (
	"time"

	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
)

// extent is how long the runs are.
type extent struct {
	testbed.Span
	// backlog is how many jobs wait in a long one.
	backlog int
	// name of the backlog in the table.
	name string
}

// full is what the bars are for. The span has several of Pebble's memtables
// written to tables.
var full = extent{
	Span:    testbed.Span{Warm: time.Second, Steady: 5 * time.Second},
	backlog: 1_000_000,
	name:    "a million",
}

// What all experiments have in common.
const (
	workers = 4
	credits = 256
	// ahead is how many jobs are stored ahead of the workers' demand, beyond a
	// backlog: more than one commit and all credits hold.
	ahead = 4096
	// share is the bar of what the queue reaches of a bare loop, in percent.
	share = 60
)

// experiments lists everything that is measured, with the bars. The stores lie
// in the folder.
func experiments(e extent, dir string) []series.Experiment {
	return []series.Experiment{
		pebbleFlow(e, dir, flow{name: "Pebble, 256 credits, empty queue", bar: 40_000, credits: credits}),
		pebbleFlow(e, dir, flow{name: "Pebble, 256 credits, " + e.name + " waiting", bar: 25_000, credits: credits, backlog: e.backlog}),
		pebbleFlow(e, dir, flow{name: "Pebble, 1 credit", credits: 1}),
		postgresFlow(e),
		memoryFlow(e),
		pebbleReload(e, dir),
	}
}
