// Command cluster runs a real Kubernetes cluster on this machine for tests and demonstrations: etcd, the control plane
// and nodes with kubelet, containerd and kube-proxy, each in namespaces of its own. See the README of this module.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/workpull/operator/test/cluster/internal/box"
)

func main() {
	if hidden, err := box.Main(os.Args[1:]); hidden {
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	var status commandError
	switch {
	case err == nil:
	case errors.As(err, &status):
		os.Exit(int(status))
	default:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}
