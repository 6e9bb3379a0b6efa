// Package cluster brings a real Kubernetes cluster up on this machine, in boxes of its own, and takes it down without
// a trace.
package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/workpull/operator/test/cluster/internal/box"
	"github.com/workpull/operator/test/cluster/internal/build"
	"github.com/workpull/operator/test/cluster/internal/cgroup"
	"github.com/workpull/operator/test/cluster/internal/config"
	"github.com/workpull/operator/test/cluster/internal/debian"
	"github.com/workpull/operator/test/cluster/internal/layout"
)

// Cluster is one cluster of this machine, running or not.
type Cluster struct {
	name   string
	dir    string
	cache  layout.Cache
	source string // flag; found only when something is built
	out    io.Writer
	now    func() time.Time
}

// New names a cluster. Source may be empty (see layout.Source); what is done is reported to out.
func New(name, source string, cache layout.Cache, out io.Writer) (*Cluster, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, err
	}
	return &Cluster{name: name, dir: cache.Cluster(name), cache: cache, source: source, out: out, now: time.Now}, nil
}

// ErrNotUp is returned by what needs a running cluster.
var ErrNotUp = errors.New("the cluster is not up")

// settings is what has to be remembered about a cluster while it exists.
type settings struct {
	Nodes    int               `json:"nodes"`
	APIPort  int               `json:"apiPort"` // on the machine's own loopback
	Images   []string          `json:"images"`
	Binaries map[string]string `json:"binaries"`
}

func (c *Cluster) settingsFile() string { return filepath.Join(c.dir, "cluster.json") }

func (c *Cluster) saveSettings(s settings) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's settings: %w", err)
	}
	if err := os.WriteFile(c.settingsFile(), data, 0o644); err != nil {
		return fmt.Errorf("write the cluster's settings: %w", err)
	}
	return nil
}

func (c *Cluster) loadSettings() (settings, error) {
	var s settings
	data, err := os.ReadFile(c.settingsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s: %w", c.name, ErrNotUp)
	}
	if err != nil {
		return s, fmt.Errorf("read the cluster's settings: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: a half-written state (%w): %w", c.name, err, ErrNotUp)
	}
	return s, nil
}

// cgroupPrefix starts the name of every cgroup of this cluster and of no other, be it of the same name in another
// cache.
func (c *Cluster) cgroupPrefix() string {
	sum := sha256.Sum256([]byte(c.dir))
	return fmt.Sprintf("workpull-%s-%x-", c.name, sum[:4])
}

// config combines the settings with what is found out about this machine.
func (c *Cluster) config(s settings, host cgroup.Host) (config.Cluster, error) {
	plugins, err := debian.Plugins()
	if err != nil {
		return config.Cluster{}, err
	}
	capable, err := hasSysResource()
	if err != nil {
		return config.Cluster{}, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(c.dir, &st); err != nil {
		return config.Cluster{}, fmt.Errorf("look at the file system of %s: %w", c.dir, err)
	}
	return config.Cluster{
		Name: c.name, Dir: c.dir, Keep: c.cache.Root, Nodes: s.Nodes, CgroupPrefix: c.cgroupPrefix(),
		Images: s.Images, Binaries: s.Binaries,
		Machine: config.Machine{
			CgroupV1: host.V1, NoResource: !capable, OverlayState: st.Type == unix.OVERLAYFS_SUPER_MAGIC, CNIPlugins: plugins,
		},
	}, nil
}

func hasSysResource() (bool, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, fmt.Errorf("read this process's capabilities: %w", err)
	}
	return parseSysResource(string(data))
}

func parseSysResource(status string) (bool, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, "CapEff:"); ok {
			var caps uint64
			if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%x", &caps); err != nil {
				return false, fmt.Errorf("read this process's capabilities: %w", err)
			}
			return caps&(1<<unix.CAP_SYS_RESOURCE) != 0, nil
		}
	}
	return false, errors.New("read this process's capabilities: no CapEff in its status")
}

// lock keeps two tools from changing the same cluster at once.
func (c *Cluster) lock() (unlock func(), err error) {
	return c.cache.Lock("cluster-"+c.name, func() { c.say("waiting for another command on cluster %s to end", c.name) })
}

func (c *Cluster) builder() (build.Builder, error) {
	source, err := layout.Source(c.source)
	return build.Builder{Source: source, Cache: c.cache, Out: c.out}, err
}

func (c *Cluster) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// timed reports how long a step took.
func (c *Cluster) timed(what string, start time.Time) {
	c.say("%6.2fs  %s", c.now().Sub(start).Seconds(), what)
}

func needRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("namespaces, mounts and cgroups need root: run this as root")
	}
	return nil
}

// Build builds every binary that is missing from the cache.
func (c *Cluster) Build(ctx context.Context) error {
	b, err := c.builder()
	if err != nil {
		return err
	}
	bins, err := b.Ensure(ctx)
	if err != nil {
		return err
	}
	c.say("all %d binaries are in %s", len(bins), filepath.Join(c.cache.Root, "bin"))
	return nil
}

// Assets makes the folder for controller-runtime's envtest and returns its path.
func (c *Cluster) Assets(ctx context.Context) (string, error) {
	b, err := c.builder()
	if err != nil {
		return "", err
	}
	return b.Envtest(ctx)
}

// Kubeconfig is the path of the administrator's kubeconfig of a cluster that was brought up.
func (c *Cluster) Kubeconfig() (string, error) {
	if _, err := c.loadSettings(); err != nil {
		return "", err
	}
	return config.Cluster{Dir: c.dir}.AdminKubeconfig(), nil
}

// Kubectl returns the path of kubectl and the environment in which it speaks to the cluster.
func (c *Cluster) Kubectl() (path string, env []string, err error) {
	s, err := c.loadSettings()
	if err != nil {
		return "", nil, err
	}
	return s.Binaries["kubectl"], c.kubectlEnv(), nil
}

// kubectlEnv makes kubectl speak to this cluster and keep its cache where it goes with the cluster.
func (c *Cluster) kubectlEnv() []string {
	return append(os.Environ(), "KUBECONFIG="+config.Cluster{Dir: c.dir}.AdminKubeconfig(), "KUBECACHEDIR="+filepath.Join(c.dir, "kubectl"))
}

// boxNames lists the control plane's box and the nodes'.
func boxNames(nodes int) []string {
	names := []string{config.ControlBox}
	for n := 1; n <= nodes; n++ {
		names = append(names, config.NodeName(n))
	}
	return names
}

// boxLog is the log of a box's pid 1.
func (c *Cluster) boxLog(name string) string {
	return filepath.Join(c.dir, "logs", name+"-"+box.InitCommand+".log")
}
