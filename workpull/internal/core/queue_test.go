package core

import (
	"errors"
	"strconv"
	"strings"
)

// state reads what a queue holds: jobs as id@sequence, those that are not
// accepted with a question mark, and the cursor.
func (a args) state() QueueState {
	s := QueueState{Cursor: a.num("cursor", 0)}
	for _, arg := range a.d.CmdArgs {
		id, seq, ok := strings.Cut(arg.Key, "@")
		if !ok {
			continue
		}
		seq, open := strings.CutSuffix(seq, "?")
		n, err := strconv.ParseUint(seq, 10, 64)
		if err != nil {
			a.d.Fatalf(a.t, "%s: %v", arg.Key, err)
		}
		payload := Payload{TypeURL: "t/job", Value: []byte(id)}
		if a.has("no-payload") {
			payload = Payload{}
		}
		s.Jobs = append(s.Jobs, StoredJob{ID: id, Sequence: n, Payload: payload, Accepted: !open})
		s.Cursor = max(s.Cursor, a.num("cursor", n))
	}
	return s
}

// outcomes reads the sequences that a queue gave, those of jobs that were known
// with an exclamation mark.
func (a args) outcomes() []StoreOutcome {
	var out []StoreOutcome
	for _, arg := range a.d.CmdArgs {
		seq, already := strings.CutSuffix(arg.Key, "!")
		if n, err := strconv.ParseUint(seq, 10, 64); err == nil {
			o := StoreOutcome{Sequence: n, Already: already}
			if already {
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
