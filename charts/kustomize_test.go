package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

// Both ways to install give the operator the same rights and the same pod.
func TestKustomizeAndChartAgree(t *testing.T) {
	kustomize := kustomizeBuild(t, "../config/default")
	chart := mustTemplate(t, operatorChart, "")

	for _, name := range []string{"workpull-operator", "workpull-view", "workpull-edit"} {
		require.Equal(t, named[*rbacv1.ClusterRole](t, kustomize, name).Rules,
			named[*rbacv1.ClusterRole](t, chart, name).Rules, name)
	}
	require.Equal(t, named[*rbacv1.Role](t, kustomize, "workpull-operator-leader-election").Rules,
		named[*rbacv1.Role](t, chart, "workpull-operator-leader").Rules)

	// What only one of them has: how the image of the intake is written.
	inKustomize, inChart := deployment(t, kustomize).Spec.Template.Spec, deployment(t, chart).Spec.Template.Spec
	require.Equal(t, []corev1.EnvVar{{Name: "WORKPULL_IMAGE", Value: "workpull/workpull:v0.1.0"}}, inKustomize.Containers[0].Env)
	require.Contains(t, inKustomize.Containers[0].Args, "--producer-image=$(WORKPULL_IMAGE)")
	inKustomize.Containers[0].Env = nil
	inKustomize.Containers[0].Args = replaced(inKustomize.Containers[0].Args, "$(WORKPULL_IMAGE)", "workpull/workpull:v0.1.0")
	require.Equal(t, inKustomize, inChart)

	require.Len(t, all[*apiextensionsv1.CustomResourceDefinition](kustomize), 2)
}

func TestKustomizeSetsBothImages(t *testing.T) {
	folder := t.TempDir()
	base, err := filepath.Abs("../config/default")
	require.NoError(t, err)
	base, err = filepath.Rel(mustEval(t, folder), base)
	require.NoError(t, err)
	fields, err := os.ReadFile("../config/default/images.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "images.yaml"), fields, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(`
resources: [`+base+`]
configurations: [images.yaml]
images:
  - {name: workpull/operator, newName: localhost/workpull/operator, newTag: dev}
  - {name: workpull/workpull, newName: localhost/workpull/workpull, newTag: dev}
`), 0o600))

	container := deployment(t, kustomizeBuild(t, folder)).Spec.Template.Spec.Containers[0]
	require.Equal(t, "localhost/workpull/operator:dev", container.Image)
	require.Equal(t, "localhost/workpull/workpull:dev", container.Env[0].Value)
}

// The samples have no field that the kinds do not have, and belong together.
func TestSamples(t *testing.T) {
	samples := kustomizeBuild(t, "../config/samples")
	require.Len(t, samples, 2)
	producer := named[*v1alpha1.Producer](t, samples, "thumbnails")
	pool := named[*v1alpha1.WorkerPool](t, samples, "thumbnailer")
	require.Equal(t, producer.Name, pool.Spec.ProducerRef.Name)
	require.Equal(t, podenv.WorkerContainer, pool.Spec.Template.Spec.Containers[0].Name)
}

func replaced(args []string, from, to string) []string {
	var result []string
	for _, arg := range args {
		result = append(result, strings.ReplaceAll(arg, from, to))
	}
	return result
}

func mustEval(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	require.NoError(t, err)
	return path
}
