package workpull_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"github.com/tochemey/goakt/v3/remote"

	"github.com/workpull/operator/workpull"
)

// envSwarm makes a process of this test binary one that hosts many attached
// workers: the producer's port, its own host, a name, how many systems.
const envSwarm = "WORKPULL_TEST_SWARM"

const (
	swarmSystems = 8                      // of one process, a worker in each
	swarmWork    = 100 * time.Millisecond // that a job takes
)

// swarmProcess starts its systems one after the other, as GoAkt wants it. It
// writes a line when all are up, and one when a job starts and when it ends,
// with the time in nanoseconds. It ends with its standard input.
func swarmProcess() error {
	var producer, systems int
	var host, name string
	if _, err := fmt.Sscan(os.Getenv(envSwarm), &producer, &host, &name, &systems); err != nil {
		return err
	}
	w := &worker{handle: func(_ *actor.ReceiveContext, d *workpull.Delivery) bool {
		fmt.Println("start", d.MessageID(), time.Now().UnixNano())
		time.Sleep(swarmWork) // the work
		fmt.Println("end", d.MessageID(), time.Now().UnixNano())
		return true
	}}
	for i := range systems {
		system, err := startOn(host)
		if err != nil {
			return err
		}
		if _, err := workpull.Spawn(context.Background(), system, fmt.Sprintf("%s-%d", name, i), w,
			uncompressed(), workpull.AsReliableWorkPullingWorker("dispatcher", workpull.WithReliableFlowControlWindow(4),
				workpull.WithReliableRemoteProducer("127.0.0.1", producer))); err != nil {
			return err
		}
	}
	fmt.Println("up")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// uncompressed: a new connection with compression costs milliseconds at either
// end, and every look-up has one.
func uncompressed() workpull.SpawnOption {
	return workpull.WithRemotingOptions(remote.WithRemotingCompression(remote.NoCompression))
}

// startOn starts a system on a free port of a host. Somebody else may take the
// port first.
func startOn(host string) (actor.ActorSystem, error) {
	for attempt := 1; ; attempt++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return nil, err
		}
		system, err := actor.NewActorSystem(systemName, actor.WithLogger(log.DiscardLogger), actor.WithRemote(remote.NewConfig(host, port, remote.WithCompression(remote.NoCompression))))
		if err != nil {
			return nil, err
		}
		if err = system.Start(context.Background()); err == nil || attempt == 5 {
			return system, err
		}
	}
}

// run is one run of a job.
type run struct {
	job           string
	by            *swarm
	started, ends int64 // nanoseconds; ends is 0 when it did not
}

// swarm is a process with many workers, on a loopback address of its own.
type swarm struct {
	host  string
	cmd   *exec.Cmd
	input io.Closer
	up    chan struct{} // closed
	read  chan struct{} // closed at the end of its output
	// Before its end, of the reader only.
	runs []*run

	killed int64 // nanoseconds, 0 when it was not
}

// startSwarm starts the number-th process.
func startSwarm(t *testing.T, number, producerPort int) *swarm {
	t.Helper()
	s := &swarm{host: fmt.Sprintf("127.0.%d.%d", 1+number/200, 1+number%200), up: make(chan struct{}), read: make(chan struct{})}
	s.cmd = exec.Command(os.Args[0], "-test.run=^$")
	s.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s p%d %d", envSwarm, producerPort, s.host, number, swarmSystems))
	s.cmd.Stderr = os.Stderr
	input, err := s.cmd.StdinPipe()
	require.NoError(t, err)
	s.input = input
	output, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	go func() {
		defer close(s.read)
		open := map[string]*run{}
		for lines := bufio.NewScanner(output); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			switch {
			case len(fields) == 1 && fields[0] == "up":
				close(s.up)
			case len(fields) == 3:
				at, _ := strconv.ParseInt(fields[2], 10, 64)
				if fields[0] == "start" {
					r := &run{job: fields[1], by: s, started: at}
					s.runs, open[r.job] = append(s.runs, r), r
				} else if r := open[fields[1]]; r != nil {
					r.ends = at
				}
			}
		}
	}()
	t.Cleanup(func() { s.end() })
	return s
}

// kill ends it without a word.
func (s *swarm) kill() {
	s.killed = time.Now().UnixNano()
	s.end()
}

func (s *swarm) end() {
	_ = s.cmd.Process.Kill()
	<-s.read
	_ = s.cmd.Wait()
	_ = s.input.Close()
}

// flow is a dispatcher that has a job for each request until it is stopped.
type flow struct {
	*dispatcher
	next    int
	stopped atomic.Bool
}

func (f *flow) Receive(ctx *actor.ReceiveContext) {
	if _, ok := ctx.Message().(*workpull.RequestNext); ok && !f.stopped.Load() {
		f.mu.Lock()
		f.jobs = append(f.jobs, fmt.Sprintf("job-%d", f.next))
		f.next++
		f.mu.Unlock()
	}
	f.dispatcher.Receive(ctx)
}

// Two hundred attached workers and more, each in an actor system of its own,
// come and are killed in bursts while jobs flow (B14). Every accepted job is
// confirmed once; a job that ran twice did so because the process that ran it
// before had been killed by then; nothing is left over.
func TestTwoHundredAttachedWorkersComeAndDie(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 40 processes")
	}
	const atFirst, bursts, perBurst = 25, 3, 5
	ctx := context.Background()
	home, err := startOn("127.0.0.1")
	require.NoError(t, err)
	t.Cleanup(func() { _ = workpull.Stop(ctx, home) })
	port := home.Port()
	f := &flow{dispatcher: newDispatcher()}
	producer, err := workpull.Spawn(ctx, home, "dispatcher", f, uncompressed(), workpull.AsReliableWorkPullingProducer(
		workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableCredits(8),
		workpull.WithReliableLease(time.Minute))) // the dead are found by other means, and the living are not judged by a busy machine
	require.NoError(t, err)
	goroutines, sockets := len(ours()), openSockets(t)

	began := time.Now()
	var all, alive []*swarm
	start := func(n int) {
		for range n {
			s := startSwarm(t, len(all), port)
			all, alive = append(all, s), append(alive, s)
		}
	}
	start(atFirst)
	await := func(what string, missing func(workpull.Snapshot) string) {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		text := missing(inspectProducer(t, producer))
		for ; text != "" && time.Now().Before(deadline); text = missing(inspectProducer(t, producer)) {
			<-time.After(20 * time.Millisecond)
		}
		require.Empty(t, text, what)
	}
	allBound := func(s workpull.Snapshot) string {
		return each(s, alive, "workers", func(workers, _ int) bool { return workers == swarmSystems })
	}
	gone := func(dead []*swarm) func(workpull.Snapshot) string {
		return func(s workpull.Snapshot) string {
			return each(s, dead, "workers though it is dead", func(workers, _ int) bool { return workers == 0 })
		}
	}
	lost := func(s *swarm) {
		if err := workpull.PeerLost(ctx, home, s.host, 0); err != nil {
			t.Error(err)
		}
	}
	await("the first ones come", allBound)
	require.GreaterOrEqual(t, len(inspectProducer(t, producer).Workers), 200)
	t.Logf("%d workers are bound after %v", atFirst*swarmSystems, time.Since(began))
	for burst := range bursts {
		dying := alive[:perBurst]
		alive = slices.Clone(alive[perBurst:])
		for _, s := range dying { // they end with jobs: what is at them stays there
			require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
		}
		await("the dying have jobs", func(s workpull.Snapshot) string {
			return each(s, dying, "jobs", func(_, jobs int) bool { return jobs > 0 })
		})
		told, untold := dying[:perBurst/2], dying[perBurst/2:]
		var group sync.WaitGroup
		for i, s := range dying {
			group.Go(func() {
				s.kill()
				if i < len(told) {
					lost(s)
				}
			})
		}
		start(perBurst)
		group.Wait()
		await("the others come", allBound)
		await("the end of these was told", gone(told))
		for _, s := range untold { // most were found by the next send
			lost(s)
		}
		await("the end of all was told", gone(dying))
		t.Logf("burst %d: %d died and %d came, %v", burst+1, perBurst*swarmSystems, perBurst*swarmSystems, time.Since(began))
	}
	f.stopped.Store(true)
	require.Eventually(t, func() bool {
		s := inspectProducer(t, producer)
		return s.Waiting+s.InFlight+s.Delayed+s.Dead == 0 && s.Confirmed == s.Accepted
	}, time.Minute, 20*time.Millisecond)
	s := inspectProducer(t, producer)
	for _, p := range alive {
		p.end()
		lost(p)
	}
	require.Eventually(t, func() bool { return len(inspectProducer(t, producer).Workers) == 0 }, patience, 20*time.Millisecond, "no binding is left")
	t.Logf("accepted %d, requeued %d, recalled %d, %v", s.Accepted, s.Requeued, s.Recalled, time.Since(began))

	require.EqualValues(t, len(f.stored), s.Accepted)
	runs := map[string][]*run{}
	for _, p := range all {
		for _, r := range p.runs {
			runs[r.job] = append(runs[r.job], r)
		}
	}
	twice := 0
	for job := range f.stored {
		require.Equal(t, 1, f.confirmed[job], "%s is confirmed once", job)
		list := runs[job]
		slices.SortFunc(list, func(a, b *run) int { return cmp.Compare(a.started, b.started) })
		require.True(t, slices.ContainsFunc(list, func(r *run) bool { return r.ends > 0 }), "%s was done by somebody", job)
		for i, r := range list[:len(list)-1] {
			require.NotZero(t, r.by.killed, "%s ran at %s, which lives, and then at %s", job, r.by.host, list[i+1].by.host)
			require.Greater(t, list[i+1].started, r.by.killed, "%s ran elsewhere before %s was killed", job, r.by.host)
			twice++
		}
		delete(runs, job)
	}
	require.Empty(t, runs, "nothing ran that was not accepted")
	require.GreaterOrEqual(t, s.Requeued, uint64(bursts*perBurst), "each that was killed had a job")
	t.Logf("%d runs were repeated", twice)

	noMoreOfOurs(t, goroutines)
	require.Eventually(t, func() bool { return openSockets(t) <= sockets }, patience, 100*time.Millisecond, "no connection is left")
}

// each tells of the first process that is not as it should be.
func each(s workpull.Snapshot, processes []*swarm, what string, right func(workers, jobs int) bool) string {
	workers, jobs := map[string]int{}, map[string]int{}
	for _, w := range s.Workers {
		host, _, _ := net.SplitHostPort(w.Host)
		workers[host]++
		jobs[host] += w.InFlight
	}
	for _, p := range processes {
		if !right(workers[p.host], jobs[p.host]) {
			return fmt.Sprintf("%s has %d workers and %d jobs: %s", p.host, workers[p.host], jobs[p.host], what)
		}
	}
	return ""
}

// openSockets counts those of this process.
func openSockets(t *testing.T) (n int) {
	t.Helper()
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	require.NoError(t, err)
	for _, e := range entries {
		if to, err := os.Readlink(fds + "/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
