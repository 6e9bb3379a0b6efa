//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workpull/operator/api/v1alpha1"
)

// environment is what the tests find: a running cluster with the images loaded,
// and the tools to install on it.
type environment struct {
	root                     string // of the repository
	cluster, helm, kustomize string // programs
	prefix, tag              string // of the images' names
	records                  string // folder that every node sees at the same path
	dumps                    string // folder for what helps to understand a failure

	config *rest.Config
	http   *http.Client // with the administrator's credentials, for the API server's proxy
	api    client.Client
	pods   kubernetes.Interface // for what api cannot do: watches and logs
}

var env environment

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == submitWord {
		if err := submitJobs(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	log.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err := env.open(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func (e *environment) open() error {
	missing := []string{}
	read := func(name string) string {
		value := os.Getenv(name)
		if value == "" {
			missing = append(missing, name)
		}
		return value
	}
	e.cluster, e.helm, e.kustomize = read("E2E_CLUSTER"), read("HELM"), read("KUSTOMIZE")
	e.prefix, e.tag = read("IMAGE_PREFIX"), read("IMAGE_TAG")
	if len(missing) > 0 {
		return fmt.Errorf("%s not set: run the tests by `make e2e`", strings.Join(missing, ", "))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	kubeconfig, err := run(ctx, e.cluster, "kubeconfig")
	if err != nil {
		return err
	}
	kubeconfig = strings.TrimSpace(kubeconfig)
	// helm reads it from here; kubectl runs by the cluster's tool.
	if err := os.Setenv("KUBECONFIG", kubeconfig); err != nil {
		return err
	}
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	e.root = filepath.Join(wd, "..", "..")
	e.dumps = filepath.Join(e.root, "build", "e2e")
	e.records = filepath.Join(filepath.Dir(filepath.Dir(kubeconfig)), "e2e")
	if err := errors.Join(os.MkdirAll(e.dumps, 0o755), os.MkdirAll(e.records, 0o755)); err != nil {
		return err
	}
	return e.connect(kubeconfig)
}

func (e *environment) connect(kubeconfig string) error {
	var err error
	if e.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	e.config.QPS = -1 // the tests poll one API server of their own
	if e.http, err = rest.HTTPClientFor(e.config); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	if e.api, err = client.New(e.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	e.pods, err = kubernetes.NewForConfig(e.config)
	return err
}

// image is the reference of one of the project's images.
func (e *environment) image(name string) string { return e.prefix + "/" + name + ":" + e.tag }

// kubectl runs kubectl on the cluster and returns what it prints.
func (e *environment) kubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, e.cluster, append([]string{"kubectl"}, args...)...)
}

// onNode runs a command in a node's box.
func (e *environment) onNode(ctx context.Context, node string, args ...string) (string, error) {
	return run(ctx, e.cluster, append([]string{"node", "exec", node, "--"}, args...)...)
}

// node breaks or mends a node: crash, cut or mend.
func (e *environment) node(ctx context.Context, action, node string) error {
	_, err := run(ctx, e.cluster, "node", action, node)
	return err
}

// run returns a command's standard output; an error tells what it printed on
// both.
func run(ctx context.Context, name string, args ...string) (string, error) {
	return runWith(ctx, "", name, args...)
}

func runWith(ctx context.Context, stdin, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
