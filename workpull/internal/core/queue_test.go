package core

import (
	"errors"
	"strconv"
	"strings"
)

// state reads what a queue holds: jobs as id@sequence, those that are not
// accepted with a question mark, those whose payload stays with the queue with a
// star, and the cursor. What is kept of a job is id.attempt=, .deaths=, .fate= and
// .due=.
func (a args) state() QueueState {
	s := QueueState{Cursor: a.num("cursor", 0)}
	for _, arg := range a.d.CmdArgs {
		id, seq, ok := strings.Cut(arg.Key, "@")
		if !ok {
			continue
		}
		seq, paged := strings.CutSuffix(seq, "*")
		seq, open := strings.CutSuffix(seq, "?")
		n, err := strconv.ParseUint(seq, 10, 64)
		if err != nil {
			a.d.Fatalf(a.t, "%s: %v", arg.Key, err)
		}
		payload := Payload{TypeURL: "t/job", Value: []byte(id)}
		if paged || a.has("no-payload") {
			payload = Payload{}
		}
		s.Jobs = append(s.Jobs, StoredJob{ID: id, Sequence: n, Payload: payload, Accepted: !open, Paged: paged, Progress: a.progress(id)})
		s.Cursor = max(s.Cursor, a.num("cursor", n))
	}
	return s
}

// progress reads what a queue kept of a job, if anything.
func (a args) progress(id string) *Progress {
	k := Progress{
		Attempt: uint32(a.num(id+".attempt", 0)), Deaths: uint32(a.num(id+".deaths", 0)), Interruptions: uint32(a.num(id+".interruptions", 0)),
		Due: a.duration(id+".due", 0), Delayed: a.has(id + ".due"),
	}
	switch fate := a.str(id+".fate", ""); fate {
	case "dead":
		k.Dead = true
	case "dropped":
		k.Dropped = true
	}
	for n := uint32(1); n < k.Attempt; n++ {
		k.Failures = append(k.Failures, Failure{Attempt: n, Worker: "w0", Reason: "bad"})
	}
	if k.Attempt == 0 && k.Deaths == 0 && k.Interruptions == 0 && !k.Dead && !k.Dropped && !k.Delayed {
		return nil
	}
	return &k
}

// outcomes reads the sequences that a queue gave, those of jobs that were known
// with an exclamation mark, of those that were given up with a hash.
func (a args) outcomes() []StoreOutcome {
	var out []StoreOutcome
	for _, arg := range a.d.CmdArgs {
		seq, dropped := strings.CutSuffix(arg.Key, "#")
		seq, already := strings.CutSuffix(seq, "!")
		if n, err := strconv.ParseUint(seq, 10, 64); err == nil {
			o := StoreOutcome{Sequence: n, Already: already || dropped, Dropped: dropped}
			if o.Already {
				o.Payload = Payload{TypeURL: "t/first", Value: []byte("first write")}
			}
			out = append(out, o)
		}
	}
	return out
}

func (a args) err() error {
	switch a.str("err", "-") {
	case "fenced":
		return ErrQueueFenced
	case "conflict":
		return ErrQueueConflict
	case "unavailable":
		return errors.New("the queue is not there")
	}
	return nil
}
