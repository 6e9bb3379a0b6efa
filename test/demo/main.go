// Command demo shows Workpull at work on a real cluster: it installs the
// operator, sends some hundred pictures through a pool of workers while it
// kills two of them, and checks every result.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Kinds of clusters.
const (
	own      = "own"
	existing = "existing"
)

// options are the flags.
type options struct {
	cluster string
	nodes   int
	prefix  string
	tag     string
	helm    string
	jobs    int
	timeout time.Duration
}

func main() {
	log.SetLogger(logr.Discard()) // what matters comes back as an error
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:           "demo",
		Short:         "Show Workpull at work on a real cluster",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error { return o.check() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&o.cluster, "cluster", from("CLUSTER", own), "own: a cluster on this machine, brought up for it (needs root); existing: that of the current kubeconfig (default from CLUSTER)")
	flags.IntVar(&o.nodes, "nodes", 2, "nodes of an own cluster")
	flags.StringVar(&o.prefix, "image-prefix", from("IMAGE_PREFIX", "localhost/workpull"), "images are <prefix>/<name>:<tag> (default from IMAGE_PREFIX)")
	flags.StringVar(&o.tag, "image-tag", from("IMAGE_TAG", "dev"), "tag of the images (default from IMAGE_TAG)")
	flags.StringVar(&o.helm, "helm", from("HELM", "helm"), "the helm binary (default from HELM)")
	flags.IntVar(&o.jobs, "jobs", 500, "jobs to send")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time for all of it; building Kubernetes for the first time is not counted")
	root.AddCommand(
		&cobra.Command{
			Use: "up", Short: "Install everything, run the jobs, kill workers, check the results", Args: cobra.NoArgs,
			RunE: func(command *cobra.Command, _ []string) error { return up(command.Context(), &o) },
		},
		&cobra.Command{
			Use: "down", Short: "Remove what up made", Args: cobra.NoArgs,
			RunE: func(command *cobra.Command, _ []string) error { return down(command.Context(), &o) },
		},
	)
	return root
}

func from(variable, otherwise string) string {
	if value := os.Getenv(variable); value != "" {
		return value
	}
	return otherwise
}

func (o *options) check() error {
	switch {
	case o.cluster != own && o.cluster != existing:
		return fmt.Errorf("--cluster is %q: want %s or %s", o.cluster, own, existing)
	case o.nodes < 1:
		return fmt.Errorf("--nodes is %d: want at least 1", o.nodes)
	case o.jobs < 20:
		return fmt.Errorf("--jobs is %d: want at least 20, so that workers are busy when they are killed", o.jobs)
	case o.timeout <= 0:
		return fmt.Errorf("--timeout is %s: want more than 0", o.timeout)
	}
	if _, err := exec.LookPath(o.helm); err != nil {
		return fmt.Errorf("--helm is %q: want the helm binary (make helm builds it): %w", o.helm, err)
	}
	return nil
}

// up is the whole demonstration.
func up(ctx context.Context, o *options) (err error) {
	pictures, err := findPictures(ctx)
	if err != nil {
		return err
	}
	m := &machine{options: o, out: newReport(os.Stdout)}
	if o.cluster == own {
		if err := m.prepare(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the time of %s is over", o.timeout))
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
	}()
	w, err := m.connect(ctx)
	if err != nil {
		return err
	}
	if err := w.install(ctx); err != nil {
		return err
	}
	if err := w.deploy(ctx); err != nil {
		return err
	}
	return w.show(ctx, pictures)
}

// down removes what up made.
func down(ctx context.Context, o *options) error {
	m := &machine{options: o, out: newReport(os.Stdout)}
	if o.cluster == own {
		return m.remove(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the time of %s is over", o.timeout))
	defer cancel()
	w, err := m.connect(ctx)
	if err != nil {
		return err
	}
	return w.uninstall(ctx)
}
