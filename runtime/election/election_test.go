package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// These tests run against a real API server, which they cut off by refusing
// requests on their way.

var apiConfig *rest.Config

// patience bounds what takes some seconds.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	code, err := withAPIServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func withAPIServer(run func() int) (int, error) {
	log.SetLogger(logr.Discard())
	environment := &envtest.Environment{}
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
	config, err := environment.Start()
	if err != nil {
		return 0, fmt.Errorf("start the API server: %w", err)
	}
	apiConfig = config
	code := run()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
	}
	return code, nil
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

// wire is a pod's way to the API server.
type wire struct {
	cut     atomic.Bool
	refused atomic.Int64
	served  atomic.Int64
	next    http.RoundTripper
}

var errCut = errors.New("cut off")

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		w.refused.Add(1)
		return nil, errCut
	}
	w.served.Add(1)
	return w.next.RoundTrip(r)
}

// pod is a candidate with a wire of its own.
type pod struct {
	Candidate
	wire   *wire
	holder chan string // told to a standby
}

func newPod(t *testing.T, lease, identity string) *pod {
	t.Helper()
	p := &pod{wire: &wire{}, holder: make(chan string, 16)}
	config := rest.CopyConfig(apiConfig)
	config.Timeout = RequestTimeout
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		p.wire.next = next
		return p.wire
	}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	p.Candidate = Candidate{
		Leases: client.CoordinationV1(), Namespace: "default", Name: lease, Identity: identity,
		Logger: slog.New(slog.DiscardHandler), Standby: func(holder string) { p.holder <- holder },
	}
	return p
}

// newLease makes an empty Lease, as the operator does.
func newLease(t *testing.T, name string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(apiConfig)
	require.NoError(t, err)
	_, err = client.CoordinationV1().Leases("default").Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (p *pod) wins(t *testing.T) *Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	term, err := p.Campaign(ctx)
	require.NoError(t, err, p.Identity)
	t.Cleanup(term.Resign)
	return term
}

// campaigns in the background.
func (p *pod) campaigns(t *testing.T) <-chan *Term {
	t.Helper()
	won := make(chan *Term, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() {
		if term, err := p.Campaign(ctx); err == nil {
			won <- term
		}
	}()
	return won
}

// within waits for something to be said.
func within[T any](t *testing.T, what string, said <-chan T) T {
	t.Helper()
	select {
	case v := <-said:
		return v
	case <-time.After(patience):
		require.FailNow(t, "not within "+patience.String(), what)
		panic("unreachable")
	}
}

func never[T any](t *testing.T, what string, said <-chan T) {
	t.Helper()
	select {
	case <-said:
		require.FailNow(t, what)
	default:
	}
}

// reaches waits until a counter is above a value.
func reaches(t *testing.T, what string, counter *atomic.Int64, value int64) {
	t.Helper()
	require.Eventually(t, func() bool { return counter.Load() >= value }, patience, 10*time.Millisecond, what)
}

func TestOneIsActiveAndTheOtherFollowsWhenItResigns(t *testing.T) {
	t.Parallel()
	newLease(t, "resign")
	a, b := newPod(t, "resign", "a_1"), newPod(t, "resign", "b_2")
	first := a.wins(t)
	won := b.campaigns(t)
	require.Equal(t, "a_1", within(t, "the standby learns who is active", b.holder))
	never(t, "two are active", won)
	first.Resign()
	second := within(t, "the standby takes over", won)
	never(t, "the new term is over", second.Lost())
	second.Resign()
}

// A process that restarts in its pod has the Lease still.
func TestRestartedProcessGoesOnWithItsLease(t *testing.T) {
	t.Parallel()
	newLease(t, "restart")
	a, b := newPod(t, "restart", "a_1"), newPod(t, "restart", "b_2")
	first := a.wins(t)
	first.cancel() // killed: nothing is given back
	<-first.ended
	won := b.campaigns(t)
	require.Equal(t, "a_1", within(t, "the standby learns who is active", b.holder))
	second := newPod(t, "restart", "a_1").wins(t)
	never(t, "the standby took over", won)
	second.cancel()
	<-second.ended
	within(t, "the standby takes over when the Lease has run out", won).Resign()
}

// An outage of the API server stops nobody, and the end of it makes nobody take
// over from one that could not renew either.
func TestOutageOfTheAPIServerChangesNothing(t *testing.T) {
	t.Parallel()
	newLease(t, "outage")
	a, b := newPod(t, "outage", "a_1"), newPod(t, "outage", "b_2")
	term := a.wins(t)
	won := b.campaigns(t)
	within(t, "the standby learns who is active", b.holder)
	a.wire.cut.Store(true)
	b.wire.cut.Store(true)
	// Each asks every RetryPeriod: the Lease has run out several times over.
	const often = int64(3 * Duration / RetryPeriod)
	reaches(t, "the standby asked in vain", &b.wire.refused, often)
	reaches(t, "the active one asked in vain", &a.wire.refused, often)
	never(t, "the term was lost", term.Lost())

	served := a.wire.served.Load()
	b.wire.cut.Store(false)
	a.wire.cut.Store(false)
	reaches(t, "the Lease is renewed for longer than it lasts", &a.wire.served, served+often)
	never(t, "the term was lost", term.Lost())
	never(t, "the standby took over", won)
}

// One that alone cannot reach the API server goes on until it sees another
// holder.
func TestCutOffProducerStopsWhenItSeesAnother(t *testing.T) {
	t.Parallel()
	newLease(t, "cut")
	a, b := newPod(t, "cut", "a_1"), newPod(t, "cut", "b_2")
	term := a.wins(t)
	won := b.campaigns(t)
	within(t, "the standby learns who is active", b.holder)
	a.wire.cut.Store(true)
	second := within(t, "the standby takes over", won)
	reaches(t, "the old one goes on asking", &a.wire.refused, a.wire.refused.Load()+4)
	never(t, "it knows of no other", term.Lost())
	a.wire.cut.Store(false)
	within(t, "it sees the other", term.Lost())
	require.Equal(t, "b_2", term.Holder())
	term.Resign()
	never(t, "the new one's Lease was given back by the old", second.Lost())
	second.Resign()
}

func TestCampaignEndsWithItsContext(t *testing.T) {
	t.Parallel()
	newLease(t, "ends")
	a, b := newPod(t, "ends", "a_1"), newPod(t, "ends", "b_2")
	term := a.wins(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.Campaign(ctx)
		done <- err
	}()
	within(t, "the standby learns who is active", b.holder)
	cancel()
	require.ErrorIs(t, within(t, "the campaign ends", done), context.Canceled)
	never(t, "the term was lost", term.Lost())
}
