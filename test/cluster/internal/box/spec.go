// Package box is what runs inside a box: a node of the cluster, or its control plane, in namespaces of its own on
// this machine. A box's pid 1 is this program. When it ends, the kernel ends every process in the box and drops its
// mounts and links, so that a crash leaves nothing to undo but cgroups and files.
package box

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// The first argument by which this program is told to be a box, a switch or a forwarder. With the second, the
// cluster's state folder, it identifies the process for as long as it lives.
const (
	InitCommand    = "box-init"
	SwitchCommand  = "switch-init"
	ForwardCommand = "forward-init"
)

// Spec is all that a box's pid 1 has to know.
type Spec struct {
	Name string // also the host name
	Dir  string // the box's own folder: its disk
	Logs string // where its processes log, as NAME-PROCESS.log

	Address string  // of eth0, as 198.18.0.1/24
	Routes  []Route // to the pods of the other nodes

	// Private folders are the box's own and not the machine's; they lie in Dir/fs.
	Private []string
	// Keep is a folder that stays visible at its path whatever is mounted above it.
	Keep string
	// Sysctls are shown to the box with these values, because kubelet would otherwise write them for the whole machine.
	Sysctls map[string]string

	Steps []Step // started in this order
}

// Route leads to a network of pods.
type Route struct{ To, Via string }

// Step is a process of the box.
type Step struct {
	Name string
	Args []string
	// After holds what must answer before the process is started: unix:PATH accepts, https://... answers 200.
	After []string
	// Once marks a process that must have succeeded before the next step; any other is started again when it ends.
	Once bool
}

func specFile(dir, name string) string { return filepath.Join(dir, name, "box.json") }

// Write puts the specification where the box's pid 1 looks for it.
func (s Spec) Write(clusterDir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode box %s: %w", s.Name, err)
	}
	if err := os.MkdirAll(filepath.Join(clusterDir, s.Name), 0o755); err != nil {
		return fmt.Errorf("make the folder of box %s: %w", s.Name, err)
	}
	if err := os.WriteFile(specFile(clusterDir, s.Name), data, 0o644); err != nil {
		return fmt.Errorf("write box %s: %w", s.Name, err)
	}
	return nil
}

func readSpec(clusterDir, name string) (Spec, error) {
	var s Spec
	data, err := os.ReadFile(specFile(clusterDir, name))
	if err != nil {
		return s, fmt.Errorf("read box %s: %w", name, err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("decode box %s: %w", name, err)
	}
	return s, nil
}
