//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operatorNamespace is where both ways of installation put the operator.
const operatorNamespace = "workpull-system"

var operatorLabels = client.MatchingLabels{"app.kubernetes.io/name": "workpull", "app.kubernetes.io/component": "operator"}

// installLimit bounds one installation, image pulls excluded: there are none.
const installLimit = 90 * time.Second

// needOperator makes sure that the chart's operator runs. A test that takes it
// away need not bring it back.
func needOperator(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), installLimit)
	defer cancel()
	if _, err := run(ctx, env.helm, "-n", operatorNamespace, "status", "workpull"); err == nil {
		err := await(ctx, installLimit, func() error { return operatorAvailable(ctx) })
		if err != nil {
			t.Fatalf("the operator is installed and not available: %v", err)
		}
		return
	}
	installChart(ctx, t)
}

// installChart installs CRDs and operator by their charts. The operator is kept
// on the node that no test breaks.
func installChart(ctx context.Context, t *testing.T) {
	t.Helper()
	charts := filepath.Join(env.root, "charts")
	for _, args := range [][]string{
		{"upgrade", "--install", "workpull-crds", filepath.Join(charts, "workpull-crds"), "--wait", "-n", operatorNamespace, "--create-namespace"},
		{"upgrade", "--install", "workpull", filepath.Join(charts, "workpull"), "--wait", "-n", operatorNamespace,
			"--set", "image.registry=,image.repository=" + env.prefix + "/operator,image.tag=" + env.tag,
			"--set", "workpullImage.registry=,workpullImage.repository=" + env.prefix + "/workpull,workpullImage.tag=" + env.tag,
			"--set", `nodeSelector.kubernetes\.io/hostname=` + safeNode},
	} {
		if _, err := run(ctx, env.helm, args...); err != nil {
			t.Fatalf("install by chart: %v", err)
		}
	}
	if err := await(ctx, installLimit, func() error { return operatorAvailable(ctx) }); err != nil {
		t.Fatalf("the operator is installed and not available: %v", err)
	}
}

// overlay writes a kustomization on top of config/default that names the images
// as they were loaded, and returns its folder.
func overlay(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(env.dumps, "kustomize")
	base, err := filepath.Rel(dir, filepath.Join(env.root, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	images, err := os.ReadFile(filepath.Join(env.root, "config", "default", "images.yaml"))
	if err != nil {
		t.Fatalf("read what tells kustomize where image names stand: %v", err)
	}
	kustomization := fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%s]
configurations: [images.yaml]
images:
  - {name: workpull/operator, newName: %s/operator, newTag: %s}
  - {name: workpull/workpull, newName: %s/workpull, newTag: %s}
patches:
  - patch: |
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: workpull-operator, namespace: workpull-system}
      spec: {template: {spec: {nodeSelector: {%s: %s}}}}
`, base, env.prefix, env.tag, env.prefix, env.tag, hostname, safeNode)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"kustomization.yaml": []byte(kustomization), "images.yaml": images} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// operatorAvailable tells whether all replicas of the operator are available.
func operatorAvailable(ctx context.Context) error {
	var list appsv1.DeploymentList
	if err := env.api.List(ctx, &list, client.InNamespace(operatorNamespace), operatorLabels); err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("there are %d Deployments of the operator", len(list.Items))
	}
	d := list.Items[0]
	if d.Status.ObservedGeneration != d.Generation || d.Status.AvailableReplicas != *d.Spec.Replicas || d.Status.UpdatedReplicas != *d.Spec.Replicas {
		return fmt.Errorf("of %d replicas %d are updated and %d available", *d.Spec.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas)
	}
	return nil
}

// operatorPods lists the operator's pods.
func operatorPods(ctx context.Context, t *testing.T) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := env.api.List(ctx, &list, client.InNamespace(operatorNamespace), operatorLabels); err != nil {
		t.Fatalf("list the operator's pods: %v", err)
	}
	return list.Items
}

// uninstallChart takes the operator away and waits until its pods are gone. The
// CRDs stay, and with them the objects of the users.
func uninstallChart(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := run(ctx, env.helm, "-n", operatorNamespace, "uninstall", "workpull", "--wait"); err != nil {
		t.Fatalf("uninstall the operator: %v", err)
	}
	awaitNoOperator(ctx, t)
}

// removeChart leaves nothing of an installation by chart, so that another way
// can be taken.
func removeChart(ctx context.Context, t *testing.T) {
	t.Helper()
	if _, err := run(ctx, env.helm, "-n", operatorNamespace, "status", "workpull"); err == nil {
		uninstallChart(ctx, t)
	}
	if _, err := run(ctx, env.helm, "-n", operatorNamespace, "uninstall", "workpull-crds", "--ignore-not-found"); err != nil {
		t.Fatalf("uninstall the CRDs: %v", err)
	}
	deleteCRDs(ctx, t) // the chart keeps them
	if _, err := env.kubectl(ctx, "delete", "namespace", operatorNamespace, "--ignore-not-found", "--timeout=60s"); err != nil {
		t.Fatalf("delete the operator's namespace: %v", err)
	}
}

func awaitNoOperator(ctx context.Context, t *testing.T) {
	t.Helper()
	err := await(ctx, time.Minute, func() error {
		if pods := operatorPods(ctx, t); len(pods) > 0 {
			return fmt.Errorf("%d pods are left", len(pods))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the operator is uninstalled and does not go: %v", err)
	}
}

// kill sends a signal to the first process of a pod's container, on its node.
// The time is from before the signal was sent.
func (w *world) kill(pod *corev1.Pod, signal string) time.Time {
	w.Helper()
	status := pod.Status.ContainerStatuses
	if len(status) != 1 {
		w.Fatalf("pod %s has %d containers, want 1", pod.Name, len(status))
	}
	id, ok := strings.CutPrefix(status[0].ContainerID, "containerd://")
	if !ok {
		w.Fatalf("container of pod %s is %q", pod.Name, status[0].ContainerID)
	}
	at := time.Now()
	_, err := env.onNode(w.ctx, pod.Spec.NodeName, "ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", signal, id)
	w.must(err, "signal the process of pod "+pod.Name)
	return at
}
