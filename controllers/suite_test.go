package controllers_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/go-logr/logr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers"
	"github.com/workpull/operator/controllers/children"
)

// These tests run against a real API server. There is no kubelet, scheduler or
// controller manager: the tests set what those would.

var (
	apiConfig *rest.Config
	api       client.Client // reads and writes without a cache, as an administrator

	// operatorUser is whom the operator runs as. It has the rights that
	// config/rbac/role.yaml gives, and no others.
	operatorUser = "system:serviceaccount:workpull-system:workpull-operator"
)

const (
	soon  = 30 * time.Second // bound of every wait
	often = 20 * time.Millisecond
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait for the API server more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code, err := withAPIServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func withAPIServer(run func() int) (int, error) {
	log.SetLogger(logr.Discard())
	environment := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		etcd, err := cached("etcd-*/etcd")
		if err != nil {
			return 0, err
		}
		apiServer, err := cached("kubernetes-*/kube-apiserver")
		if err != nil {
			return 0, err
		}
		environment.ControlPlane.Etcd = &envtest.Etcd{Path: etcd}
		environment.ControlPlane.APIServer = &envtest.APIServer{Path: apiServer}
	}
	environment.ControlPlane.GetAPIServer().Configure().
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
	var err error
	if apiConfig, err = environment.Start(); err != nil {
		return 0, fmt.Errorf("start the API server: %w", err)
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	apiConfig.QPS, apiConfig.Burst = -1, -1
	if api, err = client.New(apiConfig, client.Options{Scheme: newScheme()}); err != nil {
		return 0, fmt.Errorf("make a client: %w", err)
	}
	if err := grantRole(); err != nil {
		return 0, err
	}
	return run(), nil
}

// grantRole binds the generated role, as an installation does.
func grantRole() error {
	data, err := os.ReadFile(filepath.Join("..", "config", "rbac", "role.yaml"))
	if err != nil {
		return fmt.Errorf("read the operator's role: %w", err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &role); err != nil {
		return fmt.Errorf("parse the operator's role: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: operatorUser}},
	}
	for _, object := range []client.Object{&role, binding} {
		if err := api.Create(context.Background(), object); err != nil {
			return fmt.Errorf("grant the operator's role: %w", err)
		}
	}
	return nil
}

// cached finds a binary in the cache that `make test` fills.
func cached(pattern string) (string, error) {
	folder := os.Getenv("WORKPULL_CACHE")
	if folder == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the cache: %w", err)
		}
		folder = filepath.Join(user, "workpull")
	}
	found, err := filepath.Glob(filepath.Join(folder, "bin", pattern))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no %s in %s/bin: set KUBEBUILDER_ASSETS, or run make test, which builds it", pattern, folder)
	}
	return found[len(found)-1], nil
}

func newScheme() *runtime.Scheme {
	scheme, err := controllers.NewScheme()
	if err != nil {
		panic(err)
	}
	return scheme
}

// namespace makes a namespace named after the test.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	require.NoError(t, api.Create(t.Context(), ns))
	return ns.Name
}

// writes counts what an operator writes.
type writes struct{ all, podCreates, podDeletes, statuses atomic.Int64 }

// operator runs the manager as cmd/operator does, for one namespace, until the
// test or stop ends it.
func operator(t *testing.T, ns string) (count *writes, stop func()) {
	t.Helper()
	count = &writes{}
	asOperator := rest.CopyConfig(apiConfig)
	asOperator.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	mgr, err := ctrl.NewManager(asOperator, ctrl.Options{
		Scheme:     newScheme(),
		Cache:      controllers.CacheOptions([]string{ns}),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // one manager for each test
		NewClient: func(c *rest.Config, o client.Options) (client.Client, error) {
			upstream, err := client.NewWithWatch(c, o)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(upstream, count.funcs()), nil
		},
	})
	require.NoError(t, err)
	require.NoError(t, controllers.Setup(mgr, children.StockImage{Name: "example.com/workpull:1"}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			assert.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return count, stop
}

func (w *writes) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.all.Add(1)
			if _, ok := o.(*corev1.Pod); ok {
				w.podCreates.Add(1)
			}
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			w.all.Add(1)
			if _, ok := o.(*corev1.Pod); ok {
				w.podDeletes.Add(1)
			}
			return c.Delete(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			w.all.Add(1)
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.all.Add(1)
			return c.Patch(ctx, o, p, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			w.all.Add(1)
			return c.Apply(ctx, o, opts...)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			w.all.Add(1)
			w.statuses.Add(1)
			return c.SubResource(sub).Apply(ctx, o, opts...)
		},
	}
}

func newProducer(ns, name string) *v1alpha1.Producer {
	p := &v1alpha1.Producer{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	p.Spec.Queue.Memory = &v1alpha1.MemoryQueue{}
	return p
}

func newPool(ns, name, producer string, replicas int32) *v1alpha1.WorkerPool {
	w := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	w.Spec.ProducerRef.Name = producer
	w.Spec.Replicas = ptr.To(replicas)
	w.Spec.Template.Spec.Containers = []corev1.Container{{Name: "worker", Image: "example.com/worker:1"}}
	return w
}

// create creates objects.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		require.NoError(t, api.Create(t.Context(), o))
	}
}

// change edits an object as a user does.
func change[T client.Object](t *testing.T, object T, edit func(T)) {
	t.Helper()
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	before := object.DeepCopyObject().(T)
	edit(object)
	require.NoError(t, api.Patch(t.Context(), object, client.MergeFrom(before)))
}

// eventually waits until check has no complaint.
func eventually(t *testing.T, why string, check func(c *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, check, soon, often, why)
}

// podsOf lists a pool's pods by name.
func podsOf(ctx context.Context, c assert.TestingT, ns, pool string) map[string]*corev1.Pod {
	var list corev1.PodList
	assert.NoError(c, api.List(ctx, &list, client.InNamespace(ns), client.MatchingLabels{v1alpha1.LabelPool: pool}))
	out := map[string]*corev1.Pod{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// waitForPods waits until the pool has exactly these pods, terminating ones
// marked by a trailing "!".
func waitForPods(t *testing.T, ns, pool string, want ...string) map[string]*corev1.Pod {
	t.Helper()
	var pods map[string]*corev1.Pod
	eventually(t, "pods "+strings.Join(want, " "), func(c *assert.CollectT) {
		pods = podsOf(t.Context(), c, ns, pool)
		got := []string{}
		for name, pod := range pods {
			if pod.DeletionTimestamp != nil {
				name += "!"
			}
			got = append(got, name)
		}
		assert.ElementsMatch(c, want, got)
	})
	return pods
}

// waitForCondition waits until the condition has status and reason, and
// returns its message.
func waitForCondition(t *testing.T, object client.Object, conditionType, want string) string {
	t.Helper()
	message := ""
	eventually(t, conditionType+" "+want, func(c *assert.CollectT) {
		assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		got := "absent"
		for _, condition := range conditionsOf(object) {
			if condition.Type == conditionType {
				got, message = string(condition.Status)+" "+condition.Reason, condition.Message
			}
		}
		assert.Equal(c, want, got)
	})
	return message
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch o := object.(type) {
	case *v1alpha1.Producer:
		return o.Status.Conditions
	case *v1alpha1.WorkerPool:
		return o.Status.Conditions
	}
	return nil
}

// quiet waits until the operator has written nothing for a while, and returns
// how much it wrote until then.
func quiet(t *testing.T, count *writes) int64 {
	t.Helper()
	const calm = time.Second
	last, since := count.all.Load(), time.Now()
	require.Eventually(t, func() bool {
		if now := count.all.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= calm
	}, soon, often, "the operator must come to rest")
	return last
}

// requireNoFinalizer fails when an object of the list has a finalizer, except
// for the API server's own.
func requireNoFinalizer(t *testing.T, list client.ObjectList) {
	t.Helper()
	require.NoError(t, meta.EachListItem(list, func(o runtime.Object) error {
		object := o.(client.Object)
		require.Empty(t, object.GetFinalizers(), "%T %s", object, object.GetName())
		return nil
	}))
}
