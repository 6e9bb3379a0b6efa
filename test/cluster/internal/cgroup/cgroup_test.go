package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseTellsV1V2AndHybridApart(t *testing.T) {
	const (
		tmpfs   = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
		cpu     = "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		cpuset  = "32 30 0:28 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
		named   = "33 30 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
		unified = "34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
		pure    = "35 24 0:31 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
		root    = "24 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
	)
	for name, c := range map[string]struct {
		mountinfo string
		v1        bool
		paths     []string
	}{
		"v1":          {root + tmpfs + cpu + cpuset + named, true, []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/systemd"}},
		"hybrid":      {root + tmpfs + cpuset + unified, true, []string{"/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/unified"}},
		"v2":          {root + pure, false, []string{"/sys/fs/cgroup"}},
		"seen twice":  {root + pure + pure, false, []string{"/sys/fs/cgroup"}},
		"none at all": {root, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := parse(c.mountinfo)
			if h.V1 != c.v1 || len(h.mounts) != len(c.paths) {
				t.Fatalf("got %+v", h)
			}
			for i, m := range h.mounts {
				if m.path != c.paths[i] || m.cpuset != strings.HasSuffix(m.path, "cpuset") {
					t.Errorf("mount %d is %+v, want %s", i, m, c.paths[i])
				}
			}
		})
	}
}

// On a v2 host, only what is missing is written, and on a hybrid one nothing: its v2 side has no controllers.
func TestMakeDelegatesOnlyMissingControllers(t *testing.T) {
	for name, c := range map[string]struct{ have, on, want string }{
		"an init system did":   {"cpuset cpu io memory pids", "cpuset cpu io memory pids", "cpuset cpu io memory pids"},
		"one is missing":       {"cpuset cpu io memory pids", "cpuset cpu io pids", "+memory"},
		"absent is not wanted": {"cpu memory", "cpu memory", "cpu memory"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			control := filepath.Join(root, "cgroup.subtree_control")
			for path, data := range map[string]string{filepath.Join(root, "cgroup.controllers"): c.have, control: c.on} {
				if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h := Host{mounts: []mount{{path: root, v2: true}}}
			if err := h.Make("workpull-x-node1"); err != nil {
				t.Fatal(err)
			}
			// A plain file keeps what was written last; the kernel's would add it.
			if got, _ := os.ReadFile(control); string(got) != c.want {
				t.Errorf("subtree_control was written: %q, want %q", got, c.want)
			}
			if _, err := os.Stat(filepath.Join(root, "workpull-x-node1")); err != nil {
				t.Error(err)
			}
		})
	}
}

// The real hierarchies of this machine: made, filled, used by a process, removed.
func TestMakeAndRemoveOnThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	h, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprintf("workpull-test-%d-", os.Getpid())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	t.Cleanup(func() {
		if err := h.Remove(context.WithoutCancel(ctx), prefix); err != nil {
			t.Error(err)
		}
	})
	for _, node := range []string{"node1", "node10"} {
		if err := h.Make(prefix + node); err != nil {
			t.Skipf("this machine's cgroups are not writable: %v", err)
		}
	}
	for _, m := range h.mounts {
		if err := os.MkdirAll(filepath.Join(m.path, prefix+"node1", "kubepods", "pod1"), 0o755); err != nil {
			t.Fatal(err)
		}
		if m.cpuset {
			if cpus, err := os.ReadFile(filepath.Join(m.path, prefix+"node1", "cpuset.cpus")); err != nil || strings.TrimSpace(string(cpus)) == "" {
				t.Errorf("cpuset is %q, %v: nothing could run in it", cpus, err)
			}
		}
	}
	if err := h.RemoveExactly(ctx, prefix+"node1"); err != nil {
		t.Fatal(err)
	}
	left, err := h.Leftovers(prefix)
	if err != nil || len(left) != len(h.mounts) {
		t.Errorf("left are %v, %v: want node10 in each of %d hierarchies", left, err, len(h.mounts))
	}
	if err := h.Remove(ctx, prefix); err != nil {
		t.Fatal(err)
	}
	if left, err := h.Leftovers(prefix); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
