package queuetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/workpull/operator/workpull"
)

// kind of an operation.
type kind string

const (
	load      kind = "load"
	put       kind = "store"
	accept    kind = "accept"
	confirm   kind = "confirm"
	commit    kind = "commit"
	payloads  kind = "payloads"
	save      kind = "save progress"
	keep      kind = "keep completed"
	completed kind = "completed"
	reload    kind = "reload"
)

// payload of a job. It is comparable.
type payload struct{ url, value string }

// text is a small payload.
func text(value string) payload { return payload{"type.test/text", value} }

// job is a store of an operation. Sequence is the proposed one.
type job struct {
	id       string
	sequence uint64
	payload  payload
}

// call is an operation on a queue. Only a commit has more than one part.
type call struct {
	kind              kind
	epoch             uint64
	stores            []job
	accepts, confirms []string
	ids               []string // of payloads and of completed, of which there is one
	progress          []workpull.JobProgress
	window            time.Duration
}

// String shows the call in a failure.
func (c call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s(epoch %d", c.kind, c.epoch)
	few(&b, c.stores, func(j job) string {
		return fmt.Sprintf("store %s as %d holding %s", short(j.id), j.sequence, short(j.payload.value))
	})
	few(&b, c.accepts, func(id string) string { return "accept " + short(id) })
	few(&b, c.confirms, func(id string) string { return "confirm " + short(id) })
	few(&b, c.ids, short)
	few(&b, c.progress, func(p workpull.JobProgress) string {
		return fmt.Sprintf("%s of %s", short(canonical(p)), short(p.MessageID()))
	})
	if c.kind == keep {
		fmt.Fprintf(&b, ", %s", c.window)
	}
	return b.String() + ")"
}

// few writes the first of many things, as many as a person reads.
func few[T any](b *strings.Builder, all []T, show func(T) string) {
	const most = 100
	for _, one := range all[:min(len(all), most)] {
		b.WriteString(", " + show(one))
	}
	if len(all) > most {
		fmt.Fprintf(b, ", and %d more", len(all)-most)
	}
}

// short is a quoted string, not too long for a line.
func short(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%.40q… (%d bytes)", s, len(s))
	}
	return fmt.Sprintf("%q", s)
}

// verdict is what became of a call, as far as the rules tell errors apart.
type verdict string

const (
	done     verdict = "done"
	fenced   verdict = "fenced"
	conflict verdict = "conflict"
	failed   verdict = "failed"
)

func verdictOf(err error) verdict {
	switch {
	case err == nil:
		return done
	case errors.Is(err, workpull.ErrQueueFenced):
		return fenced
	case errors.Is(err, workpull.ErrQueueConflict):
		return conflict
	}
	return failed
}

// first is the first write of a job, as a store is answered.
type first struct {
	sequence uint64
	payload  payload
	already  bool
}

// answer is a queue's answer to a store.
type answer struct {
	first
	dropped bool
}

// held is a job that a load returned.
type held struct {
	job
	accepted, paged bool
	progress        string // canonical
}

// told is what a queue says of a job that may be completed.
type told struct {
	found    bool
	sequence uint64
	dropped  bool
}

// reply is a queue's answer to a call.
type reply struct {
	verdict  verdict
	err      error
	results  []answer
	payloads []payload
	// of completed; the time is not the model's
	completed told
	time      time.Time
	// of a load
	epoch, cursor uint64
	jobs          []held
}

// String shows the reply in a failure.
func (r reply) String() string {
	var b strings.Builder
	b.WriteString(string(r.verdict))
	if r.err != nil {
		fmt.Fprintf(&b, " (%v)", r.err)
	}
	few(&b, r.results, func(a answer) string {
		return fmt.Sprintf("%d holds %s, already %t, dropped %t", a.sequence, short(a.payload.value), a.already, a.dropped)
	})
	few(&b, r.payloads, func(p payload) string { return short(p.value) })
	if r.completed.found {
		fmt.Fprintf(&b, ", %d is completed, dropped %t", r.completed.sequence, r.completed.dropped)
	}
	if r.epoch != 0 {
		fmt.Fprintf(&b, ", epoch %d, cursor %d", r.epoch, r.cursor)
	}
	few(&b, r.jobs, func(j held) string {
		return fmt.Sprintf("%d %s holds %s, accepted %t, paged %t, progress %q", j.sequence, short(j.id), short(j.payload.value), j.accepted, j.paged, j.progress)
	})
	return b.String()
}
