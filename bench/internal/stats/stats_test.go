package stats

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		values         []float64
		middle, spread float64
	}{
		{[]float64{7}, 7, 0},
		{[]float64{9, 1, 5}, 5, 8},
		{[]float64{4, 1, 10, 3}, 3.5, 9},
		{[]float64{2, 2, 2, 2, 100}, 2, 98},
	} {
		middle, spread := Median(c.values)
		if middle != c.middle || spread != c.spread {
			t.Errorf("%v: median %v, spread %v; want %v, %v", c.values, middle, spread, c.middle, c.spread)
		}
	}
	values := []float64{3, 1, 2}
	Median(values)
	if values[0] != 3 {
		t.Error("the values were reordered")
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100) // 1 to 100
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(hundred), func(i, j int) { hundred[i], hundred[j] = hundred[j], hundred[i] })
	for _, c := range []struct {
		q    float64
		want time.Duration
	}{{0.001, 1}, {0.01, 1}, {0.07, 7}, {0.071, 8}, {0.5, 50}, {0.99, 99}, {1, 100}} {
		if got := Quantile(hundred, c.q); got != c.want {
			t.Errorf("quantile %v of 1 to 100: %d, want %d", c.q, got, c.want)
		}
	}
	if got := Quantile([]time.Duration{5}, 0.99); got != 5 {
		t.Errorf("quantile of one sample: %d, want 5", got)
	}
}

func TestMean(t *testing.T) {
	if got := Mean([]time.Duration{1, 2, 6}); got != 3 {
		t.Errorf("mean: %d, want 3", got)
	}
}
