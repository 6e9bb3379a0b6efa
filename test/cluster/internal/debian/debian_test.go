package debian

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func put(t *testing.T, root, path string) {
	t.Helper()
	full := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, nil, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestMissingNamesEachPackageOnce(t *testing.T) {
	want := []string{"conntrack", "containerd", "containernetworking-plugins", "iproute2", "iptables", "mount", "nftables", "runc", "util-linux"}
	if got := Missing(t.TempDir()); !slices.Equal(got, want) {
		t.Errorf("on an empty machine %v are missing, want %v", got, want)
	}
}

func TestPresenceOfTheFilesIsEnough(t *testing.T) {
	root := t.TempDir()
	for _, n := range needs() {
		put(t, root, n.paths[len(n.paths)-1]) // by other means than Debian's: elsewhere
	}
	if got := Missing(root); len(got) != 0 {
		t.Errorf("%v are missing though every file is there", got)
	}
	if err := os.Remove(filepath.Join(root, "/bin/containerd-shim-runc-v2")); err != nil {
		t.Fatal(err)
	}
	if got := Missing(root); !slices.Equal(got, []string{"containerd"}) {
		t.Errorf("without the shim %v are missing", got)
	}
}

func TestMissingErrorSaysWhatToRun(t *testing.T) {
	err := &MissingError{Packages: []string{"containerd", "runc"}, Why: "not root"}
	if !strings.Contains(err.Error(), "apt-get install --no-install-recommends containerd runc") || !strings.Contains(err.Error(), "not root") {
		t.Error(err)
	}
}

func TestServicesStayOffWhileInstalling(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy-rc.d")
	undo, err := noServices(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("no policy while installing: %v", err)
	}
	undo()
	if _, err := os.Stat(path); err == nil {
		t.Error("the policy was left behind")
	}

	// One that an interrupted run left is removed by the next.
	if err := os.WriteFile(path, []byte(policy), 0o755); err != nil {
		t.Fatal(err)
	}
	if undo, err = noServices(path); err != nil {
		t.Fatal(err)
	}
	undo()
	if _, err := os.Stat(path); err == nil {
		t.Error("the policy of an interrupted run was left behind")
	}

	// The administrator's own stays.
	const own = "#!/bin/sh\nexit 0\n"
	if err := os.WriteFile(path, []byte(own), 0o755); err != nil {
		t.Fatal(err)
	}
	if undo, err = noServices(path); err != nil {
		t.Fatal(err)
	}
	undo()
	if got, err := os.ReadFile(path); err != nil || string(got) != own {
		t.Errorf("the administrator's policy is now %q, %v", got, err)
	}
}
