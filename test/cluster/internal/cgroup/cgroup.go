// Package cgroup makes and removes the control groups in which kubelets put their pods, on cgroup v1, v2 and hybrid
// hosts.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Host is the machine's mounted hierarchies.
type Host struct {
	V1 bool // at least one controller is on cgroup v1, so kubelet and runc use v1

	mounts []mount
}

type mount struct {
	path   string
	v2     bool
	cpuset bool // v1 with the cpuset controller
}

// Detect reads which hierarchies are mounted.
func Detect() (Host, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Host{}, fmt.Errorf("read which cgroup hierarchies are mounted: %w", err)
	}
	h := parse(string(data))
	if len(h.mounts) == 0 {
		return Host{}, errors.New("no cgroup hierarchy is mounted")
	}
	return h, nil
}

func parse(mountinfo string) Host {
	var h Host
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		m := mount{path: left[4]}
		switch right[0] {
		case "cgroup":
			h.V1 = true
			m.cpuset = slices.Contains(strings.Split(right[2], ","), "cpuset")
		case "cgroup2":
			m.v2 = true
		default:
			continue
		}
		if !slices.ContainsFunc(h.mounts, func(o mount) bool { return o.path == m.path }) {
			h.mounts = append(h.mounts, m)
		}
	}
	return h
}

// Make makes the group in every hierarchy, as kubelet wants its cgroupRoot to be there before it starts.
func (h Host) Make(name string) error {
	for _, m := range h.mounts {
		dir := filepath.Join(m.path, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if m.cpuset {
			// A new v1 cpuset is empty, and nothing can run in it.
			for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
				if err := fill(filepath.Join(m.path, f), filepath.Join(dir, f)); err != nil {
					return err
				}
			}
		}
		if m.v2 && !h.V1 {
			if err := delegate(m.path); err != nil {
				return err
			}
		}
	}
	return nil
}

func fill(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the machine's cpuset: %w", err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		return fmt.Errorf("fill cpuset of the group: %w", err)
	}
	return nil
}

// delegate sees to it that groups below the root get the controllers that kubelet wants. An init system has usually
// done it; nothing is written then.
func delegate(root string) error {
	have, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read cgroup controllers: %w", err)
	}
	on, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err != nil {
		return fmt.Errorf("read delegated cgroup controllers: %w", err)
	}
	for _, c := range []string{"cpu", "cpuset", "memory", "pids", "io", "hugetlb"} {
		if !slices.Contains(strings.Fields(string(have)), c) || slices.Contains(strings.Fields(string(on)), c) {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("delegate cgroup controller %s below %s (in a container, its root group must hold no processes): %w", c, root, err)
		}
	}
	return nil
}

// Leftovers returns the groups whose name starts with prefix.
func (h Host) Leftovers(prefix string) ([]string, error) {
	return h.find(func(name string) bool { return strings.HasPrefix(name, prefix) })
}

func (h Host) find(match func(name string) bool) ([]string, error) {
	var found []string
	for _, m := range h.mounts {
		entries, err := os.ReadDir(m.path)
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() && match(e.Name()) {
				found = append(found, filepath.Join(m.path, e.Name()))
			}
		}
	}
	return found, nil
}

// Remove removes the groups whose name starts with prefix, and what is below them. Their processes have been killed
// already, but the kernel empties a group a moment later, so this waits until ctx ends.
func (h Host) Remove(ctx context.Context, prefix string) error {
	return removeAll(ctx, func() ([]string, error) { return h.Leftovers(prefix) })
}

// RemoveExactly removes the group of this name as Remove does.
func (h Host) RemoveExactly(ctx context.Context, name string) error {
	return removeAll(ctx, func() ([]string, error) { return h.find(func(n string) bool { return n == name }) })
}

func removeAll(ctx context.Context, find func() ([]string, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		tops, err := find()
		if err != nil || len(tops) == 0 {
			return err
		}
		var last error
		for _, top := range tops {
			if err := removeTree(top); err != nil {
				last = err
			}
		}
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove cgroups: %w", errors.Join(last, ctx.Err()))
		case <-tick.C:
		}
	}
}

// removeTree removes the deepest first: the files of a cgroup cannot be removed, only its empty folders.
func removeTree(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", top, err)
	}
	for _, dir := range slices.Backward(dirs) {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}
