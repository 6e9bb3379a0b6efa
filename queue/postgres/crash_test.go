//go:build failpoints

package postgres_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/queue/internal/failpoint"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/workpull"
)

// Variables that make a process of the tests the one that is killed.
const (
	crashURL    = "WORKPULL_CRASH_URL"
	crashPrefix = "WORKPULL_CRASH_PREFIX" // of its MessageIDs
)

// TestCrashing is the process that is killed. It says on its standard output
// what it was told.
func TestCrashing(t *testing.T) {
	url := os.Getenv(crashURL)
	if url == "" {
		t.Skip("another test runs it")
	}
	q := open(t, url, "crash")
	_, epoch, err := q.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	large := payload(t, strings.Repeat("x", 12<<20)) // four of them are two statements
	var accepts []string
	for n := range 6 {
		p, width := payload(t, "x"), 8
		if n == 3 {
			p, width = large, 4
		}
		var ids []string
		for i := range width {
			ids = append(ids, fmt.Sprintf("%s-%d-%d", os.Getenv(crashPrefix), n, i))
		}
		confirms := accepts[:len(accepts)/2]
		results, err := q.Commit(t.Context(), epoch, workpull.NewWorkBatch(requests(t, p, ids...), accepts, confirms))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			fmt.Fprintln(os.Stdout, "told stored", ids[i], r.Sequence())
		}
		for _, id := range confirms {
			fmt.Fprintln(os.Stdout, "told done", id, 0)
		}
		accepts = ids
	}
}

// told is what such a process was told before it was killed.
type told struct {
	stored map[string]uint64
	done   map[string]bool
}

func (c *told) run(t *testing.T, url, prefix, point string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestCrashing$", "-test.v")
	cmd.Env = append(os.Environ(), crashURL+"="+url, crashPrefix+"="+prefix, failpoint.Variable+"="+point)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for s := bufio.NewScanner(out); s.Scan(); {
		lines = append(lines, s.Text())
		var what, id string
		var sequence uint64
		if n, _ := fmt.Sscanf(s.Text(), "told %s %s %d", &what, &id, &sequence); n != 3 {
			continue
		}
		if what == "done" {
			c.done[id] = true
		} else {
			c.stored[id] = sequence
		}
	}
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if killed := status.Signaled() && status.Signal() == syscall.SIGKILL; killed != (point != "") || point == "" && err != nil {
		t.Fatalf("the process of %q: %v\n%s", point, err, strings.Join(lines, "\n"))
	}
}

// audit loads the flow: all that was told is there, and beside it at most the
// commit that was on its way.
func (c *told) audit(t *testing.T, url string) {
	t.Helper()
	state, _, err := open(t, url, "crash").Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	untold := 0
	held := map[string]bool{}
	for _, m := range state.Messages() {
		id := m.MessageID()
		held[id] = true
		sequence, stored := c.stored[id]
		switch {
		case c.done[id]:
			t.Errorf("%s is done and is loaded", id)
		case !stored:
			untold++
		case sequence != m.Sequence():
			t.Errorf("%s has sequence %d, wanted %d", id, m.Sequence(), sequence)
		}
	}
	missing := 0
	for id := range c.stored {
		if !held[id] && !c.done[id] {
			missing++
		}
	}
	// The commit that nobody was told of may have stored eight and confirmed four.
	if untold != 0 && untold != 4 && untold != 8 || missing > 4 || missing > 0 && untold == 0 {
		t.Errorf("%d jobs that nobody was told of, %d that are not there", untold, missing)
	}
}

// TestS33Crash: a writer is killed at each of its steps. What it was told is
// there, its last commit is there whole or not at all, and the next writer goes
// on.
func TestS33Crash(t *testing.T) {
	for _, point := range []string{
		"postgres-before-commit:1", "postgres-before-commit:3", "postgres-after-commit:1", "postgres-after-commit:4",
		"postgres-between-statements:1", "postgres-between-statements:2",
		"postgres-load-locked", "postgres-load-before-commit", "postgres-load-after-commit",
		"postgres-migration-before-commit:1", "postgres-migration-before-commit:2", "postgres-migration-after-commit:1",
	} {
		t.Run(point, func(t *testing.T) {
			url := pgtest.Shared(t).Database(t)
			c := &told{stored: map[string]uint64{}, done: map[string]bool{}}
			if !strings.Contains(point, "migration") {
				if err := postgres.Migrate(t.Context(), url); err != nil {
					t.Fatal(err)
				}
			}
			c.run(t, url, "first", point)
			c.audit(t, url)
			c.run(t, url, "second", "")
			if len(c.stored) < 44 {
				t.Errorf("the next writer was told of %d jobs", len(c.stored))
			}
		})
	}
}
