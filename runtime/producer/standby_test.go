package producer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/runtime/podenv"
)

// apiServer is a real one, for the Lease.
func apiServer(t *testing.T) kubernetes.Interface {
	t.Helper()
	log.SetLogger(logr.Discard())
	environment := &envtest.Environment{}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		environment.ControlPlane.Etcd = &envtest.Etcd{Path: cached(t, "etcd-*/etcd")}
		environment.ControlPlane.APIServer = &envtest.APIServer{Path: cached(t, "kubernetes-*/kube-apiserver")}
	}
	config, err := environment.Start()
	require.NoError(t, err)
	t.Cleanup(func() { _ = environment.Stop() })
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

// cached finds a binary in the cache that `make test` fills.
func cached(t *testing.T, pattern string) string {
	t.Helper()
	folder := os.Getenv("WORKPULL_CACHE")
	if folder == "" {
		user, err := os.UserCacheDir()
		require.NoError(t, err)
		folder = filepath.Join(user, "workpull")
	}
	found, err := filepath.Glob(filepath.Join(folder, "bin", pattern))
	require.NoError(t, err)
	require.NotEmpty(t, found, "set KUBEBUILDER_ASSETS, or run make test, which builds %s", pattern)
	return found[len(found)-1]
}

// logged waits for a line of the log.
func (r *running) logged(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(r.logs.String(), text) }, patience, 10*time.Millisecond, text)
}

// An outage of the database closes the intake and ends by itself, and what was
// acknowledged before is there after (S33).
func TestDatabaseThatComesBack(t *testing.T) {
	server := pgtest.New(t)
	p, r := inProcess(t, settings(t, map[string]string{
		podenv.Queue: podenv.QueuePostgres, podenv.QueueURL: server.Database(t), podenv.QueueAttempts: "1",
	}))
	r.runs(t, p)
	r.becomesReady(t, "the producer becomes ready")
	require.Equal(t, 202, r.call(t, "POST", "/v1/jobs?id=a", "x").code)
	require.NoError(t, server.Kill())
	require.Eventually(t, func() bool { return r.call(t, "POST", "/v1/jobs?id=b", "x").code == 503 }, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		code, body := r.get(t, podenv.ReadinessPath)
		return code == 503 && strings.Contains(body, "queue fails")
	}, patience, 10*time.Millisecond)
	require.NoError(t, server.Start())
	r.becomesReady(t, "the producer recovers without a restart")
	require.Equal(t, 202, r.call(t, "POST", "/v1/jobs?id=b", "x").code)
	spawnHandler(t, p, &handler{})
	for _, id := range []string{"a", "b"} {
		require.Eventually(t, func() bool { return r.job(t, id).State == Done }, patience, 10*time.Millisecond, id)
	}
	require.NotContains(t, r.logs.String(), "correct", "the URL with its password is not logged")
}

// Whoever loads the queue has it: the one before stops, says so and, where
// there is no standby, ends.
func TestFencedProducerEnds(t *testing.T) {
	url := pgtest.New(t).Database(t)
	p, r := inProcess(t, settings(t, map[string]string{podenv.Queue: podenv.QueuePostgres, podenv.QueueURL: url}))
	ended := make(chan error, 1)
	go func() {
		defer p.end()
		ended <- p.run(context.Background())
	}()
	r.becomesReady(t, "the producer becomes ready")
	other := postgres.New(url, p.settings.flow())
	defer other.Close()
	_, _, err := other.Load(context.Background())
	require.NoError(t, err)
	go func() { _ = r.quietly("/v1/jobs?id=a") }()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, errSuperseded)
	case <-time.After(patience):
		require.FailNow(t, "the fenced producer goes on")
	}
}

// A standby takes over by the Lease with all that was acknowledged; the one
// that was active stops as soon as it sees that, and is a standby from then on.
func TestStandbyTakesOver(t *testing.T) {
	client := apiServer(t)
	url := pgtest.New(t).Database(t)
	lease, err := client.CoordinationV1().Leases("default").Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "thumbs"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	pod := func(name string) (*process, *running) {
		p, r := inProcess(t, settings(t, map[string]string{
			podenv.Queue: podenv.QueuePostgres, podenv.QueueURL: url, podenv.Lease: lease.Name,
			podenv.PodName: name, podenv.PodUID: "uid-of-" + name,
		}))
		p.leases = client.CoordinationV1()
		r.runs(t, p)
		return p, r
	}
	_, a := pod("a")
	a.logged(t, "jobs are taken")
	_, b := pod("b")
	require.Eventually(t, func() bool {
		answer := b.call(t, "POST", "/v1/jobs?id=none", "x")
		return answer.code == 503 && strings.Contains(answer.body, "the active one is a_uid-of-a")
	}, patience, 10*time.Millisecond)
	b.becomesReady(t, "a standby is ready")
	_, metrics := b.get(t, podenv.MetricsPath)
	require.Contains(t, metrics, "workpull_producer_active 0")
	for i := range 5 {
		require.Equal(t, 202, a.call(t, "POST", fmt.Sprintf("/v1/jobs?id=%d", i), "x").code)
	}

	// Somebody gives the Lease to b.
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"holderIdentity": ptr.To("b_uid-of-b")}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { // until a renewal does not come in between
		current, err := client.CoordinationV1().Leases("default").Get(t.Context(), lease.Name, metav1.GetOptions{})
		require.NoError(t, err)
		if ptr.Deref(current.Spec.HolderIdentity, "") == "b_uid-of-b" {
			return true
		}
		_, err = client.CoordinationV1().Leases("default").Patch(t.Context(), lease.Name, "application/merge-patch+json", patch, metav1.PatchOptions{})
		require.NoError(t, err)
		return false
	}, patience, 10*time.Millisecond)
	b.logged(t, "jobs are taken")
	require.EqualValues(t, 5, b.logs.line(t, "jobs are taken")["backlog"], "all that a acknowledged")
	a.logged(t, "this producer stands by from now on")
	require.Eventually(t, func() bool {
		return strings.Contains(a.call(t, "POST", "/v1/jobs?id=0", "x").body, "standby")
	}, patience, 10*time.Millisecond)
	a.becomesReady(t, "what was active is a ready standby")
	require.Equal(t, 202, b.call(t, "POST", "/v1/jobs?id=0", "x").code)
	require.Equal(t, 5, b.status(t).Waiting, "posted again it runs nothing twice")

	// b leaves in order: a has it back without waiting for the Lease to run out.
	require.NoError(t, b.stop())
	require.Eventually(t, func() bool { return a.call(t, "POST", "/v1/jobs?id=1", "x").code == 202 }, patience, 10*time.Millisecond)
	require.Equal(t, 5, a.status(t).Waiting)
	require.NoError(t, a.stop())
}
