package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/workpull/operator/test/cluster/internal/box"
	"github.com/workpull/operator/test/cluster/internal/cgroup"
	"github.com/workpull/operator/test/cluster/internal/config"
	"github.com/workpull/operator/test/cluster/internal/debian"
)

// UpOptions say what cluster is wanted.
type UpOptions struct {
	Nodes   int // 0: as many as there are, or DefaultNodes
	APIPort int // on 127.0.0.1; 0: a free one
}

// DefaultNodes is how many nodes a new cluster gets when nobody says.
const DefaultNodes = 2

// Up brings the cluster up and returns when pods can run on every node and find each other by name. A healthy cluster
// is left as it is; what is left of a dead one is removed first.
func (c *Cluster) Up(ctx context.Context, o UpOptions) error {
	if o.Nodes < 0 || o.Nodes > config.MaxNodes {
		return fmt.Errorf("%d nodes: want 1 to %d", o.Nodes, config.MaxNodes)
	}
	if err := needRoot(); err != nil {
		return err
	}
	start := c.now()
	if err := debian.Ensure(ctx, c.out); err != nil {
		return err
	}
	b, err := c.builder()
	if err != nil {
		return err
	}
	binaries, err := b.Ensure(ctx)
	if err != nil {
		return err
	}
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if status.Healthy() {
		if o.Nodes != 0 && o.Nodes != len(status.Boxes)-1 {
			return fmt.Errorf("cluster %s is up with %d nodes, not %d: take it down first", c.name, len(status.Boxes)-1, o.Nodes)
		}
		c.say("cluster %s is already up\n%s", c.name, status)
		return nil
	}
	if err := c.remove(ctx); err != nil {
		return fmt.Errorf("remove what is left of cluster %s: %w", c.name, err)
	}
	images, err := c.ownImages(ctx, b, binaries)
	if err != nil {
		return err
	}
	if o.Nodes == 0 {
		o.Nodes = DefaultNodes
	}
	if err := c.create(ctx, o, settings{Nodes: o.Nodes, Images: images, Binaries: binaries}); err != nil {
		return fmt.Errorf("bring cluster %s up (what there is stays until `down` or the next `up`; logs are in %s): %w", c.name, filepath.Join(c.dir, "logs"), err)
	}
	c.timed(fmt.Sprintf("cluster %s is up", c.name), start)
	if status, err = c.Status(ctx); err != nil {
		return err
	}
	c.say("%s", status)
	return nil
}

func (c *Cluster) create(ctx context.Context, o UpOptions, s settings) error {
	start := c.now()
	for _, dir := range []string{"logs", "pki"} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			return fmt.Errorf("make the cluster's folder: %w", err)
		}
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.APIPort))
	if err != nil {
		return fmt.Errorf("take a port for the API server (choose another with --api-port): %w", err)
	}
	defer l.Close()
	listener := l.(*net.TCPListener)
	s.APIPort = listener.Addr().(*net.TCPAddr).Port
	if err := c.saveSettings(s); err != nil {
		return err
	}
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	cfg, err := c.config(s, host)
	if err != nil {
		return err
	}
	if err := cfg.Certificates(s.APIPort, c.now()); err != nil {
		return err
	}
	c.timed("certificates", start)
	if err := c.startSwitch(ctx); err != nil {
		return err
	}
	start = c.now()
	for _, name := range boxNames(s.Nodes) {
		if err := c.startBox(ctx, host, cfg, name); err != nil {
			return err
		}
	}
	c.timed("boxes started", start)
	if err := c.startForwarder(ctx, listener); err != nil {
		return err
	}
	return c.settle(ctx, s, cfg)
}

// settle waits until the started processes have become a cluster.
func (c *Cluster) settle(ctx context.Context, s settings, cfg config.Cluster) error {
	a, err := c.api(s)
	if err != nil {
		return err
	}
	if err := c.wait(ctx, "API server ready", apiLimit, c.logsOf(config.ControlBox, "etcd", "kube-apiserver"), a.ready); err != nil {
		return err
	}
	if err := c.applyDNS(ctx, cfg); err != nil {
		return err
	}
	for n := 1; n <= s.Nodes; n++ {
		if err := c.nodeReady(ctx, a, config.NodeName(n)); err != nil {
			return err
		}
	}
	if err := c.wait(ctx, "default ServiceAccount made", apiLimit, c.logsOf(config.ControlBox, "kube-controller-manager"), a.defaultAccount); err != nil {
		return err
	}
	logs := append(c.logsOf(config.ControlBox, "kube-controller-manager", "kube-scheduler"), c.logsOf("node1", "kubelet", "kube-proxy")...)
	return c.wait(ctx, "CoreDNS available", dnsLimit, logs, func(ctx context.Context) error { return a.dns(ctx, s.Nodes) })
}

func (c *Cluster) nodeReady(ctx context.Context, a *api, name string) error {
	return c.wait(ctx, name+" ready", nodeLimit, c.logsOf(name, "containerd", "images", "kubelet"), func(ctx context.Context) error {
		boot, err := os.ReadFile(box.BootIDFile(filepath.Join(c.dir, name)))
		if err != nil {
			return err
		}
		nodes, err := a.nodes(ctx)
		switch n := nodes[name]; {
		case err != nil:
			return err
		case n.bootID != strings.TrimSpace(string(boot)):
			// What the API server still knows of the node is of before its crash.
			return errors.New("its kubelet has not reported since the node was started")
		case n.ready != "True":
			return errors.New("its Ready condition is not True")
		}
		return nil
	})
}

func (c *Cluster) applyDNS(ctx context.Context, cfg config.Cluster) error {
	manifests, err := cfg.CoreDNS()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, cfg.Binaries["kubectl"], "apply", "--server-side", "-f", "-")
	cmd.Env, cmd.Stdin = c.kubectlEnv(), bytes.NewReader(manifests)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply the manifests of CoreDNS: %w\n%s", err, output)
	}
	return nil
}

// logsOf are the logs of a box's pid 1 and of some of its processes.
func (c *Cluster) logsOf(name string, processes ...string) []string {
	logs := []string{c.boxLog(name)}
	for _, p := range processes {
		logs = append(logs, filepath.Join(c.dir, "logs", name+"-"+p+".log"))
	}
	return logs
}
