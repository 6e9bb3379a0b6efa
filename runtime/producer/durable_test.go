package producer

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"

	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/workpull"
)

func (r *running) status(t *testing.T) Status {
	t.Helper()
	var s Status
	a := r.call(t, "GET", "/v1/status", "")
	require.NoError(t, json.Unmarshal([]byte(a.body), &s))
	return s
}

func (r *running) job(t *testing.T, id string) JobStatus {
	t.Helper()
	a := r.call(t, "GET", "/v1/jobs/"+id, "")
	require.Equal(t, 200, a.code, a.body)
	var s JobStatus
	require.NoError(t, json.Unmarshal([]byte(a.body), &s))
	return s
}

func (r *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := http.Get(r.health + path)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// becomesReady waits for a producer that start did not wait for.
func (r *running) becomesReady(t *testing.T, why string) {
	t.Helper()
	require.Eventually(t, func() bool {
		code, _ := r.get(t, podenv.ReadinessPath)
		return code == http.StatusOK
	}, patience, 10*time.Millisecond, why)
}

// handler does jobs in the producer's own actor system.
type handler struct{ reject bool }

func (*handler) PreStart(*actor.Context) error { return nil }
func (*handler) PostStop(*actor.Context) error { return nil }

func (h *handler) Receive(ctx *actor.ReceiveContext) {
	d, ok := ctx.Message().(*workpull.Delivery)
	if !ok {
		return
	}
	if h.reject {
		if rejected, err := workpull.NewRejected(d, "no such printer"); err == nil {
			ctx.Tell(ctx.Sender(), rejected)
		}
		return
	}
	if confirmed, err := workpull.NewConfirmed(d); err == nil {
		ctx.Tell(ctx.Sender(), confirmed)
	}
}

// A client was told 202 for it: it is there after a restart of the process, can
// be asked for and posted again, counts as backlog, and is done once (S33).
func TestAcceptedJobsOutliveTheProcess(t *testing.T) {
	set := map[string]string{podenv.Queue: podenv.QueueEmbedded, podenv.QueueDir: filepath.Join(t.TempDir(), "queue"), podenv.MaxPending: "3"}
	first := start(t, set)
	for _, id := range []string{"a", "b", "c"} {
		require.Equal(t, 202, first.call(t, "POST", "/v1/jobs?id="+id, "x").code)
	}
	require.Equal(t, 429, first.call(t, "POST", "/v1/jobs?id=d", "x").code)
	require.NoError(t, first.stop())
	kept := first.logs.line(t, "jobs that were accepted and not done are in the queue")
	require.EqualValues(t, 3, kept["kept"])
	require.Equal(t, "embedded", kept["queue"])

	second := start(t, set)
	require.EqualValues(t, 3, second.logs.line(t, "jobs are taken")["backlog"])
	s := second.status(t)
	require.Equal(t, "embedded", s.Queue)
	require.Equal(t, 3, s.Waiting)
	require.Zero(t, s.Lost)
	known := second.job(t, "a")
	require.Equal(t, Waiting, known.State)
	require.Nil(t, known.Received, "when it came is not known here, and absent is not zero")
	require.Equal(t, 429, second.call(t, "POST", "/v1/jobs?id=d", "x").code, "the backlog of before counts")
	a := second.call(t, "GET", "/v1/jobs/d", "")
	require.Equal(t, 404, a.code)
	require.Contains(t, a.problem(t).Wanted, "the queue (embedded) holds")
	require.NoError(t, second.stop())

	set[podenv.MaxPending] = "10"
	third := start(t, set)
	require.Equal(t, 202, third.call(t, "POST", "/v1/jobs?id=a", "another body").code, "posted again: it is there")
	require.Equal(t, 3, third.status(t).Waiting, "and runs nothing twice")
	require.NoError(t, third.stop())
}

// inProcess is a producer whose parts a test can reach.
func inProcess(t *testing.T, s *Settings) (*process, *running) {
	t.Helper()
	r := &running{
		base:   "http://127.0.0.1:" + strconv.Itoa(s.IntakePort),
		health: "http://127.0.0.1:" + strconv.Itoa(s.HealthPort),
		logs:   &logs{},
	}
	p, err := listen(s, node.NewLogger(r.logs, slog.LevelInfo))
	require.NoError(t, err)
	return p, r
}

// runs lets it run until the test ends or stop is called.
func (r *running) runs(t *testing.T, p *process) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer p.end()
		ended <- p.run(ctx)
	}()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = r.stop() })
}

// spawnHandler adds a worker to the producer's own system.
func spawnHandler(t *testing.T, p *process, h *handler) {
	t.Helper()
	_, err := workpull.Spawn(context.Background(), p.node.System, "handler", h, workpull.AsReliableWorkPullingWorker(p.settings.Endpoint()))
	require.NoError(t, err)
}

// What was there before this process is done, and known as done.
func TestReloadedJobsAreDone(t *testing.T) {
	set := map[string]string{podenv.Queue: podenv.QueueEmbedded, podenv.QueueDir: filepath.Join(t.TempDir(), "queue")}
	first := start(t, set)
	require.Equal(t, 202, first.call(t, "POST", "/v1/jobs?id=a", "x").code)
	require.NoError(t, first.stop())

	p, second := inProcess(t, settings(t, set))
	second.runs(t, p)
	second.becomesReady(t, "the producer becomes ready")
	spawnHandler(t, p, &handler{})
	require.Eventually(t, func() bool { return second.job(t, "a").State == Done }, patience, 10*time.Millisecond)
	require.Equal(t, 200, second.call(t, "POST", "/v1/jobs?id=a", "x").code)
	require.NoError(t, second.stop())

	// The queue knows it for the deduplication window, whatever restarts (S35).
	third := start(t, set)
	known := third.job(t, "a")
	require.Equal(t, Done, known.State)
	require.NotNil(t, known.Confirmed)
	require.Equal(t, 202, third.call(t, "POST", "/v1/jobs?id=a", "x").code)
	require.Eventually(t, func() bool { return third.call(t, "POST", "/v1/jobs?id=a", "x").code == 200 }, patience, 10*time.Millisecond)
	require.Zero(t, third.status(t).Waiting, "it runs nothing again")
	require.NoError(t, third.stop())
}

// A job out of attempts is a dead letter, which is told and does not count as
// one that waits.
func TestDeadJobsAreToldAndDoNotWait(t *testing.T) {
	set := map[string]string{podenv.MaxAttempts: "2", podenv.Backoff: "10ms", podenv.BackoffMax: "10ms", podenv.MaxPending: "1"}
	p, r := inProcess(t, settings(t, set))
	r.runs(t, p)
	r.becomesReady(t, "the producer becomes ready")
	spawnHandler(t, p, &handler{reject: true})
	require.Equal(t, 202, r.call(t, "POST", "/v1/jobs?id=a", "x").code)
	require.Eventually(t, func() bool { return r.job(t, "a").State == Dead }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool { return r.call(t, "POST", "/v1/jobs?id=b", "x").code == 202 }, patience, inspectAge)
	require.Eventually(t, func() bool { return r.status(t).Dead == 2 }, patience, 10*time.Millisecond)
}

// A queue that cannot be opened closes the intake and says why, and is opened
// when that is over, without a restart of the process.
func TestQueueTroubleClosesTheIntakeAndEndsByItself(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volume")
	require.NoError(t, os.WriteFile(dir, []byte("a file where the folder should be"), 0o600))
	p, r := inProcess(t, settings(t, map[string]string{podenv.Queue: podenv.QueueEmbedded, podenv.QueueDir: filepath.Join(dir, "queue")}))
	r.runs(t, p)
	require.Eventually(t, func() bool { return strings.Contains(r.logs.String(), "it is tried again") }, patience, 10*time.Millisecond)
	a := r.call(t, "POST", "/v1/jobs?id=a", "x")
	require.Equal(t, 503, a.code)
	require.Equal(t, "no job is taken now: the queue fails", a.problem(t).Error)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	code, body := r.get(t, podenv.ReadinessPath)
	require.Equal(t, 503, code)
	require.Contains(t, body, "queue fails")
	_, metrics := r.get(t, podenv.MetricsPath)
	require.Regexp(t, `workpull_queue_errors_total [1-9]`, metrics)
	require.Contains(t, metrics, "workpull_producer_active 0")
	code, _ = r.get(t, podenv.LivenessPath)
	require.Equal(t, 200, code, "a restart would mend nothing")

	require.NoError(t, os.Remove(dir))
	r.becomesReady(t, "the producer recovers")
	require.Equal(t, 202, r.call(t, "POST", "/v1/jobs?id=a", "x").code)
	require.NoError(t, r.stop())
}

func TestSettingsOfQueues(t *testing.T) {
	for name, test := range map[string]struct {
		set  map[string]string
		want []string
	}{
		"no folder":         {map[string]string{podenv.Queue: "embedded"}, []string{podenv.QueueDir, "a folder"}},
		"no URL":            {map[string]string{podenv.Queue: "postgres"}, []string{podenv.QueueURL, "postgres://"}},
		"standby of memory": {map[string]string{podenv.Lease: "l"}, []string{podenv.Lease, "unless the queue is postgres"}},
		"unknown":           {map[string]string{podenv.Queue: "file"}, []string{podenv.Queue, "memory, embedded, postgres"}},
		"backoff":           {map[string]string{podenv.BackoffMax: "10ms"}, []string{podenv.BackoffMax, "no less than 1s"}},
		"no attempt":        {map[string]string{podenv.MaxAttempts: "0"}, []string{podenv.MaxAttempts, "from 1 to 1000"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.set[podenv.Producer] = "thumbs"
			err := node.Parse(new(Settings), test.set)
			require.Error(t, err)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// quietly posts a job and cares for no answer.
func (r *running) quietly(path string) error {
	response, err := http.Post(r.base+path, "text/plain", strings.NewReader("x"))
	if err != nil {
		return err
	}
	return response.Body.Close()
}
