package workpull

import (
	"time"

	"github.com/workpull/operator/workpull/internal/core"
)

// clock relates the controllers' time, which is monotonic, to wall time, which
// is what can be kept. A clock that is set while the process runs moves neither
// leases nor backoffs that are under way; one that is set while it does not
// makes backoffs longer, up to the longest of the policy, or ends them.
type clock struct{ origin time.Time }

// now is both.
func (c clock) now() (time.Duration, time.Time) {
	wall := time.Now()
	return wall.Sub(c.origin), wall.Round(0)
}

// passed is when something happened, for people to read.
func (c clock) passed(at time.Duration) time.Time { return c.origin.Round(0).Add(at) }

// resume puts what a queue kept of the jobs' attempts into the core's form.
func (c clock) resume(s *WorkQueueState, state *core.QueueState) {
	now, wall := c.now()
	for i := range s.messages {
		m := &s.messages[i]
		if m.progress == nil {
			continue
		}
		v := &m.progress.values
		k := &core.Progress{
			Attempt: v.Attempt, Interruptions: v.Interruptions, Deaths: v.Deaths,
			Dead: v.Fate == FateDead, Dropped: v.Fate == FateDropped,
		}
		for _, f := range v.Failures {
			k.Failures = append(k.Failures, core.Failure{Attempt: uint32(f.Attempt), Worker: f.Worker, At: f.Time.Sub(c.origin.Round(0)), Reason: f.Reason})
		}
		if v.RetryAt != nil {
			k.Delayed, k.Due = true, now+v.RetryAt.Sub(wall)
		}
		state.Jobs[i].Progress = k
	}
}

// progress is what a queue shall keep, in the public form.
func (c clock) progress(saves []core.SavedProgress) ([]JobProgress, error) {
	now, wall := c.now()
	list := make([]JobProgress, len(saves))
	for i, k := range saves {
		failures := make([]FailedAttempt, len(k.Failures))
		for n, f := range k.Failures {
			failures[n] = FailedAttempt{Attempt: int(f.Attempt), Worker: f.Worker, Time: c.passed(f.At), Reason: f.Reason}
		}
		var retryAt time.Time
		if k.Delayed {
			retryAt = wall.Add(k.Due - now)
		}
		fate := FateNone
		switch {
		case k.Dropped:
			fate = FateDropped
		case k.Dead:
			fate = FateDead
		}
		var err error
		counts := ProgressCounts{Attempt: k.Attempt, Interruptions: k.Interruptions, Deaths: k.Deaths}
		if list[i], err = NewJobProgress(k.ID, counts, failures, retryAt, fate); err != nil {
			return nil, err
		}
	}
	return list, nil
}
