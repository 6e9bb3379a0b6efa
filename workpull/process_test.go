package workpull_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"github.com/tochemey/goakt/v3/log"
	"github.com/tochemey/goakt/v3/remote"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/internal/testport"
	"github.com/workpull/operator/workpull"
)

// Environment of a worker process, which is this test binary again.
const (
	envProducer = "WORKPULL_TEST_PRODUCER_PORT"
	envPort     = "WORKPULL_TEST_PORT"
	envName     = "WORKPULL_TEST_NAME"
	envSleep    = "WORKPULL_TEST_SLEEP"
	envMember   = "WORKPULL_TEST_MEMBER" // gossip port, peers port, hosts
)

func TestMain(m *testing.M) {
	var run func() error
	switch {
	case os.Getenv(envMember) != "":
		run = memberProcess
	case os.Getenv(envSwarm) != "":
		run = swarmProcess
	case os.Getenv(envProducer) != "":
		run = workerProcess
	}
	if run != nil {
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// workerProcess is an attached worker. It writes a line per job and ends with
// its standard input.
func workerProcess() error {
	producer, err := strconv.Atoi(os.Getenv(envProducer))
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(os.Getenv(envPort))
	if err != nil {
		return err
	}
	pause, err := time.ParseDuration(os.Getenv(envSleep))
	if err != nil {
		return err
	}
	ctx := context.Background()
	system, err := actor.NewActorSystem(systemName, actor.WithLogger(log.DiscardLogger), actor.WithRemote(remote.NewConfig("127.0.0.1", port)))
	if err != nil {
		return err
	}
	if err := system.Start(ctx); err != nil {
		return err
	}
	w := &worker{handle: func(_ *actor.ReceiveContext, d *workpull.Delivery) bool {
		fmt.Println("start", d.MessageID())
		time.Sleep(pause)
		fmt.Println("end", d.MessageID())
		return true
	}}
	if _, err := workpull.Spawn(ctx, system, os.Getenv(envName), w, workpull.AsReliableWorkPullingWorker("dispatcher",
		workpull.WithReliableFlowControlWindow(10), workpull.WithReliableRemoteProducer("127.0.0.1", producer),
		workpull.WithReliableResendInterval(500*time.Millisecond))); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// process is a worker process.
type process struct {
	cmd    *exec.Cmd
	port   int
	starts chan string
	ended  atomic.Int64
}

func startProcess(t *testing.T, name string, producerPort int, pause time.Duration) *process {
	t.Helper()
	p := &process{port: testport.Free(t, 1)[0]}
	p.start(t, envProducer+"="+strconv.Itoa(producerPort), envPort+"="+strconv.Itoa(p.port), envName+"="+name, envSleep+"="+pause.String())
	return p
}

func (p *process) start(t *testing.T, env ...string) {
	t.Helper()
	p.starts = make(chan string, 1000)
	p.cmd = exec.Command(os.Args[0], "-test.run=^$")
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = os.Stderr
	input, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	output, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	var read sync.WaitGroup
	read.Add(1)
	go func() {
		defer read.Done()
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			var what, job string
			_, _ = fmt.Sscan(lines.Text(), &what, &job)
			switch what {
			case "start":
				select {
				case p.starts <- job:
				default:
				}
			case "end":
				p.ended.Add(1)
			}
		}
	}()
	t.Cleanup(func() {
		_ = input.Close()
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		read.Wait()
		_ = p.cmd.Wait()
	})
}

// S19, S27: the process of a busy worker is killed; its jobs run on a survivor
// in under two seconds.
func TestAKilledWorkerProcessLosesNothing(t *testing.T) {
	home, port := startRemote(t)
	d := newDispatcher(jobNames(10)...)
	producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableLease(time.Minute))
	victim := startProcess(t, "victim", port, time.Hour)
	<-victim.starts
	require.Eventually(t, func() bool { return inspectProducer(t, producer).InFlight == 10 }, patience, glance)
	l := newLedger()
	spawnWorker(t, home, "survivor", &worker{ledger: l})
	require.Eventually(t, func() bool { return len(inspectProducer(t, producer).Workers) == 2 }, patience, glance)

	killed := time.Now()
	require.NoError(t, victim.cmd.Process.Kill())
	_ = victim.cmd.Wait() // the kernel has closed its sockets
	require.NoError(t, workpull.PeerLost(context.Background(), home, "127.0.0.1", victim.port))
	require.Eventually(t, func() bool { return l.ran("job-0") == 1 }, patience, time.Millisecond)
	took := time.Since(killed)
	t.Logf("killed → runs on a survivor: %v", took)
	require.Less(t, took, 2*time.Second)
	require.Eventually(t, func() bool { return d.confirmations() == 10 }, patience, glance)
	s := inspectProducer(t, producer)
	require.EqualValues(t, 10, s.Requeued+s.Recalled, "what was buffered may have been recalled before the kill")
}

// The same without a report: the next send is refused, and a probe finds the
// process gone.
func TestAKilledWorkerProcessIsFoundByTheNextSend(t *testing.T) {
	home, port := startRemote(t)
	d := newDispatcher()
	producer := spawnProducer(t, home, d, workpull.WithReliableDeliveryConfirmation(), workpull.WithReliableLease(time.Minute))
	victim := startProcess(t, "victim", port, time.Hour)
	require.NoError(t, actor.Tell(context.Background(), producer, wrapperspb.String("first")))
	require.Equal(t, "first", <-victim.starts)
	require.NoError(t, victim.cmd.Process.Kill())
	_ = victim.cmd.Wait()
	survivor := spawnWorker(t, home, "survivor", &worker{})
	require.Eventually(t, func() bool { // what was on its way to the victim may have found it already
		s, err := workpull.WorkerStatus(context.Background(), survivor)
		return err == nil && s.Registered
	}, patience, glance)
	for _, job := range []string{"second", "third"} { // by round-robin, one goes to each
		require.NoError(t, actor.Tell(context.Background(), producer, wrapperspb.String(job)))
	}
	require.Eventually(t, func() bool { return d.confirmations() == 3 }, patience, glance)
}

// S39: a frozen worker process stops nobody else, and is back when it thaws.
// How little it slows the others is measured by `make bench-workpull`.
func TestAFrozenWorkerProcessStopsNobody(t *testing.T) {
	home, port := startRemote(t)
	d := &endless{dispatcher: newDispatcher()}
	producer := spawnProducer(t, home, d, workpull.WithReliableCredits(8), workpull.WithReliableLease(time.Hour))
	processes := make([]*process, 4)
	for i := range processes {
		processes[i] = startProcess(t, fmt.Sprintf("w%d", i), port, time.Millisecond)
	}
	require.Eventually(t, func() bool { return len(inspectProducer(t, producer).Workers) == 4 }, patience, glance)
	for _, p := range processes {
		<-p.starts
	}
	frozen := processes[3]
	require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGSTOP))
	var before [3]int64
	for i := range before {
		before[i] = processes[i].ended.Load()
	}
	require.Eventually(t, func() bool { // more than any of them held when it froze
		for i := range before {
			if processes[i].ended.Load() < before[i]+200 {
				return false
			}
		}
		return true
	}, patience, glance)
	require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGCONT))
	thawed := frozen.ended.Load()
	require.Eventually(t, func() bool { return frozen.ended.Load() >= thawed+200 }, patience, glance)
}

// endless is a dispatcher that never runs out of jobs.
type endless struct {
	*dispatcher
	next int
}

func (e *endless) Receive(ctx *actor.ReceiveContext) {
	if _, ok := ctx.Message().(*workpull.RequestNext); ok {
		e.mu.Lock()
		e.jobs = append(e.jobs, fmt.Sprintf("endless-%d", e.next))
		e.next++
		e.mu.Unlock()
	}
	e.dispatcher.Receive(ctx)
}
