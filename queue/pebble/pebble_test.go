package pebble_test

import (
	"testing"

	"github.com/workpull/operator/queue/pebble"
	"github.com/workpull/operator/queue/queuetest"
	"github.com/workpull/operator/workpull"
)

// TestQueue: the pebble queue is one as the contract wants it (rules 64-72, B1,
// B3, B8, B9, B11, B16).
func TestQueue(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Open {
		dir := t.TempDir()
		return func(*testing.T) workpull.DurableWorkQueue { return pebble.New(dir, small...) }
	})
}

// small are options of stores that a test has many of.
var small = []pebble.Option{pebble.WithCache(1 << 20), pebble.WithMemory(1 << 20), pebble.WithReserve(1)}
