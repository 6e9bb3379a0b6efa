package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/queue/internal/crash"
	"github.com/workpull/operator/queue/internal/failpoint"
)

const (
	// kills of a backend, but for what KILLS says.
	kills = 40
	// jobs that a life makes, if it lives long enough.
	jobs = 2000
	// longest life until it is killed. A failpoint gets longer to be reached.
	longest, longer = 200 * time.Millisecond, 2 * time.Second
)

// TestKills: whenever the process of a producer is killed, no acknowledged job is
// lost, none runs again without a kill as its reason, none that is confirmed
// durably runs again, and what was fenced is not there (rule 65, B1, B10, S33).
func TestKills(t *testing.T) {
	child := build(t)
	for name, backend := range crash.Backends {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" {
				t.Setenv(crash.EnvPostgres, pgtest.New(t).Database(t))
			}
			dir := t.TempDir()
			v := &victim{t: t, child: child, backend: name, dir: dir}
			dice := rand.New(rand.NewPCG(1, uint64(len(name))))
			reached := map[string]int{}
			start := time.Now()
			for n := range count(t) {
				point := ""
				if n%2 == 1 {
					point = backend.Failpoints[n/2%len(backend.Failpoints)]
				}
				switch point {
				case "": // at any moment, also while it begins
					v.live("", time.Duration(dice.Int64N(int64(longest))))
				default:
					if v.live(fmt.Sprintf("%s:%d", point, 1+dice.IntN(3)), longer) {
						reached[point]++
					}
				}
			}
			t.Logf("%d kills in %s", count(t), time.Since(start).Round(time.Millisecond))
			v.finish()
			for _, point := range backend.Failpoints {
				if reached[point] == 0 && count(t) >= 2*len(backend.Failpoints) {
					t.Errorf("failpoint %s was never reached", point)
				}
			}
			t.Logf("failpoints reached: %v", reached)
			v.judge(backend)
		})
	}
}

// count is how many kills there are.
func count(t *testing.T) int {
	t.Helper()
	text := os.Getenv("KILLS")
	if text == "" {
		return kills
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("KILLS: %v", err)
	}
	return n
}

// build compiles the child with its failpoints.
func build(t *testing.T) string {
	t.Helper()
	child := filepath.Join(t.TempDir(), "child")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "failpoints", "-o", child, "./child").CombinedOutput()
	if err != nil {
		t.Fatalf("build the child: %v\n%s", err, out)
	}
	return child
}

// victim is a process that is killed again and again.
type victim struct {
	t                   *testing.T
	child, backend, dir string
	lives               int
}

func (v *victim) log() string    { return filepath.Join(v.dir, "log") }
func (v *victim) target() string { return filepath.Join(v.dir, "store") }

func (v *victim) command(ctx context.Context, made int, point string) (*exec.Cmd, *strings.Builder) {
	v.lives++
	c := exec.CommandContext(ctx, v.child)
	c.Env = append(os.Environ(), crash.EnvBackend+"="+v.backend, crash.EnvTarget+"="+v.target(), crash.EnvLog+"="+v.log(),
		crash.EnvLife+"="+strconv.Itoa(v.lives), crash.EnvJobs+"="+strconv.Itoa(made), failpoint.Variable+"="+point)
	said := &strings.Builder{}
	c.Stderr = said
	return c, said
}

// live lets it live until it kills itself at a failpoint, which live reports, or
// its time is over. It never ends otherwise.
func (v *victim) live(point string, longest time.Duration) (reached bool) {
	v.t.Helper()
	c, said := v.command(v.t.Context(), jobs, point)
	if err := c.Start(); err != nil {
		v.t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- c.Wait() }()
	var err error
	select {
	case err = <-over:
		reached = true
	case <-time.After(longest):
		if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			v.t.Fatal(err)
		}
		err = <-over
	}
	var exit *exec.ExitError
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !errors.As(err, &exit) || !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		v.t.Fatalf("life %d ended by itself: %v\n%s", v.lives, err, said)
	}
	return reached
}

// finish lets it do what is left.
func (v *victim) finish() {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	c, said := v.command(ctx, 0, "")
	if err := c.Run(); err != nil {
		v.t.Fatalf("the last life: %v\n%s", err, said)
	}
}

// judge reads what all lives wrote, and what is left in the queue.
func (v *victim) judge(backend crash.Backend) {
	v.t.Helper()
	f, err := os.Open(v.log())
	if err != nil {
		v.t.Fatal(err)
	}
	defer f.Close()
	lines, err := crash.ReadLog(f)
	if err != nil {
		v.t.Fatal(err)
	}
	verdict := crash.Judge(lines)
	for _, b := range verdict.Breaches {
		v.t.Error(b)
	}
	v.t.Logf("%d jobs acknowledged, %d runs, %d of them again after a kill, %d jobs told to be confirmed, %d writers fenced, %d backups restored",
		verdict.Acknowledged, verdict.Runs, verdict.Repeated, verdict.Confirmed, verdict.Fenced, verdict.Restored)
	if verdict.Acknowledged == 0 || verdict.Confirmed == 0 || verdict.Fenced == 0 {
		v.t.Error("too little happened for a verdict")
	}
	queue := backend.Open(v.target())
	state, _, err := queue.Load(v.t.Context())
	if err != nil || state.Len() > 0 {
		v.t.Errorf("%d jobs are left: %v", state.Len(), err)
	}
	if c, ok := queue.(interface{ Close() error }); ok {
		if err := c.Close(); err != nil {
			v.t.Error(err)
		}
	}
}
