package producer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
)

// patience is how long tests wait for what takes milliseconds.
const patience = 20 * time.Second

func free(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(testport.Free(t, 1)[0])
}

func settings(t *testing.T, set map[string]string) *Settings {
	t.Helper()
	given := map[string]string{
		podenv.Producer: "thumbs", podenv.RemotingPort: free(t), podenv.GossipPort: free(t), podenv.PeersPort: free(t),
		podenv.LinkPort: free(t), podenv.IntakePort: free(t), podenv.HealthPort: free(t), podenv.RetryInterval: "50ms",
	}
	for name, value := range set {
		given[name] = value
	}
	s := new(Settings)
	require.NoError(t, node.Parse(s, given))
	return s
}

// logs collects lines of JSON.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) line(t *testing.T, message string) map[string]any {
	t.Helper()
	for _, text := range strings.Split(l.String(), "\n") {
		if strings.Contains(text, message) {
			line := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(text), &line))
			return line
		}
	}
	require.Failf(t, "no such line", "%q in\n%s", message, l.String())
	return nil
}

// running is a producer's process in this one.
type running struct {
	base, health string
	logs         *logs
	stop         func() error
}

func start(t *testing.T, set map[string]string) *running {
	t.Helper()
	s := settings(t, set)
	r := &running{
		base:   "http://127.0.0.1:" + strconv.Itoa(s.IntakePort),
		health: "http://127.0.0.1:" + strconv.Itoa(s.HealthPort),
		logs:   &logs{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, s, node.NewLogger(r.logs, slog.LevelInfo)) }()
	var once sync.Once
	var err error
	r.stop = func() error {
		once.Do(func() {
			cancel()
			err = <-ended
		})
		return err
	}
	t.Cleanup(func() { _ = r.stop() })
	require.Eventually(t, func() bool {
		response, err := http.Get(r.health + podenv.ReadinessPath)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, patience, 10*time.Millisecond, "the producer becomes ready")
	return r
}

type answered struct {
	code   int
	header http.Header
	body   string
}

func (r *running) call(t *testing.T, method, path, body string, header ...string) answered {
	t.Helper()
	request, err := http.NewRequest(method, r.base+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "application/json", response.Header.Get("Content-Type"), string(text))
	return answered{response.StatusCode, response.Header, string(text)}
}

func (a answered) problem(t *testing.T) Problem {
	t.Helper()
	var p Problem
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	require.NotEmpty(t, p.Error)
	require.NotEmpty(t, p.Wanted)
	return p
}

func TestIntake(t *testing.T) {
	r := start(t, map[string]string{podenv.MaxPending: "3", podenv.MaxJobBytes: "100"})

	for name, test := range map[string]struct {
		method, path, body string
		header             []string
		code               int
		problem, wanted    string
	}{
		"too large":         {"POST", "/v1/jobs", strings.Repeat("x", 101), nil, 413, "the body is too large", "at most 100 bytes"},
		"id too long":       {"POST", "/v1/jobs", "x", []string{"Workpull-Id", strings.Repeat("i", 257)}, 400, "the id has 257 bytes", "at most 256 bytes"},
		"id not printable":  {"POST", "/v1/jobs?id=a%00b", "x", nil, 400, "the id is not printable", "printable"},
		"id not UTF-8":      {"POST", "/v1/jobs?id=%ff", "x", nil, 400, "the id is not printable", "printable"},
		"id blank":          {"POST", "/v1/jobs?id=%20", "x", nil, 400, "the id is blank", "printable"},
		"id reserved":       {"POST", "/v1/jobs?id=workpull:1", "x", nil, 400, "reserved", "printable"},
		"two ids":           {"POST", "/v1/jobs?id=a", "x", []string{"Workpull-Id", "b"}, 400, "two ids", "in one of them"},
		"content type":      {"POST", "/v1/jobs", "x", []string{"Content-Type", "//"}, 400, "Content-Type cannot be read", "a media type"},
		"content encoding":  {"POST", "/v1/jobs", "x", []string{"Content-Encoding", "gzip"}, 415, "gzip", "without Content-Encoding"},
		"a field twice":     {"POST", "/v1/jobs", "x", []string{"Workpull-Header-A", "1", "Workpull-Header-A", "2"}, 400, "comes 2 times", "each once"},
		"fields too large":  {"POST", "/v1/jobs", "x", []string{"Workpull-Header-A", strings.Repeat("x", 17<<10)}, 400, "1 headers", "16384 bytes"},
		"method":            {"PUT", "/v1/jobs", "x", nil, 405, "method PUT", "POST"},
		"method of a job":   {"DELETE", "/v1/jobs/a", "", nil, 405, "method DELETE", "GET"},
		"method of status":  {"POST", "/v1/status", "", nil, 405, "method POST", "GET"},
		"elsewhere":         {"GET", "/jobs", "", nil, 404, `nothing is at "/jobs"`, "/v1/jobs"},
		"a job not known":   {"GET", "/v1/jobs/none", "", nil, 404, `job "none" is not known`, "the queue is in memory"},
		"an escaped job id": {"GET", "/v1/jobs/a%2Fb", "", nil, 404, `job "a/b" is not known`, "since"},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.call(t, test.method, test.path, test.body, test.header...)
			require.Equal(t, test.code, a.code, a.body)
			p := a.problem(t)
			require.Contains(t, p.Error, test.problem)
			require.Contains(t, p.Wanted, test.wanted)
			if test.code == 405 {
				require.Equal(t, test.wanted, a.header.Get("Allow"))
			}
		})
	}

	t.Run("taken", func(t *testing.T) {
		a := r.call(t, "POST", "/v1/jobs", strings.Repeat("x", 100), "Workpull-Id", "a/b", "Content-Type", "image/png")
		require.Equal(t, 202, a.code, a.body)
		require.JSONEq(t, `{"id":"a/b","state":"waiting"}`, a.body)
		a = r.call(t, "POST", "/v1/jobs", "")
		require.Equal(t, 202, a.code, "an empty body is a job: %s", a.body)
		var given Submitted
		require.NoError(t, json.Unmarshal([]byte(a.body), &given))
		require.GreaterOrEqual(t, len(given.ID), 20, "a random id")

		var status JobStatus
		a = r.call(t, "GET", "/v1/jobs/a%2Fb", "")
		require.Equal(t, 200, a.code)
		require.NoError(t, json.Unmarshal([]byte(a.body), &status))
		require.Equal(t, Waiting, status.State)
		require.NotNil(t, status.Accepted)
		require.Nil(t, status.Confirmed)
	})

	t.Run("once by id", func(t *testing.T) {
		var group sync.WaitGroup
		codes := make([]int, 20)
		for i := range codes {
			group.Go(func() { codes[i] = r.call(t, "POST", "/v1/jobs?id=same", "x").code })
		}
		group.Wait()
		for _, code := range codes {
			require.Equal(t, 202, code)
		}
	})

	t.Run("too many", func(t *testing.T) {
		a := r.call(t, "POST", "/v1/jobs?id=fourth", "x")
		require.Equal(t, 429, a.code, a.body)
		require.Equal(t, "3 jobs wait", a.problem(t).Error)
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, after)
		require.Equal(t, 404, r.call(t, "GET", "/v1/jobs/fourth", "").code)
		require.Equal(t, 202, r.call(t, "POST", "/v1/jobs?id=same", "x").code, "a job that is known is not one more")
	})

	t.Run("status", func(t *testing.T) {
		var a answered
		var s Status
		require.Eventually(t, func() bool {
			a = r.call(t, "GET", "/v1/status", "")
			require.Equal(t, 200, a.code)
			s = Status{}
			require.NoError(t, json.Unmarshal([]byte(a.body), &s))
			return s.Accepted == 3
		}, patience, 10*time.Millisecond, "answers are up to %s old", inspectAge)
		require.Equal(t, "thumbs", s.Producer)
		require.Equal(t, "memory", s.Queue)
		require.Equal(t, "yes", s.Accepting)
		require.Equal(t, 3, s.Waiting)
		require.WithinDuration(t, time.Now(), s.Since, time.Minute)
		require.Contains(t, a.body, `"workers":[]`)
	})

	t.Run("metrics", func(t *testing.T) {
		response, err := http.Get(r.health + podenv.MetricsPath)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Contains(t, string(text), "\nworkpull_jobs_waiting 3\n")
		require.Contains(t, string(text), "\nworkpull_jobs_accepted_total 3\n")
		require.Contains(t, string(text), `workpull_intake_requests_total{code="429",method="POST"} 1`)
		problems, err := promlint.New(bytes.NewReader(text)).Lint()
		require.NoError(t, err)
		require.Empty(t, problems)
	})

	require.NoError(t, r.stop())
	lost := r.logs.line(t, "jobs that were accepted and not done are lost")
	require.EqualValues(t, 3, lost["lost"], "what a restart loses is reported, not hidden")
	require.Equal(t, "memory", lost["queue"])
	require.NotContains(t, r.logs.String(), "xxxx", "payloads are not logged")
}

// The intake answers before it takes jobs.
func TestIntakeIsClosedAtFirst(t *testing.T) {
	p, err := listen(settings(t, nil), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer p.end()
	r := &running{base: "http://127.0.0.1:" + strconv.Itoa(p.settings.IntakePort)}
	a := r.call(t, "POST", "/v1/jobs", "x")
	require.Equal(t, 503, a.code)
	require.Equal(t, "no job is taken now: the producer is starting", a.problem(t).Error)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	a = r.call(t, "GET", "/v1/status", "")
	require.Equal(t, 503, a.code)
	require.Contains(t, a.body, `"accepting":"the producer is starting"`)
	require.ErrorContains(t, p.ready(context.Background()), "starting")

	p.intake.close("the producer is stopping")
	a = r.call(t, "POST", "/v1/jobs", "x")
	require.Equal(t, 503, a.code)
	require.Contains(t, a.problem(t).Error, "stopping")
}

// A request whose body is still on its way at SIGTERM gets its answer, and the
// producer does not wait for one that never ends.
func TestStopAnswersWhatIsInFlight(t *testing.T) {
	r := start(t, nil)
	slow := func() net.Conn {
		connection, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		require.NoError(t, err)
		_, err = fmt.Fprintf(connection, "POST /v1/jobs?id=slow HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
		require.NoError(t, err)
		require.NoError(t, connection.SetReadDeadline(time.Now().Add(patience)))
		return connection
	}
	finishes, hangs := slow(), slow()
	defer finishes.Close()
	defer hangs.Close()
	// Both have reached their handlers once a later request is answered.
	require.Equal(t, 202, r.call(t, "POST", "/v1/jobs?id=first", "x").code)

	begun := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	require.Eventually(t, func() bool { return strings.Contains(r.logs.String(), "stopping") }, patience, time.Millisecond)
	a := r.call(t, "POST", "/v1/jobs?id=late", "x")
	require.Equal(t, 503, a.code, "new jobs are refused, not left without an answer")
	require.Equal(t, "no job is taken now: the producer is stopping", a.problem(t).Error)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	_, err := io.WriteString(finishes, "cd")
	require.NoError(t, err)
	text, err := io.ReadAll(finishes)
	require.NoError(t, err)
	require.Contains(t, string(text), "HTTP/1.1 202 Accepted")
	require.NoError(t, <-stopped)
	require.Less(t, time.Since(begun), 10*time.Second)
	require.EqualValues(t, 2, r.logs.line(t, "jobs that were accepted and not done are lost")["lost"])
}
