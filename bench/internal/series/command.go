package series

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// Command is a program that runs a series. It starts itself for each run.
type Command struct {
	// Name of the program.
	Name string
	// Runs of each experiment, if nobody says otherwise.
	Runs int
	// Flags defines the program's own flags, if it has any. Each run has them
	// too.
	Flags func(flags *flag.FlagSet)
	// Experiments lists them all, once the flags are read.
	Experiments func() []Experiment
	// Roles are what else the program starts itself for, by its first argument.
	Roles map[string]func(ctx context.Context, args []string) error
}

// onceRole is the first argument of the process of one run.
const onceRole = "once"

// runLimit is how long one run may take before it counts as hung.
const runLimit = 5 * time.Minute

// cleanUp is how long it has then to end.
const cleanUp = 20 * time.Second

// Orphaned ends a process with the one that started it.
var Orphaned = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// Main runs the command until it is done or interrupted, and exits with 1 after
// an error.
func (c *Command) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := c.Start(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, c.Name+":", err)
		os.Exit(1)
	}
}

// Starts tells whether the arguments are those of a process that the command
// started, so that a test binary can be it as well.
func (c *Command) Starts(args []string) bool {
	return len(args) > 0 && (args[0] == onceRole || c.Roles[args[0]] != nil)
}

// Start runs the command with its arguments: a series, or the part of one that
// the first argument names.
func (c *Command) Start(ctx context.Context, args []string) error {
	if c.Starts(args) {
		if role := c.Roles[args[0]]; role != nil {
			return role(ctx, args[1:])
		}
		return c.once(ctx, args[1:])
	}
	own := c.own()
	flags := with(c.Name, own)
	runs := flags.Int("runs", c.Runs, "runs of each measure")
	pattern := flags.String("run", "", "regular expression that selects measures; all without it")
	out := flags.String("out", "", "file for the rows as JSON lines")
	profiles := flags.String("profile", "", "folder for a CPU and an allocation profile of each run and process (slows the runs down)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *runs < 1 || flags.NArg() > 0 {
		return fmt.Errorf("%d runs, arguments %q: wanted at least one run and no arguments", *runs, flags.Args())
	}
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if *profiles != "" {
		if err := os.MkdirAll(*profiles, 0o755); err != nil {
			return fmt.Errorf("-profile: %w", err)
		}
	}
	s := Series{Runs: *runs, Profiles: *profiles, Arguments: arguments(own), Experiments: Choose(c.Experiments(), wanted)}
	if len(s.Experiments) == 0 {
		return fmt.Errorf("-run %s: selects no measure", *pattern)
	}
	failed := s.Run(ctx)
	rows := s.Rows(wanted)
	if err := report(os.Stdout, rows, s.Notes()); err != nil {
		return errors.Join(failed, err)
	}
	if *out != "" {
		failed = errors.Join(failed, write(*out, rows))
	}
	return failed
}

// own are the program's own flags.
func (c *Command) own() *flag.FlagSet {
	own := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	if c.Flags != nil {
		c.Flags(own)
	}
	return own
}

// with begins a set of flags with those of another.
func with(name string, own *flag.FlagSet) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	own.VisitAll(func(f *flag.Flag) { flags.Var(f.Value, f.Name, f.Usage) })
	return flags
}

// arguments hands the values of flags on.
func arguments(own *flag.FlagSet) []string {
	var args []string
	own.VisitAll(func(f *flag.Flag) { args = append(args, "-"+f.Name+"="+f.Value.String()) })
	return args
}

// outcome is what a run says on its standard output.
type outcome struct {
	Values []float64 `json:"values"`
	Notes  []string  `json:"notes,omitempty"`
}

// once runs an experiment in a process of its own.
func (s *Series) once(ctx context.Context, e *Experiment, round int) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	args := append([]string{onceRole, "-experiment", e.Name}, s.Arguments...)
	if s.Profiles != "" {
		args = append(args, "-profile", filepath.Join(s.Profiles, fmt.Sprintf("%s.%d", Slug(e.Name), round)))
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, os.Stderr, Orphaned
	// Interrupted, so that it cleans up, and killed if it does not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = cleanUp
	if err := cmd.Run(); err != nil {
		return o, errors.Join(err, ctx.Err())
	}
	return o, json.Unmarshal(out.Bytes(), &o)
}

// once is that process.
func (c *Command) once(ctx context.Context, args []string) error {
	flags := with(onceRole, c.own())
	name := flags.String("experiment", "", "name of the experiment")
	profile := flags.String("profile", "", "beginning of the profiles' names")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, e := range c.Experiments() {
		if e.Name != *name {
			continue
		}
		r := &Run{Profile: *profile}
		values, err := e.Once(ctx, r)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(outcome{Values: values, Notes: r.notes})
	}
	return fmt.Errorf("no experiment %q", *name)
}
