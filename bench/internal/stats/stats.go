// Package stats sums up samples.
package stats

import (
	"math"
	"slices"
	"time"
)

// Median is the middle value, or the mean of the two in the middle, and the
// spread from the lowest to the highest. There is at least one value.
func Median(values []float64) (middle, spread float64) {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1] - sorted[0]
}

// Quantile is the least sample such that at least the share q of all samples,
// above 0 and up to 1, is not above it. There is at least one sample.
func Quantile(samples []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	const rounding = 1e-9 // 0.07 × 100 is a little more than 7
	return sorted[int(math.Ceil(q*float64(len(sorted))-rounding))-1]
}

// Microseconds of a time.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Milliseconds of a time.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Mean of at least one sample.
func Mean(samples []time.Duration) time.Duration {
	var sum time.Duration
	for _, s := range samples {
		sum += s
	}
	return sum / time.Duration(len(samples))
}
