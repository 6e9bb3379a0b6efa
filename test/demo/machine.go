package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machine is where the demonstration runs: this one, with the tools of the
// repository.
type machine struct {
	*options
	out  *report
	tool string // the cluster tool, once it is built
	root string // of the repository
}

// names of the images that the demonstration needs.
var images = []string{"operator", "workpull", "example-thumbnailer", "example-sink"}

// prepare brings an own cluster up and the images onto its nodes.
func (m *machine) prepare(ctx context.Context) error {
	if err := m.buildTool(ctx); err != nil {
		return err
	}
	group, building := errgroup.WithContext(ctx)
	group.Go(func() error { return m.step(building, "build the images", m.run(building, m.root, "make", "images")) })
	group.Go(func() error {
		if err := m.step(building, "build Kubernetes, where the cache lacks it", m.ask(building, "build")); err != nil {
			return err
		}
		return m.step(building, fmt.Sprintf("bring up a cluster of %d nodes", m.nodes), m.ask(building, "up", "--nodes", fmt.Sprint(m.nodes)))
	})
	if err := group.Wait(); err != nil {
		return err
	}
	archives := []string{"load-image"}
	for _, name := range images {
		archives = append(archives, filepath.Join(m.root, "build", "images", name+".tar"))
	}
	return m.step(ctx, "load the images", m.ask(ctx, archives...))
}

// remove brings an own cluster down.
func (m *machine) remove(ctx context.Context) error {
	if err := m.buildTool(ctx); err != nil {
		return err
	}
	return m.step(ctx, "bring the cluster down", m.ask(ctx, "down"))
}

func (m *machine) buildTool(ctx context.Context) error {
	if err := m.findRoot(ctx); err != nil {
		return err
	}
	m.tool = filepath.Join(m.root, "build", "bin", "cluster")
	folder := filepath.Join(m.root, "test", "cluster")
	return m.step(ctx, "build the cluster tool", m.run(ctx, folder, "go", "build", "-o", m.tool, "./cmd/cluster"))
}

func (m *machine) findRoot(ctx context.Context) error {
	if m.root != "" {
		return nil
	}
	file, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	root := filepath.Dir(strings.TrimSpace(string(file)))
	if err == nil {
		_, err = os.Stat(filepath.Join(root, "charts", "workpull"))
	}
	if err != nil {
		return fmt.Errorf("find the repository: run the demo in its root: %w", err)
	}
	m.root = root
	return nil
}

// ask is a call of the cluster tool.
func (m *machine) ask(ctx context.Context, arguments ...string) *exec.Cmd {
	return m.run(ctx, filepath.Join(m.root, "test", "cluster"), m.tool, arguments...)
}

func (m *machine) run(ctx context.Context, folder, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), "IMAGE_PREFIX="+m.prefix, "IMAGE_TAG="+m.tag)
	command.WaitDelay = 10 * time.Second
	return command
}

// step runs a command and says how long it took; its output is shown only when
// it fails.
func (m *machine) step(ctx context.Context, what string, command *exec.Cmd) error {
	done := m.out.step(what)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w\n%s", what, err, strings.TrimSpace(output.String()))
	}
	done()
	return nil
}

// connect makes clients of the cluster.
func (m *machine) connect(ctx context.Context) (*world, error) {
	if err := m.findRoot(ctx); err != nil {
		return nil, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if m.isOwn() {
		path, err := m.ask(ctx, "kubeconfig").Output()
		if err != nil {
			return nil, fmt.Errorf("ask for the cluster's kubeconfig: %w", err)
		}
		rules.ExplicitPath = strings.TrimSpace(string(path))
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1 // jobs go through the API server's proxy, many at once
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the API server: %w", err)
	}
	objects, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("reach the API server at %s: %w", config.Host, err)
	}
	m.out.say("the cluster is at %s", config.Host)
	return &world{machine: m, kubeconfig: rules.ExplicitPath, core: core, objects: objects}, nil
}

// isOwn tells whether the cluster is one that the demonstration brings up.
func (m *machine) isOwn() bool { return m.cluster == own }
