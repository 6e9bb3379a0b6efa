package control

import (
	"fmt"
	"math"
	"time"

	"github.com/workpull/operator/runtime/control/controlpb"
)

// maxWorkers is how many workers a client takes a server's word for.
const maxWorkers = 1_000_000

// assembly puts the updates of one stream together.
type assembly struct {
	version  uint64 // of the snapshot
	snapshot *Snapshot

	pending delta
	next    uint64 // version of pending, 0 when there is none
	base    uint64
}

// add takes an update. It returns the snapshot when a version is complete, and
// nil when more has to come.
func (a *assembly) add(u *controlpb.Update) (*Snapshot, error) {
	switch {
	case u.GetVersion() == 0:
		return nil, fmt.Errorf("an update has no version")
	case a.next == 0:
		a.pending, a.next, a.base = delta{}, u.GetVersion(), u.GetBase()
	case u.GetVersion() != a.next || u.GetBase() != a.base:
		return nil, fmt.Errorf("an update is of version %d over %d amid those of version %d over %d", u.GetVersion(), u.GetBase(), a.next, a.base)
	}
	if a.base != 0 && a.base != a.version {
		return nil, fmt.Errorf("an update changes version %d, and what is known is version %d", a.base, a.version)
	}
	if err := a.gather(u); err != nil {
		return nil, err
	}
	if u.GetMore() {
		return nil, nil
	}
	if u.GetState() == nil {
		return nil, fmt.Errorf("version %d has no state", a.next)
	}
	a.pending.state = decodeState(u.GetState())
	from := a.snapshot
	if a.base == 0 {
		from = nil
	}
	a.snapshot, a.version = a.pending.apply(from), a.next
	a.pending, a.next = delta{}, 0
	return a.snapshot, nil
}

func (a *assembly) gather(u *controlpb.Update) error {
	if len(a.pending.changed)+len(u.GetWorkers()) > maxWorkers {
		return fmt.Errorf("version %d has more than %d workers", a.next, maxWorkers)
	}
	for _, w := range u.GetWorkers() {
		if n := len(a.pending.changed); w.GetIdentity() == "" || n > 0 && w.GetIdentity() <= a.pending.changed[n-1].Identity {
			return fmt.Errorf("version %d has worker %q out of order", a.next, w.GetIdentity())
		}
		a.pending.changed = append(a.pending.changed, decodeWorker(w))
	}
	for _, identity := range u.GetGone() {
		if n := len(a.pending.gone); n > 0 && identity <= a.pending.gone[n-1] {
			return fmt.Errorf("version %d has worker %q, which is gone, out of order", a.next, identity)
		}
		a.pending.gone = append(a.pending.gone, identity)
	}
	return nil
}

func decodeState(s *controlpb.State) State {
	return State{
		At:      fromMillis(s.AtUnixMs),
		Session: known(s.Session), Epoch: known(s.Epoch),
		Waiting: fromNumber(s.Waiting), Buffered: fromNumber(s.Buffered), Running: fromNumber(s.Running), Delayed: fromNumber(s.Delayed), Dead: fromNumber(s.Dead),
		ArrivalRate: fromRate(s.ArrivalRate), ServiceRate: fromRate(s.ServiceRate),
		OldestAge: fromDurationMillis(s.OldestAgeMs),
		Accepted:  known(s.Accepted), Confirmed: known(s.Confirmed), Requeued: known(s.Requeued), Rejected: known(s.Rejected), Recalled: known(s.Recalled),
	}
}

func decodeWorker(w *controlpb.Worker) Worker {
	return Worker{
		Identity: w.GetIdentity(), Pod: w.GetPod(), Host: w.GetHost(),
		Demand: fromNumber(w.Demand), Held: fromNumber(w.Held),
		RunningID: w.GetRunningId(), RunningAttempt: fromSmall(w.RunningAttempt), RunningSince: fromMillis(w.RunningSinceUnixMs),
		IdleSince: fromMillis(w.IdleSinceUnixMs), BoundSince: fromMillis(w.BoundSinceUnixMs),
		Suspended: known(w.Suspended), Draining: known(w.Draining), Retired: known(w.Retired), Uncertain: known(w.Uncertain),
	}
}

func decodeHistory(list []*controlpb.FailedAttempt) []FailedAttempt {
	history := make([]FailedAttempt, len(list))
	for i, f := range list {
		history[i] = FailedAttempt{Attempt: fromSmall(f.Attempt), Worker: f.GetWorker(), At: fromMillis(f.AtUnixMs), Reason: f.GetReason()}
	}
	return history
}

func known[T comparable](v *T) Known[T] {
	if v == nil {
		return Known[T]{}
	}
	return Some(*v)
}

// fromNumber does not know a number that is too large to be one.
func fromNumber(v *uint64) Known[int] {
	if v == nil || *v > math.MaxInt64 {
		return Known[int]{}
	}
	return Some(int(*v))
}

func fromRate(v *float64) Known[float64] {
	if v == nil || !(*v >= 0 && *v <= math.MaxFloat64) {
		return Known[float64]{}
	}
	return Some(*v)
}

func fromSmall(v *uint32) Known[int] {
	if v == nil {
		return Known[int]{}
	}
	return Some(int(*v))
}

func fromMillis(v *int64) Known[time.Time] {
	if v == nil {
		return Known[time.Time]{}
	}
	return Some(time.UnixMilli(*v))
}

func fromDurationMillis(v *uint64) Known[time.Duration] {
	if v == nil || *v > math.MaxInt64/uint64(time.Millisecond) {
		return Known[time.Duration]{}
	}
	return Some(time.Duration(*v) * time.Millisecond)
}
