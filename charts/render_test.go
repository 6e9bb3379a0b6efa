// Package charts_test renders the charts with the real helm, and config/ with
// the real kustomize, and looks at the objects that come out.
package charts_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
)

const (
	operatorChart = "workpull"
	crdChart      = "workpull-crds"
)

// helmTemplate renders a chart as release "workpull" in namespace "system".
func helmTemplate(t *testing.T, chart, values string) (objects, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	out, err := output(tool(t, "HELM", "helm"), "template", "workpull", chart,
		"--namespace", "system", "--values", file)
	if err != nil {
		return nil, err
	}
	return decode(t, out), nil
}

func mustTemplate(t *testing.T, chart, values string) objects {
	t.Helper()
	rendered, err := helmTemplate(t, chart, values)
	require.NoError(t, err)
	return rendered
}

func kustomizeBuild(t *testing.T, folder string) objects {
	t.Helper()
	out, err := output(tool(t, "KUSTOMIZE", "kustomize"), "build", folder)
	require.NoError(t, err)
	return decode(t, out)
}

// tool is the binary named by the environment (make test sets it), else that in
// PATH. Without either the test is skipped.
func tool(t *testing.T, variable, name string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("neither %s is set nor %s in PATH; make test builds it", variable, name)
	}
	return path
}

func output(name string, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// objects are what was rendered, in its order.
type objects []client.Object

// decode refuses fields that the kinds do not have.
func decode(t *testing.T, rendered []byte) objects {
	t.Helper()
	kinds := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(kinds))
	require.NoError(t, apiextensionsv1.AddToScheme(kinds))
	require.NoError(t, v1alpha1.AddToScheme(kinds))
	decoder := serializer.NewCodecFactory(kinds, serializer.EnableStrict).UniversalDeserializer()

	var found objects
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(rendered)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		var empty any
		require.NoError(t, yaml.Unmarshal(document, &empty))
		if empty == nil {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		require.NoError(t, err, "%s", document)
		found = append(found, object.(client.Object))
	}
}

// all returns the objects of one kind.
func all[T client.Object](found objects) []T {
	var of []T
	for _, object := range found {
		if typed, ok := object.(T); ok {
			of = append(of, typed)
		}
	}
	return of
}

// named returns the one object of its kind and name.
func named[T client.Object](t *testing.T, found objects, name string) T {
	t.Helper()
	var names []string
	for _, object := range all[T](found) {
		if object.GetName() == name {
			return object
		}
		names = append(names, object.GetName())
	}
	var none T
	require.Failf(t, "no such object", "want %T %s, got %v", none, name, names)
	return none
}

func deployment(t *testing.T, found objects) *appsv1.Deployment {
	t.Helper()
	return named[*appsv1.Deployment](t, found, "workpull-operator")
}

// generatedRules are those that controller-gen wrote from the markers.
func generatedRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	content, err := os.ReadFile("../config/rbac/role.yaml")
	require.NoError(t, err)
	return named[*rbacv1.ClusterRole](t, decode(t, content), "workpull-operator").Rules
}
