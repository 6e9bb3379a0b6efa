//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpull/operator/api/v1alpha1"
)

// TestUninstall takes operator, objects and namespaces away in each order: no
// pod is left and no namespace gets stuck (S22).
func TestUninstall(t *testing.T) {
	t.Run("namespace first", func(t *testing.T) {
		needOperator(t)
		w := newWorld(t, "first", 2*time.Minute)
		w.busy()
		w.deleteNamespace()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		uninstallChart(ctx, t)
	})
	t.Run("operator first", func(t *testing.T) {
		needOperator(t)
		objects, namespace := newWorld(t, "objects", 3*time.Minute), newWorld(t, "namespace", 3*time.Minute)
		objects.busy()
		namespace.busy()
		uninstallChart(objects.ctx, t)

		// Without the operator, deleted objects take their pods along.
		objects.deleteObjects()
		namespace.deleteNamespace()

		// The next operator finds nothing to do.
		from := objects.history.mark()
		needOperator(t)
		again := newWorld(t, "again", 2*time.Minute)
		again.start(again.producer("jobs"), again.pool("workers", "jobs", 1))
		if events := objects.history.after(objects, from); len(events) != 0 {
			t.Errorf("after the operator came back: %d changes of pods in a namespace without objects, want none", len(events))
		}
	})
	t.Run("operator and namespace together", func(t *testing.T) {
		needOperator(t)
		w := newWorld(t, "together", 3*time.Minute)
		w.busy()
		for _, name := range []string{operatorNamespace, w.ns} {
			w.must(env.api.Delete(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}), "delete namespace "+name)
		}
		w.must(namespaceGone(w.ctx, w.ns), "wait for the end of namespace "+w.ns)
		w.must(namespaceGone(w.ctx, operatorNamespace), "wait for the end of namespace "+operatorNamespace)
		// What the chart made outside of its namespace is no release's any more.
		_, err := env.kubectl(w.ctx, "delete", "clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/name=workpull")
		w.must(err, "delete what the chart left outside of the namespace")
		deleteCRDs(w.ctx, t)
	})
}

// busy starts a producer with attached workers and members, one of which runs a
// job that ends by itself.
func (w *world) busy() {
	w.Helper()
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 2), w.pool("members", "jobs", 1, asMembers))
	in.submit("busy", work{Sleep: "3s"})
	w.awaitRun(10*time.Second, "busy", 1)
}

// deleteCRDs deletes the CRDs, which the charts keep, and all objects with them.
func deleteCRDs(ctx context.Context, t *testing.T) {
	t.Helper()
	_, err := env.kubectl(ctx, "delete", "crd", "--ignore-not-found", "--timeout=60s", "producers."+v1alpha1.GroupVersion.Group, "workerpools."+v1alpha1.GroupVersion.Group)
	if err != nil {
		t.Fatalf("delete the CRDs: %v", err)
	}
}

func TestInstallByKustomize(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	removeChart(ctx, t)
	dir := overlay(t)
	if _, err := env.kubectl(ctx, "apply", "-k", dir); err != nil {
		t.Fatal(err)
	}
	if err := await(ctx, installLimit, func() error { return operatorAvailable(ctx) }); err != nil {
		t.Fatalf("the operator is installed and not available: %v", err)
	}
	// The pinned kustomize renders the same as the one in kubectl.
	rendered, err := run(ctx, env.kustomize, "build", dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := runWith(ctx, rendered, env.cluster, "kubectl", "diff", "-f", "-"); err != nil {
		t.Errorf("kustomize build differs from what kubectl applied: %v %s", err, out)
	}

	w := newWorld(t, "kustomize", 2*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 2))
	ids := in.submitMany("job", 20, work{})
	in.awaitDone(30*time.Second, ids...)
	w.ranOnce(ids...)

	// CRDs, operator and namespace in one command, with objects in use.
	if _, err := env.kubectl(ctx, "delete", "-k", dir, "--timeout=90s"); err != nil {
		t.Errorf("uninstall: %v", err)
	}
	w.deleteObjects()
	if err := namespaceGone(ctx, operatorNamespace); err != nil {
		t.Errorf("namespace %s does not go away: %v", operatorNamespace, err)
	}
	out, err := env.kubectl(ctx, "get", "crd,clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/name=workpull", "-o", "name")
	if err != nil || out != "" {
		t.Errorf("want nothing left of the installation, got %q, %v", out, err)
	}
}
