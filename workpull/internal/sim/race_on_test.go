//go:build race

package sim

// defaultSeeds under the race detector, which makes a run ten times as long
// and finds nothing in code of one goroutine: CI plays fullSeeds without it
// (make sim).
const defaultSeeds = 60
