package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/workpull/operator/test/cluster/internal/box"
	"github.com/workpull/operator/test/cluster/internal/cgroup"
	"github.com/workpull/operator/test/cluster/internal/config"
	"github.com/workpull/operator/test/cluster/internal/proc"
)

// Crash ends a node as a power cut does: everything in its box dies at once, its Node object and its disk stay. The
// box of the control plane can be crashed as well.
func (c *Cluster) Crash(ctx context.Context, name string) error {
	return c.onNode(name, func(settings) error {
		ctx, cancel := context.WithTimeout(ctx, downLimit)
		defer cancel()
		// The cable first: a machine without power says no farewell to those it was connected with, while the kernel
		// would close the connections of processes that are killed.
		if err := c.cable(ctx, name, "down"); err != nil {
			return err
		}
		if err := proc.Kill(ctx, box.InitCommand, c.dir, name); err != nil {
			return err
		}
		return c.removeCgroup(ctx, name)
	})
}

func (c *Cluster) removeCgroup(ctx context.Context, name string) error {
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	return host.RemoveExactly(ctx, c.cgroupPrefix()+name)
}

// Cut pulls a node's cable: its processes go on, and nothing reaches it or comes from it.
func (c *Cluster) Cut(ctx context.Context, name string) error {
	return c.onNode(name, func(settings) error { return c.cable(ctx, name, "down") })
}

func (c *Cluster) cable(ctx context.Context, name, state string) error {
	if _, err := c.boxPid(name); err != nil {
		return err
	}
	sw, err := c.switchPid()
	if err != nil {
		return err
	}
	return inNetwork(ctx, sw, "ip", "link", "set", portOf(name), state)
}

// Mend plugs a node's cable in again, or starts a crashed node, and waits until it is ready.
func (c *Cluster) Mend(ctx context.Context, name string) error {
	return c.onNode(name, func(s settings) error {
		_, err := c.boxPid(name)
		switch {
		case err == nil:
			if err := c.cable(ctx, name, "up"); err != nil {
				return err
			}
		case !errors.Is(err, ErrNotUp):
			return err
		default:
			if err := c.restart(ctx, s, name); err != nil {
				return err
			}
		}
		a, err := c.api(s)
		if err != nil {
			return err
		}
		if name == config.ControlBox {
			return c.wait(ctx, "API server ready", apiLimit, c.logsOf(name, "etcd", "kube-apiserver"), a.ready)
		}
		return c.nodeReady(ctx, a, name)
	})
}

func (c *Cluster) restart(ctx context.Context, s settings, name string) error {
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	cfg, err := c.config(s, host)
	if err != nil {
		return err
	}
	// Should the crash have been another's, its cgroups are still there.
	if err := c.removeCgroup(ctx, name); err != nil {
		return err
	}
	if err := os.Remove(box.BootIDFile(filepath.Join(c.dir, name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the last boot of %s: %w", name, err)
	}
	if name == config.ControlBox {
		// It keeps the network of the crashed box.
		if err := proc.Kill(ctx, box.ForwardCommand, c.dir); err != nil {
			return err
		}
	}
	if err := c.unplug(ctx, name); err != nil {
		return err
	}
	if err := c.startBox(ctx, host, cfg, name); err != nil || name != config.ControlBox {
		return err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.APIPort))
	if err != nil {
		return fmt.Errorf("take the API server's port again: %w", err)
	}
	defer l.Close()
	return c.startForwarder(ctx, l.(*net.TCPListener))
}

// unplug removes the cable of a crashed box. The kernel does so too, but in its own time.
func (c *Cluster) unplug(ctx context.Context, name string) error {
	sw, err := c.switchPid()
	if err != nil {
		return err
	}
	return c.wait(ctx, "cable of "+name+" removed", switchLimit, nil, func(ctx context.Context) error {
		if err := inNetwork(ctx, sw, "ip", "link", "show", portOf(name)); err != nil {
			return nil // it is gone
		}
		if err := inNetwork(ctx, sw, "ip", "link", "delete", portOf(name)); err != nil {
			return err
		}
		return errors.New("it was there until now")
	})
}

func (c *Cluster) onNode(name string, do func(settings) error) error {
	if err := needRoot(); err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	s, err := c.loadSettings()
	if err != nil {
		return err
	}
	if names := boxNames(s.Nodes); !slices.Contains(names, name) {
		return fmt.Errorf("cluster %s has no node %q: it has %s", c.name, name, strings.Join(names, ", "))
	}
	return do(s)
}
