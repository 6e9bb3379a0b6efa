package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/workpull/operator/test/cluster/internal/config"
)

// BoxStatus is the state of the control plane or of a node.
type BoxStatus struct {
	Name  string
	Pid   int    // of its pid 1 as the machine sees it; 0 if it does not run
	Ready string // True, False or Unknown
}

// Status is what can be seen of a cluster from outside.
type Status struct {
	Name       string
	Boxes      []BoxStatus // the control plane's first; none if there is no cluster
	Problems   []string    // why it is not healthy
	Kubeconfig string
}

// Healthy says whether everything that belongs to the cluster runs and is ready.
func (s Status) Healthy() bool { return len(s.Boxes) > 0 && len(s.Problems) == 0 }

// String renders a table for people.
func (s Status) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	if len(s.Boxes) > 0 {
		fmt.Fprintln(w, "NAME\tREADY\tPID")
	}
	for _, b := range s.Boxes {
		pid := "-"
		if b.Pid != 0 {
			pid = fmt.Sprint(b.Pid)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", b.Name, b.Ready, pid)
	}
	_ = w.Flush() // into memory
	for _, p := range s.Problems {
		fmt.Fprintf(&out, "not healthy: %s\n", p)
	}
	if s.Kubeconfig != "" {
		fmt.Fprintf(&out, "export KUBECONFIG=%s\n", s.Kubeconfig)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// Status looks at the cluster; that it is not up is no error.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	status := Status{Name: c.name}
	s, err := c.loadSettings()
	if errors.Is(err, ErrNotUp) {
		status.Problems = []string{err.Error()}
		return status, nil
	}
	if err != nil {
		return status, err
	}
	status.Kubeconfig = config.Cluster{Dir: c.dir}.AdminKubeconfig()
	problem := func(format string, args ...any) {
		status.Problems = append(status.Problems, fmt.Sprintf(format, args...))
	}
	for _, find := range []func() (int, error){c.switchPid, c.forwarderPid} {
		if _, err := find(); err != nil {
			problem("%v", err)
		}
	}
	ready, err := c.readiness(ctx, s)
	if err != nil {
		problem("API server: %v", err)
	}
	for _, name := range boxNames(s.Nodes) {
		b := BoxStatus{Name: name, Ready: "Unknown"}
		if r := ready[name]; r != "" {
			b.Ready = r
		}
		if b.Pid, err = c.boxPid(name); err != nil {
			problem("%v", err)
		} else if b.Ready != "True" {
			problem("%s is not ready", name)
		}
		status.Boxes = append(status.Boxes, b)
	}
	return status, nil
}

// readiness maps each box to its Ready status as far as the API server tells.
func (c *Cluster) readiness(ctx context.Context, s settings) (map[string]string, error) {
	a, err := c.api(s)
	if err != nil {
		return nil, err
	}
	if err := a.ready(ctx); err != nil {
		return nil, err
	}
	nodes, err := a.nodes(ctx)
	if err != nil {
		return nil, err
	}
	ready := map[string]string{config.ControlBox: "True"}
	for name, n := range nodes {
		ready[name] = n.ready
	}
	return ready, nil
}
