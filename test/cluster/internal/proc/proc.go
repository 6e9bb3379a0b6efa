// Package proc finds and ends the processes that a cluster started, and only those.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one found by what its command line says. No pid files: they are stale as soon as a tool or a machine
// crashes, while the command line of a living process is always true.
type Process struct {
	Pid  int
	Args []string
}

// Find returns every living process whose command line holds these arguments one after the other.
func Find(args ...string) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if have := Args(pid); contains(have, args) && !Gone(pid) {
			found = append(found, Process{Pid: pid, Args: have})
		}
	}
	return found, nil
}

// Args is a process's command line; empty if there is no such process or it has ended.
func Args(pid int) []string {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(string(bytes.TrimSuffix(data, []byte{0})), "\x00")
}

func contains(have, want []string) bool {
	for i := 0; i+len(want) <= len(have); i++ {
		match := true
		for j := range want {
			match = match && have[i+j] == want[j]
		}
		if match {
			return len(want) > 0
		}
	}
	return false
}

// Gone says whether a process has ended. One that waits to be reaped has: some machines' first process reaps only now
// and then, and by then the kernel has long ended everything in its namespaces.
func Gone(pid int) bool {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	// The state follows the parenthesised name, which may hold anything.
	_, rest, ok := strings.Cut(string(data[max(0, bytes.LastIndexByte(data, ')')):]), " ")
	return !ok || strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// FirstOfNamespace says whether a process is pid 1 of a pid namespace below ours.
func FirstOfNamespace(pid int) bool {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			pids := strings.Fields(rest)
			return len(pids) > 1 && pids[len(pids)-1] == "1"
		}
	}
	return false
}

// Kill ends every process whose command line holds these arguments and waits until they are gone.
func Kill(ctx context.Context, args ...string) error {
	for {
		found, err := Find(args...)
		if err != nil || len(found) == 0 {
			return err
		}
		for _, p := range found {
			if err := killExactly(p.Pid, args); err != nil {
				return err
			}
		}
		for _, p := range found {
			if err := waitGone(ctx, p); err != nil {
				return err
			}
		}
	}
}

// killExactly holds the process by a descriptor while it looks once more, so that a pid that was given to another
// process in between is never signalled.
func killExactly(pid int, args []string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hold process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if !contains(Args(pid), args) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

func waitGone(ctx context.Context, p Process) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !Gone(p.Pid) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d (%s) does not end: %w", p.Pid, strings.Join(p.Args, " "), ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}
