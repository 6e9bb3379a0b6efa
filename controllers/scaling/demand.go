package scaling

import (
	"math"
	"time"
)

// demand is the work of a producer, as far as it is known.
type demand struct {
	jobs     float64 // waiting, buffered and running
	queued   float64 // waiting and buffered: nobody works on these
	running  float64
	arrivals float64 // jobs a second; zero where it is not measured
	jobTime  float64 // seconds; zero where it was never measured
	residual float64 // seconds; zero where it was never measured
}

// demandOf reads the demand off a snapshot. Where that has no measure, the last
// one counts: a producer that was idle for a while still has jobs as long as
// before.
func demandOf(s *Snapshot, h History) demand {
	d := demand{jobTime: h.JobTime.Seconds(), residual: h.Residual.Seconds()}
	if s == nil {
		return d
	}
	d.queued = float64(orZero(s.Waiting) + orZero(s.Buffered))
	d.running = float64(orZero(s.Running))
	d.jobs = d.queued + d.running
	d.arrivals = orZero(s.ArrivalRate)
	if orZero(s.JobTime) > 0 {
		d.jobTime = s.JobTime.Seconds()
		d.residual = d.jobTime
		if s.Residual != nil {
			d.residual = s.Residual.Seconds()
		}
	}
	return d
}

// times are the slot time of a job and of a running one from now on. Before
// any rate is measured, a job is taken to last as long as what waits may take.
func (d demand) times(a *Autoscaling) (jobTime, residual time.Duration, measured bool) {
	if d.jobTime == 0 {
		return a.TargetDrain, a.TargetDrain, false
	}
	return secondsOf(d.jobTime), secondsOf(d.residual), true
}

// slots is how many the objective asks for, were all jobs this pool's: at most
// one for each job. The second result tells whether it would be more otherwise.
//
// To be done within the target are what is queued, what goes on running, and
// what arrives in the meantime, so that
//
//	slots × target = queued × jobTime + running × min(residual, target) + arrivals × target × jobTime
func (d demand) slots(a *Autoscaling) (slots float64, capped bool) {
	if d.jobs == 0 {
		return 0, false
	}
	if a.TargetDrain <= 0 {
		if a.TargetJobsPerSlot <= 0 {
			return d.jobs, false
		}
		slots = d.jobs / a.TargetJobsPerSlot
	} else {
		jobTime, residual, _ := d.times(a)
		target := a.TargetDrain.Seconds()
		slots = d.queued*jobTime.Seconds()/target + d.running*min(residual.Seconds(), target)/target + d.arrivals*jobTime.Seconds()
	}
	return min(slots, d.jobs), slots > d.jobs && d.queued > 0
}

func secondsOf(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), math.MaxInt64/2))
}
