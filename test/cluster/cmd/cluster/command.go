package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/workpull/operator/test/cluster/internal/cluster"
	"github.com/workpull/operator/test/cluster/internal/layout"
)

// options are the flags of every command.
type options struct{ name, source string }

// open names the cluster that a command works on; what it does is reported to out.
func (o *options) open(out io.Writer) (*cluster.Cluster, error) {
	cache, err := layout.DefaultCache()
	if err != nil {
		return nil, err
	}
	return cluster.New(o.name, o.source, cache, out)
}

func command() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:               "cluster",
		Short:             "A real Kubernetes cluster on this machine, for tests and demonstrations",
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:      true,
		SilenceErrors:     true,
		TraverseChildren:  true, // flags before `kubectl` are ours, those after it kubectl's
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	name := os.Getenv("WORKPULL_CLUSTER")
	if name == "" {
		name = "workpull"
	}
	root.PersistentFlags().StringVar(&o.name, "name", name, "name of the cluster (default from WORKPULL_CLUSTER); several can run at once")
	root.PersistentFlags().StringVar(&o.source, "source", "", "folder of this module (default: found from the working folder)")
	root.AddCommand(
		simple(&o, "build", "Build all binaries that the cache lacks", (*cluster.Cluster).Build),
		up(&o),
		simple(&o, "down", "Remove the cluster; leaves nothing behind", (*cluster.Cluster).Down),
		status(&o), loadImage(&o), kubectl(&o), node(&o), assets(&o), kubeconfig(&o),
	)
	return root
}

func simple(o *options, use, short string, do func(*cluster.Cluster, context.Context) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := o.open(cmd.OutOrStdout())
		if err != nil {
			return err
		}
		return do(c, cmd.Context())
	}}
}

func up(o *options) *cobra.Command {
	var u cluster.UpOptions
	cmd := simple(o, "up", "Bring the cluster up and wait until pods can run on it", func(c *cluster.Cluster, ctx context.Context) error {
		return c.Up(ctx, u)
	})
	cmd.Flags().IntVar(&u.Nodes, "nodes", 0, fmt.Sprintf("number of nodes (default: as many as are up, else %d)", cluster.DefaultNodes))
	cmd.Flags().IntVar(&u.APIPort, "api-port", 0, "port of the API server on 127.0.0.1 (default: a free one)")
	return cmd
}

func status(o *options) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show the nodes; exit 1 unless the cluster is up and healthy", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			s, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), s)
			if !s.Healthy() {
				return errors.New("the cluster is not healthy")
			}
			return nil
		}}
}

func loadImage(o *options) *cobra.Command {
	return &cobra.Command{Use: "load-image FILE...", Short: "Import image archives on every node", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			return c.LoadImages(cmd.Context(), args)
		}}
}

func kubectl(o *options) *cobra.Command {
	return &cobra.Command{Use: "kubectl ARGS...", Short: "Run kubectl on the cluster", DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			path, env, err := c.Kubectl()
			if err != nil {
				return err
			}
			k := exec.CommandContext(cmd.Context(), path, args...)
			k.Env, k.Stdin, k.Stdout, k.Stderr = env, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return pass(k.Run())
		}}
}

// pass hands on the exit status of a command that has said itself what was wrong.
func pass(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return commandError(exit.ExitCode())
	}
	return err
}

// commandError is the exit status of a command that ran on the cluster.
type commandError int

func (e commandError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func node(o *options) *cobra.Command {
	parent := &cobra.Command{Use: "node", Short: "Break and mend a node (control is the control plane's)", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return errors.New("want crash, cut, mend or exec") }}
	for _, action := range []struct {
		use, short string
		do         func(*cluster.Cluster, context.Context, string) error
	}{
		{"crash", "Kill everything on a node at once; its Node object stays", (*cluster.Cluster).Crash},
		{"cut", "Pull a node's cable", (*cluster.Cluster).Cut},
		{"mend", "Plug a node's cable in, or start it after a crash, and wait until it is ready", (*cluster.Cluster).Mend},
	} {
		parent.AddCommand(&cobra.Command{Use: action.use + " NODE", Short: action.short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := o.open(cmd.OutOrStdout())
				if err != nil {
					return err
				}
				return action.do(c, cmd.Context(), args[0])
			}})
	}
	parent.AddCommand(nodeExec(o))
	return parent
}

func nodeExec(o *options) *cobra.Command {
	cmd := &cobra.Command{Use: "exec NODE [--] COMMAND ARGS...", Short: "Run a command of this machine in a node's box, for instance ctr", Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.open(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				return errors.New("want a command after --")
			}
			e, err := c.Exec(cmd.Context(), args[0], command...)
			if err != nil {
				return err
			}
			e.Stdin, e.Stdout, e.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return pass(e.Run())
		}}
	cmd.Flags().SetInterspersed(false) // flags after NODE are the command's
	return cmd
}

func assets(o *options) *cobra.Command {
	return &cobra.Command{Use: "assets", Short: "Print a folder for KUBEBUILDER_ASSETS, after building what it lacks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The path alone goes to standard output, for $(cluster assets).
			c, err := o.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			dir, err := c.Assets(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		}}
}

func kubeconfig(o *options) *cobra.Command {
	return &cobra.Command{Use: "kubeconfig", Short: "Print the path of the administrator's kubeconfig", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			path, err := c.Kubeconfig()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		}}
}
