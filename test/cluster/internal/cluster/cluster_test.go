package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workpull/operator/test/cluster/internal/cgroup"
	"github.com/workpull/operator/test/cluster/internal/layout"
)

func newCluster(t *testing.T, name string) (*Cluster, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	c, err := New(name, "", layout.Cache{Root: t.TempDir()}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return c, &out
}

func TestNothingIsUp(t *testing.T) {
	c, _ := newCluster(t, "none")
	status, err := c.Status(t.Context())
	if err != nil || status.Healthy() || !strings.Contains(status.String(), "none: the cluster is not up") {
		t.Errorf("status %q, %v", status, err)
	}
	if _, err := c.Kubeconfig(); !errors.Is(err, ErrNotUp) {
		t.Errorf("kubeconfig: %v", err)
	}
	if _, _, err := c.Kubectl(); !errors.Is(err, ErrNotUp) {
		t.Errorf("kubectl: %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := c.LoadImages(t.Context(), []string{"x.tar"}); !errors.Is(err, ErrNotUp) {
		t.Errorf("load-image: %v", err)
	}
	for action, do := range map[string]func(context.Context, string) error{"crash": c.Crash, "cut": c.Cut, "mend": c.Mend} {
		if err := do(t.Context(), "node1"); !errors.Is(err, ErrNotUp) {
			t.Errorf("%s: %v", action, err)
		}
	}
	if err := c.Down(t.Context()); err != nil {
		t.Errorf("down of nothing: %v", err)
	}
}

func TestNeedsRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("this is root")
	}
	c, _ := newCluster(t, "none")
	for action, err := range map[string]error{"up": c.Up(t.Context(), UpOptions{}), "down": c.Down(t.Context()), "crash": c.Crash(t.Context(), "node1")} {
		if err == nil || !strings.Contains(err.Error(), "need root") {
			t.Errorf("%s: %v", action, err)
		}
	}
}

func TestBadWishesAreRefused(t *testing.T) {
	if _, err := New("no/name", "", layout.Cache{}, &bytes.Buffer{}); err == nil {
		t.Error("a path is taken for a name")
	}
	c, _ := newCluster(t, "x")
	for _, n := range []int{-1, 201} {
		if err := c.Up(t.Context(), UpOptions{Nodes: n}); err == nil || !strings.Contains(err.Error(), "want 1 to 200") {
			t.Errorf("%d nodes: %v", n, err)
		}
	}
}

// What is left of a cluster whose machine or tool crashed: settings and files, no processes.
func dead(t *testing.T, c *Cluster) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(c.dir, "node1", "fs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.saveSettings(settings{Nodes: 2, APIPort: 1}); err != nil {
		t.Fatal(err)
	}
}

func TestDeadClusterIsKnownAsSuch(t *testing.T) {
	c, _ := newCluster(t, "dead")
	dead(t, c)
	status, err := c.Status(t.Context())
	if err != nil || status.Healthy() {
		t.Fatalf("healthy: %v, %v", status, err)
	}
	if len(status.Boxes) != 3 || status.Boxes[2].Name != "node2" || status.Boxes[2].Ready != "Unknown" || status.Boxes[2].Pid != 0 {
		t.Errorf("boxes %+v", status.Boxes)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := c.Crash(t.Context(), "node7"); err == nil || !strings.Contains(err.Error(), `no node "node7": it has control, node1, node2`) {
		t.Errorf("crash of an unknown node: %v", err)
	}
	if err := c.Crash(t.Context(), "node1"); !errors.Is(err, ErrNotUp) {
		t.Errorf("crash of a dead node: %v", err)
	}
}

func TestHalfWrittenSettingsAreNoCluster(t *testing.T) {
	c, _ := newCluster(t, "half")
	dead(t, c)
	if err := os.WriteFile(c.settingsFile(), []byte(`{"nodes": 2,`), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, err := c.Status(t.Context()); err != nil || status.Healthy() {
		t.Errorf("%v, %v", status, err)
	}
}

// Down of a dead cluster removes its files and cgroups, and no other's.
func TestDownAfterACrash(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	c, _ := newCluster(t, fmt.Sprintf("d%d", os.Getpid()))
	other, _ := newCluster(t, c.name) // the same name in another cache
	host, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []*Cluster{c, other} {
		dead(t, each)
		if err := host.Make(each.cgroupPrefix() + "node1"); err != nil {
			t.Skipf("this machine's cgroups are not writable: %v", err)
		}
	}
	t.Cleanup(func() {
		if err := other.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := c.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.dir); err == nil {
		t.Error("its files are left")
	}
	if left, err := host.Leftovers(c.cgroupPrefix()); err != nil || len(left) != 0 {
		t.Errorf("its cgroups are left: %v, %v", left, err)
	}
	if left, err := host.Leftovers(other.cgroupPrefix()); err != nil || len(left) == 0 {
		t.Errorf("the other's cgroups are gone: %v", err)
	}
	if _, err := os.Stat(other.dir); err != nil {
		t.Error(err)
	}
}

func TestTimeoutNamesTheComponentAndItsLastWords(t *testing.T) {
	c, out := newCluster(t, "x")
	log := filepath.Join(t.TempDir(), "etcd.log")
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	if err := os.WriteFile(log, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	err := c.wait(t.Context(), "API server ready", time.Millisecond, []string{log, log + "-absent"}, func(context.Context) error {
		return errors.New("connection refused")
	})
	var timeout *TimeoutError
	if !errors.As(err, &timeout) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"API server ready: not within 1ms: connection refused", "the end of " + log, "\nline 99"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %s", want, err)
		}
	}
	if strings.Contains(err.Error(), "line 80\n") {
		t.Error("the whole log is in the error")
	}
	if err := c.wait(t.Context(), "done", time.Minute, nil, func(context.Context) error { return nil }); err != nil || !strings.Contains(out.String(), "done") {
		t.Errorf("%v, said %q", err, out.String())
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.wait(cancelled, "x", time.Minute, nil, func(context.Context) error { return errors.New("no") }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSysResourceIsReadFromTheCapabilities(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n": true,
		"CapPrm:\t000001ffffffffff\nCapEff:\t000001fffeffffff\n":           false,
		"CapEff:\t0000000001000000\n":                                      true,
	} {
		if got, err := parseSysResource(status); err != nil || got != want {
			t.Errorf("%q: %t, %v", status, got, err)
		}
	}
	if _, err := parseSysResource("Name:\tx\n"); err == nil {
		t.Error("no capabilities are taken for some")
	}
}
