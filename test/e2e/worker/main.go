// Command worker is the worker of the end-to-end tests. A job's body says how
// long it takes and how it ends; the start and the end of each run are written
// to standard output and to a file that the tests read, so that they can prove
// who ran what when.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/runtime/worker"
)

// work is the body of a job.
type work struct {
	// Sleep is how long the job takes.
	Sleep string `json:"sleep"`
	// Hold makes it last until the file release-<Hold>, or release, is among
	// the records.
	Hold string `json:"hold"`
	// Fail is the number of attempts that are rejected.
	Fail int `json:"fail"`
}

// record is one line.
type record struct {
	Event   string `json:"event"`
	Job     string `json:"job"`
	Attempt int    `json:"attempt"`
	Pod     string `json:"pod"`
	Boot    string `json:"boot"`
	Node    string `json:"node"`
	Time    int64  `json:"time"`
	Result  string `json:"result,omitempty"`
}

// holdPoll is how often a held job looks for its release.
const holdPoll = 5 * time.Millisecond

type recorder struct {
	out             io.Writer
	dir             string
	pod, boot, node string
}

func main() {
	log.SetFlags(0)
	if code := os.Getenv("E2E_EXIT"); code != "" {
		status, err := strconv.Atoi(code)
		if err != nil {
			log.Fatalf("E2E_EXIT is %q: want an exit status", code)
		}
		log.Printf("ending with status %d, as told", status)
		os.Exit(status)
	}
	r, err := newRecorder(os.Getenv("E2E_RECORDS"))
	if err != nil {
		log.Fatal(err)
	}
	worker.Main(r.handle)
}

func newRecorder(dir string) (*recorder, error) {
	r := &recorder{
		out: os.Stdout, dir: dir, boot: rand.Text()[:8],
		pod: os.Getenv(podenv.PodName), node: os.Getenv(podenv.NodeName),
	}
	if dir == "" {
		return nil, errors.New("E2E_RECORDS is not set: want the folder of records")
	}
	// Opened for appending, so that the lines of several workers never mix.
	file, err := os.OpenFile(filepath.Join(dir, "jobs.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("open the records: %w", err)
	}
	r.out = io.MultiWriter(file, os.Stdout)
	return r, nil
}

func (r *recorder) handle(ctx context.Context, job *worker.Job) error {
	if err := r.write("start", job, nil); err != nil {
		return err
	}
	err := r.do(ctx, job)
	return errors.Join(err, r.write("end", job, err))
}

func (r *recorder) do(ctx context.Context, job *worker.Job) error {
	var w work
	if err := json.Unmarshal(job.Body, &w); err != nil {
		return fmt.Errorf("decode job %s: %w", job.ID, err)
	}
	if job.Attempt <= w.Fail {
		return fmt.Errorf("attempt %d of job %s fails, as told", job.Attempt, job.ID)
	}
	if w.Sleep != "" {
		d, err := time.ParseDuration(w.Sleep)
		if err != nil {
			return fmt.Errorf("decode job %s: %w", job.ID, err)
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if w.Hold == "" {
		return nil
	}
	ticker := time.NewTicker(holdPoll)
	defer ticker.Stop()
	for !r.released(w.Hold) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (r *recorder) released(hold string) bool {
	for _, name := range []string{"release-" + hold, "release"} {
		if _, err := os.Stat(filepath.Join(r.dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

func (r *recorder) write(event string, job *worker.Job, result error) error {
	line := record{Event: event, Job: job.ID, Attempt: job.Attempt, Pod: r.pod, Boot: r.boot, Node: r.node, Time: time.Now().UnixNano()}
	if result != nil {
		line.Result = result.Error()
	}
	data, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a record: %w", err)
	}
	if _, err := r.out.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write a record: %w", err)
	}
	return nil
}
