package control

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRate(t *testing.T) {
	rate := func(m *meter) float64 {
		v, ok := m.rate().Get()
		require.True(t, ok)
		return v
	}

	t.Run("is not known before two seconds were measured", func(t *testing.T) {
		var m meter
		for at := time.Duration(0); at < rateSettles; at += 100 * time.Millisecond {
			m.observe(at, 1, uint64(at/time.Millisecond))
			_, ok := m.rate().Get()
			require.False(t, ok, "after %v", at)
		}
		m.observe(rateSettles, 1, 2000)
		require.InDelta(t, 1000, rate(&m), 1e-6, "a steady rate is right from the beginning")
	})
	t.Run("follows a step with the window's time constant", func(t *testing.T) {
		var m meter
		at, count := time.Duration(0), uint64(0)
		for range 3000 {
			at += time.Second
			m.observe(at, 1, count)
		}
		for range int(RateWindow / time.Second) {
			at, count = at+time.Second, count+100
			m.observe(at, 1, count)
		}
		require.InDelta(t, 100*(1-1/math.E), rate(&m), 0.01)
	})
	t.Run("does not depend on when it is looked at", func(t *testing.T) {
		var often, seldom meter
		for i := range 601 {
			often.observe(time.Duration(i)*100*time.Millisecond, 1, uint64(i)*7)
			if i%60 == 0 {
				seldom.observe(time.Duration(i)*100*time.Millisecond, 1, uint64(i)*7)
			}
		}
		require.InDelta(t, rate(&often), rate(&seldom), 1e-6)
	})
	t.Run("leaves out what lies between two sessions", func(t *testing.T) {
		var m meter
		for i := range 11 {
			m.observe(time.Duration(i)*time.Second, 1, uint64(i)*50)
		}
		m.observe(20*time.Second, 2, 3) // counts begin anew
		require.InDelta(t, 50, rate(&m), 1e-6)
		m.observe(21*time.Second, 2, 53)
		require.InDelta(t, 50, rate(&m), 1e-6)
	})
}

// Whatever is observed when, a rate is between the lowest and the highest that
// there was.
func TestRateIsAMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m meter
		var at time.Duration
		var count uint64
		low, high := math.Inf(1), 0.0
		m.observe(at, 1, count)
		for range rapid.IntRange(1, 50).Draw(t, "observations") {
			elapsed := time.Duration(rapid.IntRange(1, 120_000).Draw(t, "ms")) * time.Millisecond
			n := rapid.IntRange(0, 100_000).Draw(t, "jobs")
			at, count = at+elapsed, count+uint64(n)
			low, high = min(low, float64(n)/elapsed.Seconds()), max(high, float64(n)/elapsed.Seconds())
			m.observe(at, 1, count)
		}
		if v, ok := m.rate().Get(); ok && (v < low-1e-6*high || v > high+1e-6*high) {
			t.Fatalf("rate %v, lowest %v, highest %v", v, low, high)
		}
	})
}
