package crash

import (
	"fmt"
	"maps"
	"slices"
)

// Verdict counts what happened.
type Verdict struct {
	Acknowledged, Runs, Repeated, Confirmed, Fenced, Restored int
	// Breaches are what must not have happened.
	Breaches []string
}

// job is what the log tells of one.
type job struct {
	acknowledged, ran, confirmed bool
	lastRun                      int // the life of its last run, 0 for none
}

// Judge finds what must not happen. The lines are those of all lives, the last of
// which did all that was left.
//
//   - A job that was acknowledged is done, whatever was killed (B1).
//   - A job runs again only after a kill, which came before its confirmation was
//     durable: never in the same life, and never after anybody was told that it is
//     confirmed (B10).
//   - What a fenced writer wrote is not there (rule 65).
func Judge(lines []Line) Verdict {
	var v Verdict
	breach := func(format string, args ...any) {
		if len(v.Breaches) < 20 {
			v.Breaches = append(v.Breaches, fmt.Sprintf(format, args...))
		}
	}
	jobs := map[string]*job{}
	fenced := map[string]bool{}
	for n, line := range lines {
		j := jobs[line.Job]
		if j == nil {
			j = &job{}
			jobs[line.Job] = j
		}
		switch line.Event {
		case Acknowledged:
			if !j.acknowledged {
				v.Acknowledged++
			}
			j.acknowledged = true
		case Run:
			v.Runs++
			switch {
			case j.confirmed:
				breach("line %d: %s runs again in life %d, and was confirmed before", n+1, line.Job, line.Life)
			case j.lastRun == line.Life:
				breach("line %d: %s runs twice in life %d", n+1, line.Job, line.Life)
			case j.lastRun > 0:
				v.Repeated++
			}
			if fenced[line.Job] {
				breach("line %d: %s runs, and its writer was fenced", n+1, line.Job)
			}
			j.lastRun = line.Life
		case Ran:
			j.ran = true
		case Confirmed:
			if !j.confirmed {
				v.Confirmed++
			}
			if !j.ran {
				breach("line %d: %s is confirmed, and no worker did it", n+1, line.Job)
			}
			j.confirmed = true
		case Fenced:
			v.Fenced++
			fenced[line.Job] = true
		case Unfenced:
			breach("line %d: %s was written by a writer that another had fenced", n+1, line.Job)
		case Restored:
			v.Restored++
		case Failed:
			breach("line %d: life %d failed: %s", n+1, line.Life, line.Job)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		if j := jobs[id]; j.acknowledged && !j.ran {
			breach("%s was acknowledged, and never done", id)
		}
	}
	return v
}
