package build

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/workpull/operator/test/cluster/internal/layout"
)

// source is a folder with modules of the names of the real ones, of which only etcd's can be built: as a program of a
// few lines.
func source(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(path, data string) {
		full := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(data), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("modules/kubernetes/go.mod", "module kubernetes\n\ngo 1.26\n\nrequire k8s.io/kubernetes v1.99.1\n\nreplace k8s.io/api => k8s.io/api v0.99.1\n")
	write("modules/coredns/go.mod", "module coredns\n\ngo 1.26\n\nrequire (\n\tgithub.com/coredns/coredns v1.98.0\n)\n")
	write("modules/etcd/go.mod", "module stub\n\ngo 1.26\n\nrequire go.etcd.io/etcd/server/v3 v3.97.0\n\nreplace go.etcd.io/etcd/server/v3 => ./server\n")
	write("modules/etcd/server/go.mod", "module go.etcd.io/etcd/server/v3\n\ngo 1.26\n")
	write("modules/etcd/server/main.go", "package main\n\nfunc main() {}\n")
	return dir
}

func TestBuildsOnceAndWhole(t *testing.T) {
	var out bytes.Buffer
	b := Builder{Source: source(t), Cache: layout.Cache{Root: t.TempDir()}, Out: &out}
	want := filepath.Join(b.Cache.Root, "bin", "etcd-v3.97.0", "etcd")
	interrupted := want + ".part-1"
	if err := errors.Join(os.MkdirAll(filepath.Dir(want), 0o755), os.WriteFile(interrupted, []byte("half"), 0o755)); err != nil {
		t.Fatal(err)
	}
	bins, err := b.Ensure(t.Context(), "etcd")
	if err != nil {
		t.Fatal(err)
	}
	if bins["etcd"] != want {
		t.Errorf("built %s, want %s", bins["etcd"], want)
	}
	if !strings.Contains(out.String(), "building etcd v3.97.0") || !strings.Contains(out.String(), "built    etcd v3.97.0 in ") {
		t.Errorf("said %q", out.String())
	}
	first, err := os.Stat(want)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if _, err := b.Ensure(t.Context(), "etcd"); err != nil {
		t.Fatal(err)
	}
	again, err := os.Stat(want)
	if err != nil || !os.SameFile(first, again) || out.Len() != 0 {
		t.Errorf("it was built again: %v, said %q", err, out.String())
	}
	left, err := os.ReadDir(filepath.Dir(want))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

func TestTwoBuildersBuildOnce(t *testing.T) {
	src, cache := source(t), layout.Cache{Root: t.TempDir()}
	var outs [2]bytes.Buffer
	var both sync.WaitGroup
	for i := range outs {
		both.Go(func() {
			if _, err := (Builder{Source: src, Cache: cache, Out: &outs[i]}).Ensure(t.Context(), "etcd"); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if n := strings.Count(outs[0].String()+outs[1].String(), "building etcd"); n != 1 {
		t.Errorf("built %d times: %q, %q", n, outs[0].String(), outs[1].String())
	}
}

func TestFailedBuildSaysWhyAndLeavesNothing(t *testing.T) {
	b := Builder{Source: source(t), Cache: layout.Cache{Root: t.TempDir()}, Out: &bytes.Buffer{}}
	main := filepath.Join(b.Source, "modules/etcd/server/main.go")
	if err := os.WriteFile(main, []byte("package main\n\nfunc main() { undefined() }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := b.Ensure(t.Context(), "etcd")
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(b.Cache.Bin("etcd", "v3.97.0"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestUnknownAndUnpinnedAreRefused(t *testing.T) {
	b := Builder{Source: source(t), Cache: layout.Cache{Root: t.TempDir()}, Out: &bytes.Buffer{}}
	if _, err := b.Ensure(t.Context(), "nosuch"); err == nil || !strings.Contains(err.Error(), `"nosuch"`) {
		t.Errorf("unknown binary: %v", err)
	}
	if err := os.WriteFile(filepath.Join(b.Source, "modules/coredns/go.mod"), []byte("module x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Ensure(t.Context(), "coredns"); err == nil || !strings.Contains(err.Error(), "does not require github.com/coredns/coredns") {
		t.Errorf("unpinned module: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(b.Source, "modules")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Ensure(t.Context(), "etcd"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no modules: %v", err)
	}
}

// The real folders pin what Components name.
func TestRealModulesArePinned(t *testing.T) {
	for _, c := range Components() {
		v, err := moduleVersion(filepath.Join("..", "..", "modules", c.Name, "go.mod"), c.Module)
		if err != nil || !strings.HasPrefix(v, "v") {
			t.Errorf("%s: %q, %v", c.Name, v, err)
		}
	}
}

func TestEnvtestLinksToTheBuiltBinaries(t *testing.T) {
	b := Builder{Source: source(t), Cache: layout.Cache{Root: t.TempDir()}, Out: &bytes.Buffer{}}
	for name, dir := range map[string]string{"kube-apiserver": "kubernetes-v1.99.1", "kubectl": "kubernetes-v1.99.1", "etcd": "etcd-v3.97.0"} {
		path := filepath.Join(b.Cache.Root, "bin", dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		dir, err := b.Envtest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(dir) != "envtest-v1.99.1-etcd-v3.97.0" {
			t.Errorf("folder %s", dir)
		}
		for _, name := range []string{"kube-apiserver", "kubectl", "etcd"} {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != name {
				t.Errorf("%s: %q, %v", name, data, err)
			}
		}
	}
}
