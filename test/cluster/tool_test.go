//go:build cluster

package cluster_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workpull/operator/test/cluster/internal/layout"
)

// tool is the built command; it works on clusters named for this test run only.
type tool struct {
	path string
	name string
}

func build(t *testing.T, name string) tool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a real cluster needs root")
	}
	return tool{goBuild(t, "./cmd/cluster"), name}
}

func goBuild(t *testing.T, pkg string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, output)
	}
	return out
}

func (c tool) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.path, append([]string{"--name", c.name}, args...)...)
}

func (c tool) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 15*time.Minute)
	defer cancel()
	start := time.Now()
	output, err := c.command(ctx, args...).CombinedOutput()
	t.Logf("cluster %s (%.1fs)\n%s", strings.Join(args, " "), time.Since(start).Seconds(), output)
	return string(output), err
}

func (c tool) run(t *testing.T, args ...string) string {
	t.Helper()
	output, err := c.try(t, args...)
	if err != nil {
		t.Fatalf("cluster %s: %v", strings.Join(args, " "), err)
	}
	return output
}

func (c tool) dir(t *testing.T) string {
	t.Helper()
	cache, err := layout.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	return cache.Cluster(c.name)
}

// machine is what of this machine a cluster must leave as it was.
type machine struct{ links, mounts, sysctls, firewall, folders string }

func lookAtMachine(t *testing.T) machine {
	t.Helper()
	output := func(args ...string) string {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", strings.Join(args, " "), err)
		}
		return string(out)
	}
	var links []string
	for line := range strings.Lines(output("ip", "-o", "link")) {
		links = append(links, strings.Fields(line)[1])
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var sysctls, folders []string
	for _, key := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "kernel/random/boot_id"} {
		value, err := os.ReadFile(filepath.Join("/proc/sys", key))
		if err != nil {
			t.Fatal(err)
		}
		sysctls = append(sysctls, key+"="+string(value))
	}
	for _, dir := range []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers", "/etc/cni", "/opt/cni", "/opt/containerd", "/usr/libexec/kubernetes", "/var/lib/containerd", "/run/containerd", "/run/kubernetes", "/run/netns"} {
		if _, err := os.Stat(dir); err == nil {
			folders = append(folders, dir)
		}
	}
	return machine{
		links: strings.Join(links, " "), mounts: string(mounts), sysctls: strings.Join(sysctls, ""),
		firewall: output("nft", "list", "ruleset"), folders: strings.Join(folders, " "),
	}
}

// leftovers are processes, cgroups, mounts and files that speak of the cluster.
func (c tool) leftovers(t *testing.T) []string {
	t.Helper()
	dir := c.dir(t)
	var left []string
	for _, pattern := range []string{"/proc/[0-9]*/cmdline", "/proc/[0-9]*/mountinfo"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f) // it may have ended meanwhile
			if err == nil && bytes.Contains(data, []byte(dir)) {
				left = append(left, f+": "+string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
			}
		}
	}
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "workpull-"+c.name+"-") {
			left = append(left, path)
		}
		return nil // others' cgroups come and go
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		left = append(left, dir)
	}
	return left
}

func (c tool) expectTrackless(t *testing.T, before machine) {
	t.Helper()
	if left := c.leftovers(t); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	expectSame(t, before)
}

func expectSame(t *testing.T, before machine) {
	t.Helper()
	if after := lookAtMachine(t); after != before {
		t.Errorf("the machine was changed:\nbefore %+v\nafter  %+v", before, after)
	}
}
