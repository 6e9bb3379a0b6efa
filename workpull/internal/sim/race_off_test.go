//go:build !race

package sim

const defaultSeeds = fullSeeds
