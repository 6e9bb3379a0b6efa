// Command mkimage writes a container image of static binaries as an archive, without a daemon:
//
//	mkimage --ref localhost/workpull/operator:dev --out operator.tar --entrypoint /operator bin/operator
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/workpull/operator/test/cluster/internal/image"
)

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o image.Options
	var out string
	cmd := &cobra.Command{
		Use:           "mkimage --ref REF --out FILE [--entrypoint /NAME] BINARY...",
		Short:         "Write an image of static binaries as an archive that containerd, podman and docker take",
		Args:          cobra.MinimumNArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(_ *cobra.Command, args []string) error {
			o.Binaries = args
			return image.Write(o, out)
		},
	}
	cmd.Flags().StringVar(&o.Ref, "ref", "", "reference of the image, with registry and tag, as localhost/workpull/operator:dev")
	cmd.Flags().StringVar(&out, "out", "", "file to write")
	cmd.Flags().StringSliceVar(&o.Entrypoint, "entrypoint", nil, "what the container runs, comma-separated (default: the first binary)")
	cmd.Flags().StringToStringVar(&o.Labels, "label", nil, "label of the image, KEY=VALUE; may be repeated")
	cmd.Flags().StringVar(&o.CABundle, "ca-bundle", "", "certificates for /etc/ssl/certs/ca-certificates.crt")
	for _, required := range []string{"ref", "out"} {
		if err := cmd.MarkFlagRequired(required); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return cmd
}
