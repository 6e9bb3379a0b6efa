package control

import (
	"math"
	"time"
)

const (
	// RateWindow is the time constant of a rate: what happened that long ago
	// counts for 1/e of what happens now.
	RateWindow = 30 * time.Second
	// rateSettles is how much has to be measured before there is a rate.
	rateSettles = 2 * time.Second
)

// meter measures the rate of a count, as an exponentially weighted mean over
// RateWindow. It is exact for any intervals between observations, and begins
// with the plain mean of what it has seen so far rather than with zero.
type meter struct {
	begun    bool
	session  uint64
	at       time.Duration
	count    uint64
	measured time.Duration
	// sum is the weighted sum of rates, weight that of their weights.
	sum, weight float64
}

// observe takes the count at a monotonic time. Counts begin anew with each
// session; what was counted between the last observation of one and the first of
// the next is not known and left out.
func (m *meter) observe(now time.Duration, session, count uint64) {
	elapsed := now - m.at
	if m.begun && elapsed <= 0 {
		return
	}
	if m.begun && session == m.session && count >= m.count {
		share := -math.Expm1(-elapsed.Seconds() / RateWindow.Seconds())
		m.sum += (float64(count-m.count)/elapsed.Seconds() - m.sum) * share
		m.weight += (1 - m.weight) * share
		m.measured += elapsed
	}
	m.begun, m.session, m.at, m.count = true, session, now, count
}

// rate is in events a second.
func (m *meter) rate() Known[float64] {
	if m.measured < rateSettles {
		return Known[float64]{}
	}
	return Some(m.sum / m.weight)
}
