package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names in the cluster. Both namespaces carry demoLabel, so that nothing is
// touched that was there before.
const (
	systemNamespace = "workpull-system"
	demoNamespace   = "workpull-demo"
	demoLabel       = "workpull.dev/demo"

	producerName = "thumbnails"
	poolName     = "thumbnailer"
	sinkName     = "thumbnail-sink"

	operatorRelease = "workpull"
	crdsRelease     = "workpull-crds"
)

// pollInterval is the time between two looks at something that is awaited.
const pollInterval = 200 * time.Millisecond

var (
	producerKind = schema.GroupVersionKind{Group: "workpull.dev", Version: "v1alpha1", Kind: "Producer"}
	poolKind     = schema.GroupVersionKind{Group: "workpull.dev", Version: "v1alpha1", Kind: "WorkerPool"}
)

// world is the cluster.
type world struct {
	*machine
	kubeconfig string
	core       kubernetes.Interface
	objects    client.Client
}

// install installs the CRDs and the operator by their charts.
func (w *world) install(ctx context.Context) error {
	if err := w.checkFree(ctx); err != nil {
		return err
	}
	for _, name := range []string{systemNamespace, demoNamespace} {
		if err := w.namespace(ctx, name); err != nil {
			return err
		}
	}
	if err := w.step(ctx, "install the CRDs by helm", w.runHelm(ctx, "upgrade", "--install", crdsRelease, w.chart("workpull-crds"))); err != nil {
		return err
	}
	return w.step(ctx, "install the operator by helm", w.runHelm(ctx, "upgrade", "--install", operatorRelease, w.chart("workpull"),
		"--wait", "--timeout", "3m",
		"--set", "image.repository="+w.prefix+"/operator", "--set", "image.tag="+w.tag,
		"--set", "workpullImage.repository="+w.prefix+"/workpull", "--set", "workpullImage.tag="+w.tag))
}

// checkFree refuses a cluster where somebody else runs an operator.
func (w *world) checkFree(ctx context.Context) error {
	found, err := w.core.AppsV1().Deployments("").List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=workpull,app.kubernetes.io/component=operator",
	})
	if err != nil {
		return fmt.Errorf("look for an operator: %w", err)
	}
	for _, d := range found.Items {
		if d.Namespace != systemNamespace {
			return fmt.Errorf("an operator is installed already, in namespace %s: want a cluster without one", d.Namespace)
		}
	}
	return nil
}

// namespace makes a namespace of the demonstration's own.
func (w *world) namespace(ctx context.Context, name string) error {
	ns, err := w.core.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{demoLabel: "true"}}}
		_, err = w.core.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("make the namespace %s: %w", name, err)
	}
	if ns.Labels[demoLabel] == "" {
		return fmt.Errorf("namespace %s is there already and is not the demo's: want a cluster without it", name)
	}
	return nil
}

func (w *world) chart(name string) string { return filepath.Join(w.root, "charts", name) }

func (w *world) runHelm(ctx context.Context, arguments ...string) *exec.Cmd {
	arguments = append(arguments, "--namespace", systemNamespace)
	if w.kubeconfig != "" {
		arguments = append(arguments, "--kubeconfig", w.kubeconfig)
	}
	return w.run(ctx, w.root, w.helm, arguments...)
}

// deploy applies the example and waits until it works.
func (w *world) deploy(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(w.root, "examples", "thumbnailer", "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("find the example's manifests below %s: %w", w.root, errors.Join(err, os.ErrNotExist))
	}
	sort.Strings(files)
	done := w.out.step("apply examples/thumbnailer and wait for it")
	for _, file := range files {
		if err := w.applyFile(ctx, file); err != nil {
			return err
		}
	}
	if err := w.await(ctx, "the producer, the workers and the sink", w.deployed); err != nil {
		return err
	}
	done()
	return nil
}

func (w *world) applyFile(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read a manifest: %w", err)
	}
	// The manifests name the images of a release.
	for _, name := range images {
		text = replaceImage(text, "workpull/"+name, w.prefix+"/"+name+":"+w.tag)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := new(unstructured.Unstructured)
		if err := decoder.Decode(&object.Object); err != nil {
			break // its end; a file that is no YAML yields no object below
		}
		if len(object.Object) == 0 {
			continue
		}
		object.SetNamespace(demoNamespace)
		err := w.objects.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("workpull-demo"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s of %s: %w", object.GetKind(), object.GetName(), filepath.Base(file), err)
		}
	}
	return nil
}

// replaceImage gives the image of that name another reference.
func replaceImage(text []byte, name, reference string) []byte {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		before, image, ok := strings.Cut(line, "image: ")
		if ok && strings.HasPrefix(image, name+":") {
			lines[i] = before + "image: " + reference
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// deployed returns what is still missing, and "" when nothing is.
func (w *world) deployed(ctx context.Context) (string, error) {
	for _, kind := range []struct {
		schema.GroupVersionKind
		name string
	}{{producerKind, producerName}, {poolKind, poolName}} {
		object := new(unstructured.Unstructured)
		object.SetGroupVersionKind(kind.GroupVersionKind)
		if err := w.objects.Get(ctx, client.ObjectKey{Namespace: demoNamespace, Name: kind.name}, object); err != nil {
			return "", err
		}
		if status, message := available(object); status != "True" {
			return fmt.Sprintf("%s %s is not available: %s", kind.Kind, kind.name, message), nil
		}
	}
	var sink appsv1.Deployment
	if err := w.objects.Get(ctx, client.ObjectKey{Namespace: demoNamespace, Name: sinkName}, &sink); err != nil {
		return "", err
	}
	if sink.Status.AvailableReplicas < 1 {
		return "the sink has no pod that is available", nil
	}
	return "", nil
}

func available(object *unstructured.Unstructured) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Available" {
			return fmt.Sprint(condition["status"]), fmt.Sprint(condition["message"])
		}
	}
	return "Unknown", "it has no condition Available yet"
}

// await looks until nothing is missing any more, or ctx ends.
func (w *world) await(ctx context.Context, what string, look func(context.Context) (missing string, err error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		missing, err := look(ctx)
		if err == nil && missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %s: %w", what, missing, errors.Join(context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}

// uninstall removes everything that install and deploy made.
func (w *world) uninstall(ctx context.Context) error {
	if _, err := w.core.CoreV1().Namespaces().Get(ctx, systemNamespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		w.out.say("there is nothing to remove")
		return nil
	}
	for _, name := range []string{systemNamespace, demoNamespace} {
		if err := w.namespace(ctx, name); err != nil { // refuses one that is not the demo's
			return err
		}
	}
	if err := w.removeNamespace(ctx, demoNamespace); err != nil {
		return err
	}
	if err := w.step(ctx, "uninstall the operator", w.runHelm(ctx, "uninstall", operatorRelease, "--ignore-not-found", "--wait")); err != nil {
		return err
	}
	if err := w.step(ctx, "uninstall the CRDs' release", w.runHelm(ctx, "uninstall", crdsRelease, "--ignore-not-found")); err != nil {
		return err
	}
	if err := w.removeCRDs(ctx); err != nil {
		return err
	}
	return w.removeNamespace(ctx, systemNamespace)
}

func (w *world) removeNamespace(ctx context.Context, name string) error {
	done := w.out.step("remove the namespace " + name)
	err := w.core.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the namespace %s: %w", name, err)
	}
	err = w.await(ctx, "the end of namespace "+name, func(ctx context.Context) (string, error) {
		_, err := w.core.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "it is still there", err
	})
	if err == nil {
		done()
	}
	return err
}

// removeCRDs removes the kinds, which the chart keeps, unless somebody has
// objects of them.
func (w *world) removeCRDs(ctx context.Context) error {
	for _, kind := range []schema.GroupVersionKind{producerKind, poolKind} {
		list := new(unstructured.UnstructuredList)
		list.SetGroupVersionKind(kind)
		err := w.objects.List(ctx, list, client.Limit(1))
		switch {
		case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("look for objects of kind %s: %w", kind.Kind, err)
		case len(list.Items) > 0:
			w.out.say("the CRDs stay: there is a %s in namespace %s", kind.Kind, list.Items[0].GetNamespace())
			return nil
		}
	}
	for _, name := range []string{"producers.workpull.dev", "workerpools.workpull.dev"} {
		crd := new(unstructured.Unstructured)
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		crd.SetName(name)
		if err := w.objects.Delete(ctx, crd); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the CRD %s: %w", name, err)
		}
	}
	return nil
}
