package control

import (
	"iter"
	"strings"
	"time"

	"github.com/workpull/operator/runtime/control/controlpb"
)

const (
	// updateBytes is how large one Update becomes at most, about.
	updateBytes = 1 << 20
	// maxText bounds what is shown of a MessageID in a Worker, and maxReason what
	// is told of a reason, in bytes.
	maxText   = 256
	maxReason = 1 << 10
)

// updates encodes a delta as the updates of a version, each made when it is
// asked for. Base 0 is none.
func (d *delta) updates(version, base uint64) iter.Seq[*controlpb.Update] {
	return func(yield func(*controlpb.Update) bool) {
		changed, gone := d.changed, d.gone
		for {
			u := &controlpb.Update{Version: &version}
			if base != 0 {
				u.Base = &base
			}
			size := 0
			for len(changed) > 0 && size < updateBytes {
				w := &changed[0]
				size += 128 + len(w.Identity) + len(w.Pod) + len(w.Host) + len(w.RunningID)
				u.Workers = append(u.Workers, encodeWorker(w))
				changed = changed[1:]
			}
			for len(gone) > 0 && size < updateBytes {
				size += 8 + len(gone[0])
				u.Gone = append(u.Gone, gone[0])
				gone = gone[1:]
			}
			if u.More = len(changed)+len(gone) > 0; !u.More {
				u.State = encodeState(&d.state)
			}
			if !yield(u) || !u.More {
				return
			}
		}
	}
}

func encodeState(s *State) *controlpb.State {
	return &controlpb.State{
		AtUnixMs: millis(s.At),
		Session:  pointer(s.Session), Epoch: pointer(s.Epoch),
		Waiting: number(s.Waiting), Buffered: number(s.Buffered), Running: number(s.Running), Delayed: number(s.Delayed), Dead: number(s.Dead),
		ArrivalRate: pointer(s.ArrivalRate), ServiceRate: pointer(s.ServiceRate),
		OldestAgeMs: durationMillis(s.OldestAge),
		Accepted:    pointer(s.Accepted), Confirmed: pointer(s.Confirmed), Requeued: pointer(s.Requeued),
		Rejected: pointer(s.Rejected), Recalled: pointer(s.Recalled),
	}
}

func encodeWorker(w *Worker) *controlpb.Worker {
	return &controlpb.Worker{
		Identity: w.Identity, Pod: text(w.Pod), Host: text(w.Host),
		Demand: number(w.Demand), Held: number(w.Held),
		RunningId: text(w.RunningID), RunningAttempt: small(w.RunningAttempt), RunningSinceUnixMs: millis(w.RunningSince),
		IdleSinceUnixMs: millis(w.IdleSince), BoundSinceUnixMs: millis(w.BoundSince),
		Suspended: pointer(w.Suspended), Draining: pointer(w.Draining), Retired: pointer(w.Retired), Uncertain: pointer(w.Uncertain),
	}
}

func encodeHistory(history []FailedAttempt) []*controlpb.FailedAttempt {
	list := make([]*controlpb.FailedAttempt, len(history))
	for i := range history {
		f := &history[i]
		list[i] = &controlpb.FailedAttempt{
			Attempt: small(f.Attempt), Worker: text(valid(f.Worker)), AtUnixMs: millis(f.At), Reason: text(Cut(f.Reason, maxReason)),
		}
	}
	return list
}

func pointer[T comparable](k Known[T]) *T {
	if v, ok := k.Get(); ok {
		return &v
	}
	return nil
}

// number is absent for what cannot be a number of anything.
func number(k Known[int]) *uint64 {
	if v, ok := k.Get(); ok && v >= 0 {
		n := uint64(v)
		return &n
	}
	return nil
}

func small(k Known[int]) *uint32 {
	if v, ok := k.Get(); ok && v >= 0 && v <= 1<<31 {
		n := uint32(v)
		return &n
	}
	return nil
}

func millis(k Known[time.Time]) *int64 {
	if v, ok := k.Get(); ok {
		n := v.UnixMilli()
		return &n
	}
	return nil
}

func durationMillis(k Known[time.Duration]) *uint64 {
	if v, ok := k.Get(); ok && v >= 0 {
		n := uint64(v.Milliseconds())
		return &n
	}
	return nil
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// valid makes a text one that protobuf can carry: a queue may hold jobs whose
// MessageID another program wrote.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Cut returns the first bytes of a text, and no broken character.
func Cut(s string, bytes int) string {
	if len(s) > bytes {
		return strings.ToValidUTF8(s[:bytes], "")
	}
	return valid(s)
}
