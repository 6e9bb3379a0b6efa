// Command workpull is the program of a producer's pods.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/producer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], environ(), os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status.
func run(ctx context.Context, arguments []string, environment map[string]string, out, errors io.Writer) int {
	root := &cobra.Command{
		Use:               "workpull",
		Short:             "The program of a Workpull producer's pods",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetArgs(arguments)
	root.SetOut(out)
	root.SetErr(errors)
	root.AddCommand(producerCommand(environment, errors), versionCommand())
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(errors, "workpull:", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return node.ExitCode(err)
}

func producerCommand(environment map[string]string, logs io.Writer) *cobra.Command {
	settings := new(producer.Settings)
	described := node.Describe(settings)
	command := &cobra.Command{
		Use:   "producer",
		Short: "Take jobs over HTTP and hand them to workers",
		Long: `Take jobs over HTTP and hand them to workers.

  POST /v1/jobs        the body is the job; 202 once it is accepted
                       header Workpull-Id or parameter id: its id, so that a
                       repeat runs nothing again; a random one otherwise
                       headers Workpull-Header-*: handed to the worker
  GET  /v1/jobs/{id}   its state: waiting, running, delayed, dead, confirmed or
                       dropped
  GET  /v1/status      what waits, what runs where, and totals

Jobs survive the death of workers. With a queue in memory they do not survive
that of this process, with an embedded or a PostgreSQL queue they do.

Each setting is an environment variable, or the flag that stands for it, which
wins. Exit status: 0 after SIGTERM, 2 when a setting is refused, 1 otherwise.`,
		Args: cobra.NoArgs,
	}
	values := make(map[string]*string, len(described))
	for _, s := range described {
		usage := fmt.Sprintf("%s (%s; want %s)", s.Usage, s.Name, s.Want)
		values[s.Name] = command.Flags().String(node.FlagName(s.Name), s.Default, usage)
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		given := make(map[string]string, len(environment))
		for name, value := range environment {
			given[name] = value
		}
		for name, value := range values {
			if command.Flags().Changed(node.FlagName(name)) {
				given[name] = *value
			}
		}
		if err := node.Parse(settings, given); err != nil {
			return err
		}
		return producer.Run(command.Context(), settings, node.NewLogger(logs, settings.Level()))
	}
	return command
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(command *cobra.Command, _ []string) {
			fmt.Fprintln(command.OutOrStdout(), version())
		},
	}
}

// version is what the build recorded of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			text += " " + s.Value[:12]
		}
	}
	return strings.TrimSpace(text + " " + info.GoVersion)
}

func environ() map[string]string {
	all := map[string]string{}
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		all[name] = value
	}
	return all
}
