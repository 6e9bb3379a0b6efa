//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
)

// world is what one test works in: a namespace of its own, a deadline, and a
// folder in which its workers write down what they do.
type world struct {
	*testing.T
	ctx     context.Context
	ns      string
	records string
	history *history
}

// poll is how often a condition is looked at.
const poll = 50 * time.Millisecond

// namespaceLimit bounds how long a namespace may take to go (S22). Idle
// workers leave at once, busy ones have drain (objects_test.go) to finish.
const namespaceLimit = 90 * time.Second

// newWorld makes a namespace. After the test it and all that is in it has to
// go within a bounded time; before that a failed test's state is written down.
func newWorld(t *testing.T, name string, limit time.Duration) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	var suffix [2]byte
	_, _ = rand.Read(suffix[:]) // never fails
	w := &world{T: t, ctx: ctx, ns: fmt.Sprintf("e2e-%s-%s", name, hex.EncodeToString(suffix[:]))}
	w.records = filepath.Join(env.records, w.ns)
	w.must(os.MkdirAll(w.records, 0o755), "make the folder of records")
	w.must(os.Chmod(w.records, 0o777), "open the folder of records to the workers' user")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}})
	w.history = watchPods(w)
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	ctx, cancel := context.WithTimeout(context.Background(), namespaceLimit)
	defer cancel()
	if w.Failed() {
		dump(ctx, w.T, w.ns, w.history)
		if os.Getenv("E2E_KEEP") != "" {
			return
		}
	}
	w.ctx = ctx
	w.releaseAll()
	w.deleteObjects()
	w.deleteNamespace()
}

// deleteObjects deletes pools and producers and waits until their pods are
// gone. A namespace that is deleted with pods in it is looked at again only
// after half of their grace period.
func (w *world) deleteObjects() {
	w.Helper()
	start := time.Now()
	for _, kind := range []client.Object{&v1alpha1.WorkerPool{}, &v1alpha1.Producer{}} {
		err := env.api.DeleteAllOf(w.ctx, kind, client.InNamespace(w.ns))
		if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) { // the kind may be uninstalled
			w.Errorf("delete the objects in %s: %v", w.ns, err)
		}
	}
	err := await(w.ctx, namespaceLimit, func() error {
		var list corev1.PodList
		if err := env.api.List(w.ctx, &list, client.InNamespace(w.ns)); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%d are left, among them %s", len(list.Items), list.Items[0].Name)
		}
		return nil
	})
	if err != nil {
		w.Errorf("the pods of %s do not go away with their owners: %v", w.ns, err)
		dump(context.Background(), w.T, w.ns, w.history)
		return
	}
	w.Logf("all pods of %s are gone %.1f s after their owners", w.ns, time.Since(start).Seconds())
}

// deleteNamespace deletes the namespace and waits until it is gone.
func (w *world) deleteNamespace() {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}
	if err := client.IgnoreNotFound(env.api.Delete(w.ctx, namespace)); err != nil {
		w.Errorf("delete namespace %s: %v", w.ns, err)
		return
	}
	start := time.Now()
	if err := namespaceGone(w.ctx, w.ns); err != nil {
		w.Errorf("namespace %s does not go away: %v", w.ns, err)
		dump(context.Background(), w.T, w.ns, w.history)
		return
	}
	w.Logf("namespace %s is gone after %.1f s", w.ns, time.Since(start).Seconds())
}

// namespaceGone waits for the end of a namespace that is being deleted.
func namespaceGone(ctx context.Context, name string) error {
	return await(ctx, namespaceLimit, func() error {
		namespace := &corev1.Namespace{}
		switch err := env.api.Get(ctx, client.ObjectKey{Name: name}, namespace); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is %s; %s", namespace.Status.Phase, conditionsOf(namespace))
	})
}

func conditionsOf(n *corev1.Namespace) string {
	out := ""
	for _, c := range n.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			out += fmt.Sprintf("%s: %s; ", c.Type, c.Message)
		}
	}
	return out
}

// await looks at a condition until it holds, the limit is over or ctx ends. The
// error is the condition's last.
func await(ctx context.Context, limit time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	last := errors.New("it was never looked at")
	for {
		// What ends because the time is over says nothing about the condition.
		if err := check(); err == nil {
			return nil
		} else if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
	}
}

// eventually fails the test unless the condition comes to hold in time; what
// says what is waited for.
func (w *world) eventually(limit time.Duration, what string, check func() error) {
	w.Helper()
	start := time.Now()
	if err := await(w.ctx, limit, check); err != nil {
		w.Fatalf("%s: not after %.1f s: %v", what, time.Since(start).Seconds(), err)
	}
}

// must fails the test on an error; doing says what was being done.
func (w *world) must(err error, doing string) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", doing, err)
	}
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		w.must(env.api.Create(w.ctx, o), fmt.Sprintf("create %T %s", o, o.GetName()))
	}
}

// get reads an object of the world's namespace.
func (w *world) get(name string, into client.Object) error {
	return env.api.Get(w.ctx, client.ObjectKey{Namespace: w.ns, Name: name}, into)
}

// update changes an object by a merge patch, so that concurrent writes to
// other fields do no harm.
func update[T client.Object](w *world, name string, object T, change func(T)) {
	w.Helper()
	w.must(w.get(name, object), "read "+name)
	before := object.DeepCopyObject().(client.Object)
	change(object)
	w.must(env.api.Patch(w.ctx, object, client.MergeFrom(before)), "change "+name)
}

func (w *world) kubectl(args ...string) string {
	w.Helper()
	out, err := env.kubectl(w.ctx, append([]string{"-n", w.ns}, args...)...)
	w.must(err, "run kubectl")
	return out
}
