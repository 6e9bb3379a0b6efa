package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/workpull/operator/controllers/children"
)

// settings are the operator's flags.
type settings struct {
	image           children.StockImage
	metricsAddress  string
	healthAddress   string
	leaderElect     bool
	leaderNamespace string
	namespaces      []string
	log             zap.Options
}

// parseSettings reads the flags. An error names the flag and what it wants.
func parseSettings(args []string, output io.Writer) (settings, error) {
	var s settings
	var namespaces, pullPolicy string
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&s.image.Name, "producer-image", "",
		"image of producers whose template names none (required)")
	flags.StringVar(&pullPolicy, "image-pull-policy", "",
		"pull policy of that image: Always, IfNotPresent or Never; Kubernetes' default when empty")
	flags.StringVar(&s.metricsAddress, "metrics-bind-address", ":8080",
		"address that serves /metrics; 0 serves none")
	flags.StringVar(&s.healthAddress, "health-probe-bind-address", ":8081",
		"address that serves /healthz and /readyz; 0 serves none")
	flags.BoolVar(&s.leaderElect, "leader-elect", false,
		"work only while holding the Lease, so that several replicas may run")
	flags.StringVar(&s.leaderNamespace, "leader-election-namespace", "",
		"namespace of the Lease; the operator's own when empty")
	flags.StringVar(&namespaces, "watch-namespaces", "",
		"comma-separated namespaces to work in; all when empty")
	s.log.BindFlags(flags)
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q: the operator takes flags only", flags.Arg(0))
	}
	if s.image.Name == "" {
		return s, fmt.Errorf("--producer-image is required: the image of producers whose template names none")
	}
	s.image.PullPolicy = corev1.PullPolicy(pullPolicy)
	policies := []corev1.PullPolicy{"", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if !slices.Contains(policies, s.image.PullPolicy) {
		return s, fmt.Errorf("--image-pull-policy is %q: it must be Always, IfNotPresent or Never", pullPolicy)
	}
	for name, address := range map[string]string{
		"metrics-bind-address": s.metricsAddress, "health-probe-bind-address": s.healthAddress,
	} {
		if err := checkAddress(name, address); err != nil {
			return s, err
		}
	}
	var err error
	s.namespaces, err = splitNamespaces(namespaces)
	return s, err
}

func checkAddress(name, address string) error {
	if address == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("--%s is %q: it must be host:port, :port or 0", name, address)
	}
	return nil
}

func splitNamespaces(list string) ([]string, error) {
	var out []string
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			return nil, fmt.Errorf("--watch-namespaces has %q, which is no name of a namespace: %s", name, errs[0])
		}
		out = append(out, name)
	}
	return out, nil
}
