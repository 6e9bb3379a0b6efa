package cluster

import (
	"context"
	"fmt"
	"os"

	"github.com/workpull/operator/test/cluster/internal/box"
	"github.com/workpull/operator/test/cluster/internal/cgroup"
	"github.com/workpull/operator/test/cluster/internal/proc"
)

// Down removes the cluster: its processes, and with them mounts and links, its cgroups, its files. It relies on
// nothing that Up has written, so that it also clears up after a crash, and succeeds if there is nothing.
func (c *Cluster) Down(ctx context.Context) error {
	start := c.now()
	if err := needRoot(); err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.remove(ctx); err != nil {
		return fmt.Errorf("take cluster %s down: %w", c.name, err)
	}
	c.timed(fmt.Sprintf("cluster %s is down", c.name), start)
	return nil
}

func (c *Cluster) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	for _, command := range []string{box.ForwardCommand, box.InitCommand, box.SwitchCommand} {
		if err := proc.Kill(ctx, command, c.dir); err != nil {
			return err
		}
	}
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	if err := host.Remove(ctx, c.cgroupPrefix()); err != nil {
		return err
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove the cluster's files: %w", err)
	}
	return nil
}
