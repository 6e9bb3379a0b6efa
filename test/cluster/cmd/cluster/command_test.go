package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestWrongUseIsRefused(t *testing.T) {
	t.Setenv("WORKPULL_CACHE", t.TempDir())
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, "unknown command"},
		{[]string{"up", "--nodes", "many"}, "invalid argument"},
		{[]string{"up", "extra"}, "unknown command"},
		{[]string{"--name", "No/Good", "status"}, "want 1 to 30 lower-case letters"},
		{[]string{"status"}, "not healthy"},
		{[]string{"load-image"}, "at least 1 arg"},
		{[]string{"node"}, "want crash, cut, mend"},
		{[]string{"node", "crash"}, "accepts 1 arg"},
		{[]string{"kubeconfig"}, "not up"},
		{[]string{"kubectl", "get", "nodes"}, "not up"},
		{[]string{"--source", t.TempDir(), "build"}, "modules/kubernetes/go.mod"},
	} {
		if _, err := run(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.want)
		}
	}
}

// Flags before kubectl are the cluster's; those after it are kubectl's, even if they look like the cluster's.
func TestKubectlGetsItsArgumentsAndStatus(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("WORKPULL_CACHE", cache)
	dir := filepath.Join(cache, "clusters", "other")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	kubectl := filepath.Join(cache, "kubectl")
	script := "#!/bin/sh\necho \"$KUBECONFIG $*\"\nexit 7\n"
	if err := os.WriteFile(kubectl, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte(`{"binaries":{"kubectl":"`+kubectl+`"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "--name", "other", "kubectl", "get", "--name", "x", "-o", "wide")
	if want := filepath.Join(dir, "pki", "admin.kubeconfig") + " get --name x -o wide\n"; out != want {
		t.Errorf("kubectl ran as %q, want %q", out, want)
	}
	if !errors.Is(err, commandError(7)) {
		t.Errorf("got %v, want kubectl's status", err)
	}
}
