package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/workpull/operator/bench/internal/clock"
	"github.com/workpull/operator/bench/internal/series"
	"github.com/workpull/operator/bench/internal/testbed"
	"github.com/workpull/operator/workpull"
)

// workerConfig is what a worker process is told on its command line.
type workerConfig struct {
	producer int // port of the producer's node
	window   int
	work     time.Duration // for which each job sleeps
	stamps   bool          // report how old the jobs' stamps are
	name     string
	profile  string
}

// tally is what a worker process says of itself when asked, and at its end.
type tally struct {
	Done int64         `json:"done"` // jobs
	CPU  time.Duration `json:"cpu"`  // processor time used
	// Ages of the jobs' stamps at delivery, at the end and if they are wanted.
	Ages []time.Duration `json:"ages,omitempty"`
}

func (c workerConfig) args() []string {
	return []string{
		workerRole, "-producer", strconv.Itoa(c.producer), "-window", strconv.Itoa(c.window),
		"-work", c.work.String(), "-stamps=" + strconv.FormatBool(c.stamps), "-name", c.name, "-profile", c.profile,
	}
}

func parseWorker(args []string) (c workerConfig, err error) {
	flags := flag.NewFlagSet(workerRole, flag.ContinueOnError)
	flags.IntVar(&c.producer, "producer", 0, "port of the producer's node")
	flags.IntVar(&c.window, "window", testbed.DefaultWindow, "jobs that the worker asks for")
	flags.DurationVar(&c.work, "work", 0, "for how long each job sleeps")
	flags.BoolVar(&c.stamps, "stamps", false, "report how old the jobs' stamps are")
	flags.StringVar(&c.name, "name", "worker", "name of the endpoint")
	flags.StringVar(&c.profile, "profile", "", "beginning of the profiles' names")
	return c, flags.Parse(args)
}

// runWorker is a worker process: an attached worker that answers each line on
// its standard input with its tally, and ends with its input.
func runWorker(ctx context.Context, args []string) error {
	c, err := parseWorker(args)
	if err != nil {
		return err
	}
	return series.Profiled(c.profile, func() (err error) {
		n, err := testbed.StartRemote(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.Stop(ctx)) }()
		var (
			done atomic.Int64
			ages []time.Duration
		)
		w := &testbed.Sink{Done: &done, Handle: func(d *workpull.Delivery) {
			if c.stamps {
				ages = append(ages, clock.Monotonic()-time.Duration(testbed.StampOf(d)))
			}
			if c.work > 0 {
				time.Sleep(c.work)
			}
		}}
		_, err = workpull.Spawn(ctx, n.System, c.name, w, testbed.Uncompressed(), workpull.AsReliableWorkPullingWorker(testbed.ProducerName,
			workpull.WithReliableRemoteProducer(testbed.Loopback, c.producer), workpull.WithReliableFlowControlWindow(c.window)))
		if err != nil {
			return err
		}
		answers := json.NewEncoder(os.Stdout)
		questions := bufio.NewScanner(os.Stdin)
		for questions.Scan() {
			if err := answers.Encode(tally{Done: done.Load(), CPU: clock.Processor()}); err != nil {
				return err
			}
		}
		t := tally{Done: done.Load()}
		t.Ages = ages // of the jobs counted: where they are wanted, no other is under way
		return errors.Join(questions.Err(), answers.Encode(t))
	})
}

// crew is a number of worker processes.
type crew []*workerProcess

// workerProcess is one of them, seen from the producer's process.
type workerProcess struct {
	cmd     *exec.Cmd
	input   io.WriteCloser
	answers *json.Decoder
	frozen  bool
	ended   bool
}

// startCrew starts worker processes. They end with this one, however it ends.
func startCrew(ctx context.Context, r *series.Run, workers int, c workerConfig) (crew, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var all crew
	for i := range workers {
		c.name = fmt.Sprintf("worker-%d", i)
		if r.Profile != "" {
			c.profile = r.Profile + "." + c.name
		}
		p, err := startProcess(ctx, self, c)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start %s: %w", c.name, err), all.stop())
		}
		all = append(all, p)
	}
	return all, nil
}

func startProcess(ctx context.Context, self string, c workerConfig) (*workerProcess, error) {
	cmd := exec.CommandContext(ctx, self, c.args()...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = series.Orphaned // one that is frozen does not see its input end
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &workerProcess{cmd: cmd, input: input, answers: json.NewDecoder(output)}, nil
}

// ask asks for the process's tally.
func (p *workerProcess) ask() (t tally, err error) {
	if _, err := io.WriteString(p.input, "\n"); err != nil {
		return t, err
	}
	return t, p.answers.Decode(&t)
}

// freeze stops the process with everything in it.
func (p *workerProcess) freeze() error {
	p.frozen = true
	return p.cmd.Process.Signal(syscall.SIGSTOP)
}

// end ends the process and takes its last tally.
func (p *workerProcess) end() (t tally, err error) {
	p.ended = true
	if p.frozen {
		err = p.cmd.Process.Signal(syscall.SIGCONT)
	}
	err = errors.Join(err, p.input.Close(), p.answers.Decode(&t))
	return t, errors.Join(err, p.cmd.Wait())
}

// stop ends those that have not.
func (c crew) stop() error {
	var errs []error
	for _, p := range c {
		if !p.ended {
			_, err := p.end()
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// processor is the processor time that the processes have used.
func (c crew) processor() (time.Duration, error) {
	sum, err := c.sum()
	return sum.CPU, err
}

// sum adds the processes' tallies up.
func (c crew) sum() (sum tally, err error) {
	for _, p := range c {
		t, err := p.ask()
		if err != nil {
			return sum, fmt.Errorf("ask a worker process: %w", err)
		}
		sum.Done += t.Done
		sum.CPU += t.CPU
	}
	return sum, nil
}
