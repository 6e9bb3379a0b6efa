// Package crash proves that a durable queue loses nothing and repeats nothing
// without a reason when its process is killed: at any moment, and at each step
// that makes something durable (package failpoint). The process that is killed,
// package child, runs the real thing: an actor system with a producer that has
// the queue and with its workers. It writes down what it sees, a line at a time,
// in a file that outlives it, and the judge reads that.
//
// `make crash` runs it with KILLS kills for each backend, `make test` with a few.
package crash

import (
	"os"

	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/workpull"
)

// Backend is a kind of queue.
type Backend struct {
	// Open returns one more writer of a store, which the target names: a
	// directory, or a name in a database.
	Open func(target string) workpull.DurableWorkQueue
	// Failpoints are the steps at which the process kills itself.
	Failpoints []string
}

// Backends are the queues that are killed, by name.
var Backends = map[string]Backend{
	"pebble": {
		Open: func(target string) workpull.DurableWorkQueue {
			return pebble.New(target, pebble.WithMemory(1<<20), pebble.WithCache(8<<20), pebble.WithReserve(1))
		},
		Failpoints: []string{
			"pebble-before-write", "pebble-before-sync", "pebble-before-answer",
			"pebble-before-load", "pebble-after-load", "pebble-before-expiry",
			"pebble-before-backup", "pebble-after-backup",
		},
	},
	"postgres": {
		Open: func(target string) workpull.DurableWorkQueue { return postgres.New(os.Getenv(EnvPostgres), target) },
		Failpoints: []string{
			"postgres-before-commit", "postgres-after-commit",
			"postgres-load-locked", "postgres-load-before-commit", "postgres-load-after-commit",
		},
	},
}

// Environment of the child.
const (
	// EnvBackend and EnvTarget name its queue, EnvLog its log.
	EnvBackend = "WORKPULL_CRASH_BACKEND"
	EnvTarget  = "WORKPULL_CRASH_TARGET"
	EnvLog     = "WORKPULL_CRASH_LOG"
	// EnvPostgres is the URL of the database that has the flow which the target
	// names.
	EnvPostgres = "WORKPULL_CRASH_POSTGRES"
	// EnvLife numbers its lives, from 1.
	EnvLife = "WORKPULL_CRASH_LIFE"
	// EnvJobs is how many jobs it makes in this life. With none it does what is
	// left, closes the queue, and ends.
	EnvJobs = "WORKPULL_CRASH_JOBS"
)
