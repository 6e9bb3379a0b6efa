package scaling

import (
	"math"
	"time"
)

const (
	// measuredOver is the time over which a producer measures its rates.
	measuredOver = 30 * time.Second
	// growth is from how much more slots on throughput is compared.
	growth = 1.2
	// least is the part of the proportional gain in throughput below which
	// growth was for nothing.
	least = 0.1
	// recovered is how much more throughput, on the same slots, shows that
	// whatever bound it does so no more.
	recovered = 1.2
	// firstRetry and lastRetry bound the time until a little more is tried.
	firstRetry, lastRetry = 5 * time.Minute, time.Hour
)

// Progress is what growth has brought so far. Only a producer whose workers are
// all busy, and which has jobs for more, tells something about that.
type Progress struct {
	// Slots there are now, and since when as many, within a tenth.
	Slots int
	Since time.Time
	// Settled slots brought Rate confirmed jobs a second.
	Settled int
	Rate    float64
	// Bound is the most slots that are to be while growth brings nothing; zero
	// for no bound.
	Bound int
	// Retry is when a quarter more is tried, and Wait how long that was.
	Retry time.Time
	Wait  time.Duration
}

// advance takes in a snapshot of a producer that has so many ready slots.
func (p Progress) advance(s *Snapshot, slots int, now time.Time) Progress {
	if !s.knows() || s.ServiceRate == nil {
		return p
	}
	queued := orZero(s.Waiting) + orZero(s.Buffered)
	if queued == 0 || float64(orZero(s.Running)) < 0.9*float64(slots) || slots == 0 {
		return Progress{} // not what there is bounds throughput, but what there is to do
	}
	attempts := *s.ServiceRate + orZero(s.RejectionRate)
	if attempts == 0 {
		return p // nothing has ended yet
	}
	if p.Slots == 0 || math.Abs(float64(slots-p.Slots)) > 0.1*float64(p.Slots) {
		p.Slots, p.Since = slots, now
	}
	if p.Bound > 0 && *s.ServiceRate > recovered*p.Rate {
		return Progress{Slots: p.Slots, Since: p.Since}
	}
	// Two times of a slot's use, so that most of what was begun on fewer slots
	// has ended, and the time over which rates are measured.
	settling := measuredOver + secondsOf(2*float64(*s.Running)/attempts)
	if now.Sub(p.Since) >= settling {
		p = p.measure(*s.ServiceRate, now)
	}
	if p.Bound > 0 && !now.Before(p.Retry) {
		p.Bound += max(1, p.Bound/4)
		p.Wait = min(2*p.Wait, lastRetry)
		p.Retry = now.Add(p.Wait)
	}
	return p
}

// measure compares what the slots bring with what fewer of them brought.
func (p Progress) measure(rate float64, now time.Time) Progress {
	switch {
	case p.Settled == 0 || p.Slots < p.Settled:
		p.Settled, p.Rate = p.Slots, rate
	case float64(p.Slots) < growth*float64(p.Settled):
		if p.Bound == 0 {
			p.Rate = rate // as many as before: the latest figure counts
		}
	case rate > p.Rate*(1+least*(float64(p.Slots)/float64(p.Settled)-1)):
		p.Settled, p.Rate = p.Slots, rate
		p.Bound, p.Retry, p.Wait = 0, time.Time{}, 0
	case p.Bound == 0:
		p.Bound, p.Wait = p.Slots, firstRetry
		p.Retry = now.Add(p.Wait)
	}
	return p
}

// most is how many slots there may be.
func (p Progress) most() float64 {
	if p.Bound == 0 {
		return math.Inf(1)
	}
	return float64(p.Bound)
}
