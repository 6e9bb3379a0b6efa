package box

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be the hidden commands, as the real program is.
func TestMain(m *testing.M) {
	if hidden, err := Main(os.Args[1:]); hidden {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func eventually(t *testing.T, why string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); !done(); <-tick.C {
		if time.Since(start) > 30*time.Second {
			t.Fatalf("%s: not within 30s", why)
		}
	}
}

func start(t *testing.T, flags uintptr, args ...string) (*exec.Cmd, *os.File) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gate, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Stdin, cmd.Stderr = gate, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: flags}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = gate.Close()
	t.Cleanup(func() {
		_ = write.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, write
}

const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
}

// A box of plain shell commands: what they see is the box's, and the machine keeps its own.
func TestBoxIsSetUpAndKeepsItsProcesses(t *testing.T) {
	needRoot(t)
	cluster := t.TempDir()
	out := func(file string) string { return filepath.Join(cluster, file) }
	machineHost, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	private := fmt.Sprintf("/var/lib/workpull-test-%d", os.Getpid()) // is not there on the machine
	shell := func(script string) []string { return []string{"sh", "-c", script} }
	spec := Spec{
		Name: "node7", Dir: out("node7"), Logs: cluster, Keep: cluster,
		Address: "198.18.0.7/24", Routes: []Route{{To: "198.18.8.0/24", Via: "198.18.0.8"}},
		Private: []string{private}, Sysctls: map[string]string{"kernel/panic": "4711"},
		Steps: []Step{
			{Name: "look", Once: true, Args: shell("{ " + strings.Join([]string{
				"hostname", "cat /proc/sys/kernel/panic", "echo $$", "ls -A /run", "cat /proc/sys/kernel/random/boot_id",
				"touch " + private + "/kept", "ip -o route get 198.18.8.1",
			}, "; ") + "; } > " + out("seen"))},
			{Name: "fails-once", Once: true, Args: shell("test -e " + out("tried") + " || { touch " + out("tried") + "; exit 1; }")},
			{Name: "ends", Args: shell("echo x >> " + out("runs"))},
			// Its child outlives it, becomes pid 1's and ends later.
			{Name: "orphans", Once: true, Args: shell("sh -c 'sleep 0.2; touch " + out("orphan-ended") + "' &")},
			{Name: "late", After: []string{"unix:" + out("socket")}, Args: shell("touch " + out("late") + "; sleep 1000")},
		},
	}
	if err := spec.Write(cluster); err != nil {
		t.Fatal(err)
	}
	cmd, gate := start(t, namespaces, InitCommand, cluster, "node7")
	plug := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", cmd.Process.Pid), "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")
	if output, err := plug.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if _, err := os.Stat(out("seen")); err == nil {
		t.Fatal("the box did not wait for the word")
	}
	if _, err := gate.Write([]byte{'.'}); err != nil {
		t.Fatal(err)
	}
	exists := func(file string) func() bool {
		return func() bool {
			_, err := os.Stat(out(file))
			return err == nil
		}
	}
	eventually(t, "the orphan ends", exists("orphan-ended"))
	data, err := os.ReadFile(out("seen"))
	if err != nil {
		t.Fatal(err)
	}
	seen := strings.Split(strings.TrimSpace(string(data)), "\n")
	if seen[0] != "node7" || seen[1] != "4711" {
		t.Errorf("host name and sysctl are %q", seen[:2])
	}
	if pid, err := strconv.Atoi(seen[2]); err != nil || pid > 1000 {
		t.Errorf("pid %q is not of the box's own namespace", seen[2])
	}
	if !strings.Contains(string(data), "via 198.18.0.8 dev eth0") {
		t.Errorf("no route to the other node's pods: %s", data)
	}
	boot, err := os.ReadFile(BootIDFile(spec.Dir))
	if err != nil || !strings.Contains(string(data), strings.TrimSpace(string(boot))) {
		t.Errorf("the boot id is not the box's own: %v", err)
	}
	if _, err := os.Stat(filepath.Join(spec.Dir, "fs", private, "kept")); err != nil {
		t.Errorf("what was written to a private folder is not on the box's disk: %v", err)
	}
	if _, err := os.Stat(private); err == nil {
		t.Error("a private folder was made on the machine")
	}
	if host, _ := os.Hostname(); host != machineHost {
		t.Errorf("the machine is now called %s", host)
	}
	if value, err := os.ReadFile("/proc/sys/kernel/panic"); err != nil || strings.TrimSpace(string(value)) == "4711" {
		t.Errorf("the machine's sysctl was changed: %s, %v", value, err)
	}
	eventually(t, "a process that ends is started again", func() bool {
		data, err := os.ReadFile(out("runs"))
		return err == nil && strings.Count(string(data), "x") >= 2
	})
	if exists("late")() {
		t.Error("a step was started before what it comes after")
	}
	listenUnix(t, out("socket"))
	eventually(t, "the step starts once its condition holds", exists("late"))
	eventually(t, "everything that ended is reaped", func() bool { return zombies(t, cmd.Process.Pid) == 0 })

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("the box's pid 1 ended on SIGTERM")
	}
}

func listenUnix(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		t.Fatal(err)
	}
}

// zombies counts the ended, unreaped children of a process.
func zombies(t *testing.T, parent int) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range stats {
		data, err := os.ReadFile(s)
		if err != nil {
			continue // ended meanwhile
		}
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if fields[0] == "Z" && fields[1] == strconv.Itoa(parent) {
			n++
		}
	}
	return n
}

// A tool that dies before it has given the word takes what it was starting with it.
func TestHiddenCommandsEndWithTheirTool(t *testing.T) {
	needRoot(t)
	cluster := t.TempDir()
	spec := Spec{Name: "node1", Dir: filepath.Join(cluster, "node1"), Logs: cluster, Keep: cluster}
	if err := spec.Write(cluster); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags uintptr
		args  []string
	}{
		{namespaces, []string{InitCommand, cluster, "node1"}},
		{unix.CLONE_NEWNET, []string{SwitchCommand, cluster}},
	} {
		cmd, gate := start(t, c.flags, c.args...)
		if err := gate.Close(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s ended as if all were well", c.args[0])
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s waits for a tool that is gone", c.args[0])
		}
	}
}

func TestMainKnowsOnlyHiddenCommands(t *testing.T) {
	for _, args := range [][]string{nil, {"up"}, {"box-init"}, {"box-init", "/x"}, {"up", "--nodes", "2"}, {"switch-init", "/x", "y"}} {
		if hidden, err := Main(args); hidden || err != nil {
			t.Errorf("%v: %t, %v", args, hidden, err)
		}
	}
}

func TestSpecIsReadAsWritten(t *testing.T) {
	dir := t.TempDir()
	want := Spec{Name: "node1", Dir: "/d", Steps: []Step{{Name: "a", Args: []string{"b", "c"}, After: []string{"unix:/s"}, Once: true}}}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readSpec(dir, "node1")
	if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := readSpec(dir, "node2"); err == nil {
		t.Error("an unknown box has a specification")
	}
}
