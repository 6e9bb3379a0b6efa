// Command operator reconciles Producers and WorkerPools.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/workpull/operator/controllers"
)

// leaderElectionID is the name of the Lease.
const leaderElectionID = "operator.workpull.dev"

// Client-side limits towards the API server, which has limits of its own.
const (
	clientQPS   = 200
	clientBurst = 400
)

func main() {
	err := run(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run(args []string, output io.Writer) error {
	s, err := parseSettings(args, output)
	if err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&s.log)))

	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	scheme, err := controllers.NewScheme()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Cache:                   controllers.CacheOptions(s.namespaces),
		Metrics:                 metricsserver.Options{BindAddress: s.metricsAddress},
		HealthProbeBindAddress:  s.healthAddress,
		LeaderElection:          s.leaderElect,
		LeaderElectionID:        leaderElectionID,
		LeaderElectionNamespace: s.leaderNamespace,
		// The process ends right after the manager does, so the next leader
		// need not wait for the Lease to run out.
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := controllers.Setup(mgr, s.image); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the readiness check: %w", err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}
