//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// record is one line of what the workers wrote down: the start or the end of a
// run of a job. All nodes share this machine's clock.
type record struct {
	Event   string `json:"event"` // start or end
	Job     string `json:"job"`
	Attempt int    `json:"attempt"`
	Pod     string `json:"pod"`
	Boot    string `json:"boot"` // names the process
	Node    string `json:"node"`
	Time    int64  `json:"time"` // Unix time in ns
	Result  string `json:"result,omitempty"`
}

func (r record) String() string {
	return fmt.Sprintf("%s of %s (attempt %d) at %s/%s on %s %s", r.Event, r.Job, r.Attempt, r.Pod, r.Boot, r.Node, r.Result)
}

// recorded returns all lines so far. A worker writes each in one write, so that
// a line is whole or, if its process was killed, absent.
func (w *world) recorded() []record {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.records, "jobs.jsonl"))
	if !errors.Is(err, fs.ErrNotExist) {
		w.must(err, "read the records")
	}
	var out []record
	for line := range strings.Lines(string(data)) {
		var r record
		w.must(json.Unmarshal([]byte(line), &r), "decode the record "+line)
		out = append(out, r)
	}
	return out
}

// of returns the records of one kind of event, by job.
func (w *world) of(event string) map[string][]record {
	w.Helper()
	out := map[string][]record{}
	for _, r := range w.recorded() {
		if r.Event == event {
			out[r.Job] = append(out[r.Job], r)
		}
	}
	return out
}

// awaitRun waits until a job was started n times and returns its last start.
func (w *world) awaitRun(limit time.Duration, job string, n int) record {
	w.Helper()
	var last record
	w.eventually(limit, fmt.Sprintf("run %d of job %s", n, job), func() error {
		starts := w.of("start")[job]
		if len(starts) < n {
			return fmt.Errorf("it was started %d times", len(starts))
		}
		last = starts[len(starts)-1]
		return nil
	})
	return last
}

// ranOnce fails the test unless every job was started once and ended once.
func (w *world) ranOnce(jobs ...string) {
	w.Helper()
	starts, ends := w.of("start"), w.of("end")
	for _, job := range jobs {
		if len(starts[job]) != 1 || len(ends[job]) != 1 {
			w.Errorf("job %s: want one run, got %v %v", job, starts[job], ends[job])
		}
	}
}

// release lets the jobs that hold on a name end.
func (w *world) release(hold string) {
	w.Helper()
	w.must(os.WriteFile(filepath.Join(w.records, "release-"+hold), nil, 0o644), "release "+hold)
}

// releaseAll lets every job end, so that no worker has to be killed.
func (w *world) releaseAll() {
	w.Helper()
	if err := os.WriteFile(filepath.Join(w.records, "release"), nil, 0o644); err != nil {
		w.Errorf("release all jobs: %v", err)
	}
}
