package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/runtime/producer"
	"github.com/workpull/operator/runtime/worker"
)

// patience is how long tests wait for what takes milliseconds.
const patience = 30 * time.Second

// asWorker makes this test program a worker's process: its value names what
// the handler does.
const asWorker = "WORKPULL_TEST_HANDLER"

func TestMain(m *testing.M) {
	switch os.Getenv(asWorker) {
	case "":
		os.Exit(m.Run())
	case "hang":
		worker.Main(func(ctx context.Context, _ *worker.Job) error {
			<-ctx.Done()
			return ctx.Err()
		})
	default:
		worker.Main(func(context.Context, *worker.Job) error { return nil })
	}
}

func free(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(testport.Free(t, 1)[0])
}

// farm is a producer in this process, and its workers' settings.
type farm struct {
	t      *testing.T
	intake string
	ports  map[string]string
	stop   func()
}

func newFarm(t *testing.T, ports map[string]string) *farm {
	t.Helper()
	if ports == nil {
		ports = map[string]string{}
		for _, name := range []string{podenv.RemotingPort, podenv.GossipPort, podenv.PeersPort, podenv.LinkPort, podenv.IntakePort, podenv.HealthPort} {
			ports[name] = free(t)
		}
	}
	environment := map[string]string{podenv.Producer: "thumbs", podenv.RetryInterval: "50ms"}
	maps.Copy(environment, ports)
	s := new(producer.Settings)
	require.NoError(t, node.Parse(s, environment))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- producer.Run(ctx, s, slog.New(slog.DiscardHandler)) }()
	f := &farm{t: t, ports: ports, intake: "http://127.0.0.1:" + ports[podenv.IntakePort]}
	f.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(f.stop)
	require.Eventually(t, func() bool { return f.status().Accepting == "yes" }, patience, 10*time.Millisecond)
	return f
}

// worker is the environment of a worker of this farm.
func (f *farm) worker(set map[string]string) map[string]string {
	f.t.Helper()
	environment := map[string]string{
		podenv.Producer: "thumbs", podenv.ProducerHost: "127.0.0.1", node.ProducerPort: f.ports[podenv.RemotingPort],
		podenv.LinkPort: f.ports[podenv.LinkPort], podenv.RemotingPort: free(f.t), podenv.HealthPort: free(f.t),
		podenv.PodName: "pod-" + f.t.Name(), podenv.PodUID: "uid",
	}
	maps.Copy(environment, set)
	return environment
}

// run starts a worker in this process; stop ends it and returns how.
func (f *farm) run(handler worker.Handler, environment map[string]string, options ...worker.Option) (stop func() error) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	options = append([]worker.Option{worker.WithEnvironment(environment), worker.WithLogger(slog.New(slog.DiscardHandler))}, options...)
	go func() { ended <- worker.Run(ctx, handler, options...) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	f.t.Cleanup(func() { _ = stop() })
	return stop
}

func (f *farm) get(path string, into any) int {
	response, err := http.Get(f.intake + path)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	require.NoError(f.t, json.NewDecoder(response.Body).Decode(into))
	return response.StatusCode
}

func (f *farm) status() (s producer.Status) {
	f.get("/v1/status", &s)
	return s
}

func (f *farm) job(id string) (j producer.JobStatus) {
	f.get("/v1/jobs/"+url.PathEscape(id), &j)
	return j
}

func (f *farm) post(id, body string) {
	f.t.Helper()
	request, err := http.NewRequest("POST", f.intake+"/v1/jobs?id="+url.QueryEscape(id), strings.NewReader(body))
	require.NoError(f.t, err)
	request.Header.Set("Content-Type", "text/plain")
	request.Header.Set("Workpull-Header-Width", "64")
	response, err := http.DefaultClient.Do(request)
	require.NoError(f.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	require.Equal(f.t, 202, response.StatusCode, string(text))
}

func (f *farm) eventually(what string, condition func() bool) {
	f.t.Helper()
	require.Eventually(f.t, condition, patience, 5*time.Millisecond, what)
}

func ready(environment map[string]string) (int, string) {
	response, err := http.Get("http://127.0.0.1:" + environment[podenv.HealthPort] + podenv.ReadinessPath)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// ledger counts what handlers did.
type ledger struct {
	mu   sync.Mutex
	runs map[string][]worker.Job
}

func (l *ledger) note(job *worker.Job) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[string][]worker.Job{}
	}
	l.runs[job.ID] = append(l.runs[job.ID], *job)
	return len(l.runs[job.ID])
}

func (l *ledger) of(id string) []worker.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[id]
}

func TestJobsAreDone(t *testing.T) {
	f := newFarm(t, nil)
	f.post("before any worker", "hello")
	var did ledger
	environment := f.worker(map[string]string{podenv.Concurrency: "3", podenv.FlowControlWindow: "2"})
	stop := f.run(func(_ context.Context, job *worker.Job) error {
		did.note(job)
		return nil
	}, environment)
	for i := range 50 {
		f.post(strconv.Itoa(i), "body "+strconv.Itoa(i))
	}
	f.eventually("all are confirmed", func() bool { return f.status().Confirmed == 51 })
	for i := range 50 {
		require.Equal(t, []worker.Job{{
			ID: strconv.Itoa(i), Attempt: 1, Body: []byte("body " + strconv.Itoa(i)), ContentType: "text/plain",
			Header: map[string]string{"width": "64"},
		}}, did.of(strconv.Itoa(i)))
	}
	j := f.job("7")
	require.Equal(t, producer.Done, j.State)
	require.False(t, j.Confirmed.Before(*j.Accepted))
	s := f.status()
	require.Len(t, s.Workers, 3)
	for _, w := range s.Workers {
		require.Equal(t, "pod-TestJobsAreDone", w.Pod)
		require.Regexp(t, `^uid/[A-Z0-9]{10}/[012]$`, w.Identity)
	}
	metrics, err := http.Get("http://127.0.0.1:" + environment[podenv.HealthPort] + podenv.MetricsPath)
	require.NoError(t, err)
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "\nworkpull_worker_registered_endpoints 3\n")
	require.Contains(t, string(text), `workpull_worker_handler_duration_seconds_count{outcome="confirmed"} 51`)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)

	// A job that is known to be done is not done again.
	response, err := http.Post(f.intake+"/v1/jobs?id=7", "", strings.NewReader("again"))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 200, response.StatusCode)
	require.Len(t, did.of("7"), 1)

	require.NoError(t, stop())
	f.eventually("workers that left are no longer bound", func() bool { return len(f.status().Workers) == 0 })
}

// B3: an error or a panic rejects the job, which comes again later.
func TestRejectedJobComesAgain(t *testing.T) {
	f := newFarm(t, nil)
	var did ledger
	f.run(func(_ context.Context, job *worker.Job) error {
		switch n := did.note(job); {
		case n == 1 && job.ID == "error":
			return errors.New("not now")
		case n == 1 && job.ID == "panic":
			panic("not like this")
		}
		return nil
	}, f.worker(nil))
	f.post("error", "")
	f.post("panic", "")
	f.post("fine", "")
	f.eventually("all are confirmed", func() bool { return f.status().Confirmed == 3 })
	for id, attempts := range map[string][]int{"error": {1, 2}, "panic": {1, 2}, "fine": {1}} {
		var got []int
		for _, job := range did.of(id) {
			got = append(got, job.Attempt)
		}
		require.Equal(t, attempts, got, id)
	}
	require.EqualValues(t, 2, f.status().Rejected)
}

// S19, S28: the process of a busy worker is killed; its job runs on a survivor
// within two seconds, and the worker's place is free.
func TestKilledWorkerLosesNothing(t *testing.T) {
	f := newFarm(t, nil)
	environment := f.worker(map[string]string{asWorker: "hang", podenv.PodName: "victim", podenv.FlowControlWindow: "3"})
	victim := exec.Command(os.Args[0])
	for name, value := range environment {
		victim.Env = append(victim.Env, name+"="+value)
	}
	var output bytes.Buffer
	victim.Stderr = &output
	require.NoError(t, victim.Start())
	defer func() { _ = victim.Process.Kill() }()
	for _, id := range []string{"a", "b", "c"} {
		f.post(id, "")
	}
	f.eventually("the victim runs a job and holds two more", func() bool {
		s := f.status()
		return s.InFlight == 3 && s.Running == 1
	})
	require.Equal(t, producer.Running, f.job("a").State)
	require.Equal(t, "victim", f.job("a").Pod)
	require.Equal(t, 1, f.job("a").Attempt)

	var did ledger
	survivor := f.worker(map[string]string{podenv.PodUID: "other", podenv.PodName: "survivor"})
	f.run(func(_ context.Context, job *worker.Job) error {
		did.note(job)
		return nil
	}, survivor)
	f.eventually("the survivor is ready", func() bool { code, _ := ready(survivor); return code == 200 })
	killed := time.Now()
	require.NoError(t, victim.Process.Kill())
	f.eventually("its jobs are done", func() bool { return f.status().Confirmed == 3 })
	require.Less(t, time.Since(killed), 2*time.Second)
	for _, id := range []string{"a", "b", "c"} {
		require.Len(t, did.of(id), 1)
	}
	s := f.status()
	require.Len(t, s.Workers, 1)
	require.Equal(t, "survivor", s.Workers[0].Pod)
	_ = victim.Wait()
	require.NotContains(t, output.String(), `"level":"ERROR"`)
}

// S36: on a drain what runs is finished, what has not started goes to others
// at once.
func TestDrain(t *testing.T) {
	f := newFarm(t, nil)
	release, begun := make(chan struct{}), make(chan struct{}, 10)
	var first, second ledger
	environment := f.worker(map[string]string{podenv.FlowControlWindow: "3"})
	stop := f.run(func(_ context.Context, job *worker.Job) error {
		first.note(job)
		begun <- struct{}{}
		<-release
		return nil
	}, environment)
	for _, id := range []string{"a", "b", "c"} {
		f.post(id, "")
	}
	<-begun
	f.eventually("two wait behind the first", func() bool { return f.status().InFlight == 3 })
	// The other comes after the farewell: an idle one would have what waits
	// behind a recalled.
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	f.eventually("what has not started is handed back", func() bool { s := f.status(); return s.InFlight == 1 && s.Waiting == 2 })
	code, body := ready(environment)
	require.Equal(t, 503, code)
	require.Equal(t, "draining\n", body)
	f.run(func(_ context.Context, job *worker.Job) error {
		second.note(job)
		return nil
	}, f.worker(map[string]string{podenv.PodUID: "other"}))
	f.eventually("the others are done elsewhere while a runs", func() bool { return f.status().Confirmed == 2 })
	require.Empty(t, ended, "a still runs")
	close(release)
	require.NoError(t, <-ended)
	f.eventually("a is done by who began it", func() bool { return f.status().Confirmed == 3 })
	require.Len(t, first.of("a"), 1)
	require.Empty(t, second.of("a"))
	require.Len(t, second.of("b"), 1)
	require.Len(t, second.of("c"), 1)
}

// S37: the drain time-out is exact: a handler that goes on is interrupted then
// and neither before nor after, and its job goes to another worker.
func TestDrainTimeoutIsExact(t *testing.T) {
	f := newFarm(t, nil)
	clock := &drainClock{FakeClock: clocktesting.NewFakeClock(time.Now()), timers: make(chan time.Duration, 10)}
	begun, interrupted := make(chan struct{}, 1), make(chan struct{})
	stop := f.run(func(ctx context.Context, _ *worker.Job) error {
		begun <- struct{}{}
		<-ctx.Done()
		close(interrupted)
		return ctx.Err()
	}, f.worker(map[string]string{podenv.DrainTimeout: "10m"}), worker.WithClock(clock))
	f.post("a", "")
	<-begun
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	require.Equal(t, 10*time.Minute, <-clock.timers)
	f.eventually("it is no longer given jobs", func() bool {
		s := f.status()
		return len(s.Workers) == 1 && s.Workers[0].Draining
	})
	clock.Step(10*time.Minute - time.Nanosecond)
	select {
	case <-interrupted:
		t.Fatal("interrupted before the time-out")
	case err := <-ended:
		t.Fatalf("ended before the time-out: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	clock.Step(time.Nanosecond)
	<-interrupted
	require.Equal(t, time.Second, <-clock.timers, "handlers get a moment to return")
	clock.Step(time.Second)
	require.NoError(t, <-ended)

	var did ledger
	f.run(func(_ context.Context, job *worker.Job) error {
		did.note(job)
		return nil
	}, f.worker(map[string]string{podenv.PodUID: "other"}))
	f.eventually("the job is done elsewhere", func() bool { return f.job("a").State == producer.Done })
	require.Zero(t, f.status().Rejected, "an interruption is no rejection")
}

// drainClock reports the timers that are made.
type drainClock struct {
	*clocktesting.FakeClock
	timers chan time.Duration
}

func (c *drainClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.timers <- d
	return timer
}

// S38: readiness goes red while the worker is not registered; liveness stays.
func TestReadinessFollowsTheRegistration(t *testing.T) {
	f := newFarm(t, nil)
	environment := f.worker(map[string]string{podenv.Concurrency: "2"})
	stop := f.run(func(context.Context, *worker.Job) error { return nil }, environment)
	f.eventually("ready", func() bool { code, _ := ready(environment); return code == 200 })
	f.stop()
	f.eventually("not ready", func() bool {
		code, body := ready(environment)
		return code == 503 && strings.Contains(body, "0 of 2 endpoints are registered with producer thumbs")
	})
	response, err := http.Get("http://127.0.0.1:" + environment[podenv.HealthPort] + podenv.LivenessPath)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 200, response.StatusCode)

	// The producer comes back, and knows nothing of before.
	back := newFarm(t, f.ports)
	f.eventually("ready again", func() bool { code, _ := ready(environment); return code == 200 })
	back.post("after", "")
	f.eventually("it works", func() bool { return back.job("after").State == producer.Done })

	back.stop()
	begun := time.Now()
	require.NoError(t, stop())
	require.Less(t, time.Since(begun), 8*time.Second, "one that holds nothing does not wait for a producer that is gone")
}

// A pool of members beside attached workers, on one producer.
func TestMemberAndAttachedOnOneProducer(t *testing.T) {
	f := newFarm(t, nil)
	var did ledger
	handler := func(name string) worker.Handler {
		return func(_ context.Context, job *worker.Job) error {
			did.note(&worker.Job{ID: name})
			return nil
		}
	}
	member := f.worker(map[string]string{
		podenv.Membership: podenv.MembershipMember, podenv.ProducerHost: "", node.ProducerPort: "",
		podenv.GossipPort: free(t), podenv.PeersPort: free(t), podenv.PodUID: "member",
		node.Seeds: "127.0.0.1:" + f.ports[podenv.GossipPort],
	})
	attached := f.worker(map[string]string{podenv.PodUID: "attached"})
	// One after the other: GoAkt v3.14.0 writes a variable of its package when a
	// system begins to listen, which is a race between two in one process. A
	// worker's process has one.
	stop := f.run(handler("member"), member)
	f.eventually("the member is ready", func() bool { code, _ := ready(member); return code == 200 })
	f.run(handler("attached"), attached)
	f.eventually("the attached one is ready", func() bool { code, _ := ready(attached); return code == 200 })
	for i := range 40 {
		f.post(fmt.Sprintf("job-%d", i), "")
	}
	f.eventually("all are done", func() bool { return f.status().Confirmed == 40 })
	require.NotEmpty(t, did.of("member"))
	require.NotEmpty(t, did.of("attached"))
	require.Equal(t, 40, len(did.of("member"))+len(did.of("attached")))
	require.NoError(t, stop())
	f.eventually("the member has left", func() bool { return len(f.status().Workers) == 1 })
}

// A member that found its way into another cluster than the producer's ends,
// so that the process that follows can join the right one.
func TestMemberOfAnotherClusterEnds(t *testing.T) {
	f := newFarm(t, nil)
	// Gossip that takes connections and never answers: what a join meets when
	// the network is cut at the wrong moment.
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer deaf.Close()
	go func() {
		for {
			connection, err := deaf.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
		}
	}()
	environment := f.worker(map[string]string{
		podenv.Membership: podenv.MembershipMember, podenv.GossipPort: free(t), podenv.PeersPort: free(t), node.Seeds: deaf.Addr().String(),
	})
	time := clocktesting.NewFakeClock(time.Now())
	ended := make(chan error, 1)
	go func() {
		ended <- worker.Run(context.Background(), func(context.Context, *worker.Job) error { return nil },
			worker.WithEnvironment(environment), worker.WithLogger(slog.New(slog.DiscardHandler)), worker.WithClock(time))
	}()
	f.eventually("it works, in a cluster of its own", func() bool {
		_, body := ready(environment)
		return strings.Contains(body, "0 of 1 endpoints are registered") && time.HasWaiters()
	})
	f.eventually("it ends", func() bool {
		time.Step(5 * 1e9)
		return len(ended) == 1
	})
	require.ErrorContains(t, <-ended, "its cluster is another one")
}

func TestRunRefusesSettings(t *testing.T) {
	command := exec.Command(os.Args[0])
	command.Env = []string{asWorker + "=done", podenv.Producer + "=thumbs"}
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 2, exit.ExitCode())
	require.Equal(t, "setting WORKPULL_PRODUCER_HOST (--producer-host) is missing: want a DNS name or an address of the producer\n", string(output))
	require.ErrorContains(t, worker.Run(context.Background(), nil), "the handler is nil")
}
