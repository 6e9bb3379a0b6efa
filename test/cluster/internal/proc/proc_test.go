package proc

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the process that is looked for: with these arguments it only waits for the end of
// its input.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "stand-in" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// marker is unlike anything another process could have.
func marker(t *testing.T) string { return fmt.Sprintf("%s-%d", t.TempDir(), os.Getpid()) }

func standIn(t *testing.T, flags uintptr, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"stand-in"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	return cmd
}

func TestFindsOnlyWhatMatchesWholeArguments(t *testing.T) {
	dir := marker(t)
	want := standIn(t, 0, "box-init", dir, "node1")
	standIn(t, 0, "box-init", dir, "node10")
	standIn(t, 0, "box-init", dir+"x", "node1")
	standIn(t, 0, "switch-init", dir)
	standIn(t, 0, dir, "box-init", "node1")
	found, err := Find("box-init", dir, "node1")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Pid != want.Process.Pid {
		t.Errorf("found %+v, want pid %d only", found, want.Process.Pid)
	}
	if found, err := Find("box-init", dir); err != nil || len(found) != 2 {
		t.Errorf("found %+v, %v: want both of the folder", found, err)
	}
	if found, err := Find(); err != nil || len(found) != 0 {
		t.Errorf("nothing to look for found %d processes, %v", len(found), err)
	}
}

func TestKillEndsOnlyWhatMatches(t *testing.T) {
	dir := marker(t)
	victims := []*exec.Cmd{standIn(t, 0, "box-init", dir, "node1"), standIn(t, 0, "box-init", dir, "node2")}
	other := standIn(t, 0, "box-init", dir+"-other", "node1")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := Kill(ctx, "box-init", dir); err != nil {
		t.Fatal(err)
	}
	for _, v := range victims {
		if !Gone(v.Process.Pid) {
			t.Errorf("process %d lives", v.Process.Pid)
		}
	}
	if Gone(other.Process.Pid) {
		t.Error("a process of another folder was killed")
	}
	if err := Kill(ctx, "box-init", dir); err != nil {
		t.Errorf("nothing to kill: %v", err)
	}
}

// A pid may belong to another process by the time it is signalled.
func TestKillLooksAgainBeforeItSignals(t *testing.T) {
	dir := marker(t)
	p := standIn(t, 0, "box-init", dir)
	if err := killExactly(p.Process.Pid, []string{"box-init", dir + "-of-before"}); err != nil {
		t.Fatal(err)
	}
	if Gone(p.Process.Pid) {
		t.Error("a process that does not match was killed")
	}
}

func TestGoneIncludesUnreaped(t *testing.T) {
	p := standIn(t, 0, marker(t))
	if Gone(p.Process.Pid) {
		t.Fatal("a living process is gone")
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Not reaped: Wait is called at the end of the test only.
	deadline := time.Now().Add(10 * time.Second)
	for !Gone(p.Process.Pid) {
		if time.Now().After(deadline) {
			t.Fatal("an unreaped process never counts as gone")
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", p.Process.Pid)); err != nil {
		t.Error("it was reaped, so this test shows nothing")
	}
}

func TestFirstOfNamespace(t *testing.T) {
	if FirstOfNamespace(standIn(t, 0, marker(t)).Process.Pid) {
		t.Error("a process of this pid namespace passes for the first of another")
	}
	if os.Geteuid() != 0 {
		t.Skip("a pid namespace needs root")
	}
	if p := standIn(t, syscall.CLONE_NEWPID, marker(t)); !FirstOfNamespace(p.Process.Pid) {
		t.Error("the first process of a pid namespace is not known as such")
	}
}
