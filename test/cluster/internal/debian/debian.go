// Package debian finds the programs that the cluster takes from Debian and installs what is missing.
package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// need is a file the cluster cannot do without and the package that brings it. Files, not the package database: a
// program installed by other means serves as well.
type need struct {
	pkg   string
	paths []string // any one of them is enough
}

func needs() []need {
	return []need{
		{"containerd", programs("containerd")},
		{"containerd", programs("ctr")},
		{"containerd", programs("containerd-shim-runc-v2")},
		{"runc", programs("runc")},
		{"containernetworking-plugins", plugins("ptp")},
		{"containernetworking-plugins", plugins("host-local")},
		{"containernetworking-plugins", plugins("portmap")},
		{"containernetworking-plugins", plugins("loopback")},
		{"iptables", programs("iptables")}, // the portmap plugin's and kubelet's
		{"nftables", programs("nft")},      // kube-proxy's
		{"iproute2", programs("ip")},
		{"conntrack", programs("conntrack")}, // kube-proxy cleans stale UDP flows with it
		{"util-linux", programs("nsenter")},
		{"mount", programs("mount")},
	}
}

// pluginFolders is where distributions and upstream put the CNI plugins.
var pluginFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// ProgramFolders is the search path of everything that runs for the cluster.
var ProgramFolders = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

func programs(name string) []string { return in(ProgramFolders, name) }
func plugins(name string) []string  { return in(pluginFolders, name) }

func in(folders []string, name string) []string {
	var paths []string
	for _, f := range folders {
		paths = append(paths, filepath.Join(f, name))
	}
	return paths
}

// Plugins is the folder that holds the CNI plugins.
func Plugins() (string, error) {
	for _, p := range plugins("ptp") {
		if exists(p) {
			return filepath.Dir(p), nil
		}
	}
	return "", fmt.Errorf("no CNI plugins in %s", strings.Join(pluginFolders, ", "))
}

// Missing names the Debian packages whose files are absent under root ("/" but in tests).
func Missing(root string) []string {
	var missing []string
	for _, n := range needs() {
		found := slices.ContainsFunc(n.paths, func(p string) bool { return exists(filepath.Join(root, p)) })
		if !found && !slices.Contains(missing, n.pkg) {
			missing = append(missing, n.pkg)
		}
	}
	slices.Sort(missing)
	return missing
}

func exists(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// MissingError names packages that have to be installed by hand.
type MissingError struct {
	Packages []string
	Why      string // why they were not installed
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("Debian packages are missing and were not installed (%s): run as root: apt-get install --no-install-recommends %s", e.Why, strings.Join(e.Packages, " "))
}

// Ensure installs what is missing if this is root on a machine with apt-get, and otherwise names it.
func Ensure(ctx context.Context, out io.Writer) error {
	missing := Missing("/")
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return &MissingError{missing, "not root"}
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return &MissingError{missing, "no apt-get here"}
	}
	quiet, err := noServices(policyFile)
	if err != nil {
		return err
	}
	defer quiet()
	fmt.Fprintf(out, "installing Debian packages: %s\n", strings.Join(missing, " "))
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	for _, args := range [][]string{{"update"}, install} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, output)
		}
	}
	if still := Missing("/"); len(still) > 0 {
		return &MissingError{still, "apt-get installed nothing that brings their files"}
	}
	return nil
}

const policyFile = "/usr/sbin/policy-rc.d"

const policy = "#!/bin/sh\n# Written by Workpull's test cluster while it installs packages, so that no service of theirs is started.\nexit 101\n"

// noServices keeps Debian's containerd from being started on the machine: invoke-rc.d and deb-systemd-invoke ask this
// file. A policy that is there already is the administrator's and stays, unless an interrupted run of ours left it.
func noServices(path string) (undo func(), err error) {
	old, err := os.ReadFile(path)
	switch {
	case err == nil && !bytes.Equal(old, []byte(policy)):
		return func() {}, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(policy), 0o755); err != nil {
		return nil, fmt.Errorf("forbid services to start while packages are installed: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil
}
