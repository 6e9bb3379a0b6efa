// Package election chooses the active one among the pods of a producer, by a
// Lease (docs/decisions/006-producer-failover.md).
//
// The Lease only says whose turn it is. That two never write is the queue's
// affair: whoever loads it fences all before. So an active producer that cannot
// renew its Lease goes on, unlike client-go's leaders: the outage of an API
// server must not stop every queue.
package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// A standby takes over when the Lease was not renewed for Duration, as it saw
// it itself. Whoever holds it renews it every RetryPeriod and gives up an
// attempt after renewDeadline.
const (
	Duration      = 3 * time.Second
	renewDeadline = 2 * time.Second
	RetryPeriod   = 500 * time.Millisecond
	// RequestTimeout bounds one request to the API server: one that is lost must
	// not use up the deadline.
	RequestTimeout = time.Second
	// resignTimeout bounds the return of the Lease.
	resignTimeout = 2 * time.Second
)

// Candidate is a pod that may become the active one.
type Candidate struct {
	// Leases of the API server.
	Leases coordinationv1.LeasesGetter
	// Namespace and Name of the Lease, which the operator has made.
	Namespace, Name string
	// Identity of the pod. It stays the same when the pod's process restarts,
	// which then goes on at once with the Lease that it still has.
	Identity string
	// Logger tells of turns.
	Logger *slog.Logger
	// Standby is told who has the Lease, each time that it is another pod; nil
	// where nobody asks.
	Standby func(holder string)
}

// Term is the time for which a pod is the active one.
type Term struct {
	candidate Candidate
	cancel    context.CancelFunc
	won       chan struct{}
	lost      chan struct{}
	ended     chan struct{}

	mu     sync.Mutex
	active bool
	holder string // another one, when it was seen last
}

// Campaign waits until the pod is the active one, or ctx ends. The term goes on
// beyond ctx, until it is lost or Resign is called.
func (c Candidate) Campaign(ctx context.Context) (*Term, error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &Term{candidate: c, cancel: cancel, won: make(chan struct{}), lost: make(chan struct{}), ended: make(chan struct{})}
	go t.run(klog.NewContext(running, logr.Discard()))
	select {
	case <-t.won:
		return t, nil
	case <-ctx.Done():
		t.Resign()
		return nil, context.Cause(ctx)
	case <-t.ended:
		return nil, fmt.Errorf("campaign for Lease %s/%s: the settings are refused", c.Namespace, c.Name)
	}
}

// Lost is closed when another holder of the Lease was seen.
func (t *Term) Lost() <-chan struct{} { return t.lost }

// Holder is the pod that took over, once the term is lost.
func (t *Term) Holder() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holder
}

// Resign ends the term and gives the Lease back if it is still this pod's, so
// that a standby need not wait for it to run out. Whoever resigns has stopped
// before all that only the active one may do.
func (t *Term) Resign() {
	t.cancel()
	<-t.ended
	t.mu.Lock()
	release := t.active && t.holder == ""
	t.mu.Unlock()
	if !release {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), resignTimeout)
	defer cancel()
	if err := t.release(ctx); err != nil {
		t.candidate.Logger.Warn("the Lease was not given back and has to run out", "lease", t.candidate.Name, "error", err)
	}
}

func (t *Term) release(ctx context.Context) error {
	lock := t.candidate.lock()
	record, _, err := lock.Get(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if record.HolderIdentity != t.candidate.Identity {
		return nil
	}
	now := metav1.Now()
	return lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}

func (c *Candidate) lock() *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Client:     c.Leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.Identity},
	}
}

// run elects until the term is over. client-go's elector ends when it cannot
// renew; another one then tries to get the Lease back while the term goes on.
func (t *Term) run(ctx context.Context) {
	defer close(t.ended)
	failing := false
	for ctx.Err() == nil {
		electing, cancel := context.WithCancel(ctx)
		lock := &watchedLock{LeaseLock: t.candidate.lock(), term: t, anew: cancel}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: Duration, RenewDeadline: renewDeadline, RetryPeriod: RetryPeriod,
			Name: t.candidate.Name,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			cancel()
			t.candidate.Logger.Error("cannot elect", "lease", t.candidate.Name, "error", err)
			return
		}
		elector.Run(electing)
		cancel()
		switch {
		case ctx.Err() != nil:
		case lock.held: // and then not
			failing = true
			t.candidate.Logger.Warn("the Lease cannot be renewed; this producer goes on until it sees another holder or its queue is fenced", "lease", t.candidate.Name)
		case failing:
			t.candidate.Logger.Info("the Lease is read again", "lease", t.candidate.Name)
			failing = false
		}
	}
}

// win begins the term, once.
func (t *Term) win() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active {
		return
	}
	t.active, t.holder = true, ""
	close(t.won)
}

// other takes note of another holder, which ends the term of an active pod.
func (t *Term) other(holder string) {
	t.mu.Lock()
	active, again := t.active, t.holder == holder
	t.holder = holder
	t.mu.Unlock()
	switch {
	case again:
	case active:
		t.candidate.Logger.Warn("another pod has the Lease", "lease", t.candidate.Name, "holder", holder)
		t.cancel()
		close(t.lost)
	case t.candidate.Standby != nil:
		t.candidate.Standby(holder)
	}
}

// blindness is how long the Lease may be out of sight before what was seen
// before counts no more.
const blindness = 2 * RetryPeriod

// errBlind keeps an elector from deciding by what it saw long ago.
var errBlind = errors.New("the Lease could not be read for a while: it is observed anew")

// watchedLock sees what the elector reads and writes, one after another.
type watchedLock struct {
	*resourcelock.LeaseLock
	term  *Term
	anew  context.CancelFunc
	held  bool      // it was written
	blind time.Time // when reads began to fail; zero when they do not
}

// Get reads the Lease. After a time in which it could not be read, the elector
// is replaced by one that has seen nothing: the old one would take a Lease for
// expired that its holder could not renew either, and is about to.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, err
	case err != nil:
		if l.blind.IsZero() {
			l.blind = time.Now()
		}
		return nil, nil, err
	case record.HolderIdentity != "" && record.HolderIdentity != l.term.candidate.Identity:
		l.term.other(record.HolderIdentity)
	}
	if !l.blind.IsZero() && time.Since(l.blind) > blindness {
		l.anew()
		return nil, nil, errBlind
	}
	l.blind = time.Time{}
	return record, raw, nil
}

// Update writes the Lease, after which it is this pod's.
func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Update(ctx, record)
	l.wrote(err)
	return err
}

// Create makes the Lease, where that is allowed.
func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Create(ctx, record)
	l.wrote(err)
	return err
}

func (l *watchedLock) wrote(err error) {
	if err == nil {
		l.held = true
		l.term.win()
	}
}
