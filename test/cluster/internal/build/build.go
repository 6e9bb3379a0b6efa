// Package build turns the pinned Go modules of the cluster into binaries in the cache, each only once per version.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"

	"github.com/workpull/operator/test/cluster/internal/layout"
)

// Component is one pinned module and the binaries built from it.
type Component struct {
	Name     string            // folder below modules/ and prefix of the folder in the cache
	Module   string            // whose version in that folder's go.mod is the component's
	Packages map[string]string // binary → package
	Stamp    []string          // string variables that are set to the version
}

// Components are all that a cluster runs from our own builds.
func Components() []Component {
	return []Component{
		{
			Name: "etcd", Module: "go.etcd.io/etcd/server/v3",
			Packages: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"},
		},
		{
			Name: "coredns", Module: "github.com/coredns/coredns",
			Packages: map[string]string{"coredns": "github.com/coredns/coredns"},
		},
		{
			Name: "kubernetes", Module: "k8s.io/kubernetes",
			Packages: map[string]string{
				"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
				"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
				"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
				"kubelet":                 "k8s.io/kubernetes/cmd/kubelet",
				"kube-proxy":              "k8s.io/kubernetes/cmd/kube-proxy",
				"kubectl":                 "k8s.io/kubernetes/cmd/kubectl",
			},
			Stamp: []string{"k8s.io/component-base/version.gitVersion", "k8s.io/client-go/pkg/version.gitVersion"},
		},
	}
}

// Builder builds from Source (this module's folder) into Cache and reports to Out.
type Builder struct {
	Source string
	Cache  layout.Cache
	Out    io.Writer
}

// Binaries knows where each binary lies, by name.
type Binaries map[string]string

// Ensure builds those of the named binaries (all, if none is named) that the cache lacks, and tells where they are.
func (b Builder) Ensure(ctx context.Context, names ...string) (Binaries, error) {
	found := Binaries{}
	var missing []target
	for _, c := range Components() {
		version, err := moduleVersion(filepath.Join(b.Source, "modules", c.Name, "go.mod"), c.Module)
		if err != nil {
			return nil, err
		}
		for binary, pkg := range c.Packages {
			if len(names) > 0 && !slices.Contains(names, binary) {
				continue
			}
			t := target{component: c, version: version, binary: binary, pkg: pkg, path: filepath.Join(b.Cache.Bin(c.Name, version), binary)}
			found[binary] = t.path
			if !executable(t.path) {
				missing = append(missing, t)
			}
		}
	}
	for _, name := range names {
		if found[name] == "" {
			return nil, fmt.Errorf("no component of the cluster is called %q", name)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	// Two builders would only take each other's processors; the second one finds everything done.
	unlock, err := b.Cache.Lock("build", func() { fmt.Fprintln(b.Out, "waiting for another build of the cluster's binaries to end") })
	if err != nil {
		return nil, err
	}
	defer unlock()
	slices.SortFunc(missing, func(x, y target) int { return strings.Compare(x.path, y.path) })
	for i, t := range missing {
		if executable(t.path) {
			continue
		}
		start := time.Now()
		fmt.Fprintf(b.Out, "building %s %s (%d of %d; minutes if nothing of it was ever built here)\n", t.binary, t.version, i+1, len(missing))
		if err := b.one(ctx, t); err != nil {
			return nil, err
		}
		fmt.Fprintf(b.Out, "built    %s %s in %.1fs\n", t.binary, t.version, time.Since(start).Seconds())
	}
	return found, nil
}

type target struct {
	component         Component
	version           string
	binary, pkg, path string
}

func (b Builder) one(ctx context.Context, t target) error {
	ldflags := "-s -w"
	for _, v := range t.component.Stamp {
		ldflags += " -X " + v + "=" + t.version
	}
	return goBuild(ctx, filepath.Join(b.Source, "modules", t.component.Name), t.pkg, t.path, ldflags)
}

// Own builds a package of this module itself (an image's program) to out, every time: the Go build cache makes that
// cheap, and only Go knows whether its sources changed.
func (b Builder) Own(ctx context.Context, pkg, out string) error {
	return goBuild(ctx, b.Source, pkg, out, "-s -w")
}

// goBuild builds beside the goal and renames, so that an interrupted build is never taken for a whole one.
func goBuild(ctx context.Context, dir, pkg, out, ldflags string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", out, err)
	}
	// What an interrupted build left; the caller's lock excludes another's that still goes on.
	parts, err := filepath.Glob(out + ".part-*")
	if err != nil {
		return fmt.Errorf("look for parts of %s: %w", out, err)
	}
	for _, p := range parts {
		_ = os.Remove(p) // a part in the way is no harm
	}
	part := fmt.Sprintf("%s.part-%d", out, os.Getpid())
	defer os.Remove(part)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags, "-o", part, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, dir, err, output)
	}
	if err := os.Rename(part, out); err != nil {
		return fmt.Errorf("put %s in place: %w", out, err)
	}
	return nil
}

// Envtest makes the folder that controller-runtime's envtest wants in KUBEBUILDER_ASSETS (etcd, kube-apiserver,
// kubectl) and returns its path.
func (b Builder) Envtest(ctx context.Context) (string, error) {
	names := []string{"etcd", "kube-apiserver", "kubectl"}
	bins, err := b.Ensure(ctx, names...)
	if err != nil {
		return "", err
	}
	versions := strings.TrimPrefix(filepath.Base(filepath.Dir(bins["kube-apiserver"])), "kubernetes-") + "-" + filepath.Base(filepath.Dir(bins["etcd"]))
	dir := b.Cache.Bin("envtest", versions)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the folder for envtest: %w", err)
	}
	for _, name := range names {
		link := filepath.Join(dir, name)
		if to, err := os.Readlink(link); err == nil && to == bins[name] {
			continue
		}
		part := fmt.Sprintf("%s.part-%d", link, os.Getpid())
		if err := errors.Join(os.Symlink(bins[name], part), os.Rename(part, link)); err != nil {
			return "", fmt.Errorf("link %s for envtest: %w", name, err)
		}
	}
	return dir, nil
}

func moduleVersion(gomod, module string) (string, error) {
	data, err := os.ReadFile(gomod)
	if err != nil {
		return "", fmt.Errorf("read the pinned version of %s: %w", module, err)
	}
	f, err := modfile.ParseLax(gomod, data, nil)
	if err != nil {
		return "", fmt.Errorf("parse %s: %w", gomod, err)
	}
	for _, r := range f.Require {
		if r.Mod.Path == module {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", gomod, module)
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}
