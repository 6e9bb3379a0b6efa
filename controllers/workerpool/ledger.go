package workerpool

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workpull/operator/api/v1alpha1"
)

// Bounds of the backoffs.
const (
	replaceBackoffFirst = 10 * time.Second // as the kubelet's own first
	replaceBackoffCap   = 5 * time.Minute
	refusalBackoffFirst = time.Second
	refusalBackoffCap   = 30 * time.Second // a raised quota is used within this
	blockedSlotFor      = time.Minute
)

// ledger is what the operator remembers of its own doings with one pool. None
// of it has to survive a restart: a new process verifies against the API
// server before its first decision.
//
// Its main part are the expectations (S8): pods that were created or deleted
// and that the cache has not shown yet. While there are any, no pod decision
// is made.
type ledger struct {
	uid      types.UID // of the pool
	verified bool      // the cache has been compared with the API server once

	created map[types.UID]pending
	deleted map[types.UID]pending

	blocked map[int]time.Time // slots whose name somebody else has, and until when to believe it

	revision   string // of the template that replace is about
	replace    backoff
	generation int64 // of the spec that refusal is about
	refusal    *refusal

	statusWritten time.Time

	// closing: the namespace refused an object because it terminates. That is
	// final, so nothing is made any more (S22).
	closing bool
}

// pending is a write that the cache has not shown yet.
type pending struct {
	pod   string
	since time.Time
}

// refusal is a create that the API server refused.
type refusal struct {
	reason  string // of the ReplicaFailure condition
	message string
	backoff backoff
}

// backoff doubles from its first delay to its cap.
type backoff struct {
	failures int
	until    time.Time
}

// fail returns the backoff after one more failure.
func (b backoff) fail(now time.Time, first, limit time.Duration) backoff {
	if quiet := now.Sub(b.until); b.failures > 0 && quiet > limit {
		b.failures = 0
	}
	delay := limit
	if b.failures < 16 {
		delay = min(limit, first<<b.failures)
	}
	return backoff{failures: b.failures + 1, until: now.Add(delay)}
}

// settle forgets the expectations that the pods of the cache meet and tells
// whether none is left.
func (l *ledger) settle(pods []*corev1.Pod) bool {
	byUID := make(map[types.UID]*corev1.Pod, len(pods))
	for _, pod := range pods {
		byUID[pod.UID] = pod
	}
	for uid := range l.created {
		if byUID[uid] != nil {
			delete(l.created, uid)
		}
	}
	for uid := range l.deleted {
		if _, unseen := l.created[uid]; unseen {
			continue // absent because it has not come yet, not because it went
		}
		if pod := byUID[uid]; pod == nil || pod.DeletionTimestamp != nil {
			delete(l.deleted, uid)
		}
	}
	return l.verified && len(l.created) == 0 && len(l.deleted) == 0
}

// overdue returns the created pods that the cache has not shown for long:
// they may have been deleted before it ever saw them.
func (l *ledger) overdue(now time.Time, after time.Duration) map[types.UID]pending {
	out := map[types.UID]pending{}
	for uid, p := range l.created {
		if now.Sub(p.since) >= after {
			out[uid] = p
		}
	}
	return out
}

// compare expects the cache to show what the API server shows.
func (l *ledger) compare(live []*corev1.Pod, now time.Time) {
	for _, pod := range live {
		entry := pending{pod: pod.Name, since: now}
		l.created[pod.UID] = entry
		if pod.DeletionTimestamp != nil {
			l.deleted[pod.UID] = entry
		}
	}
	l.verified = true
}

// adopt resets the backoffs when their cause may have been corrected: that of
// crashing pods with a new template (not when an autoscaler writes replicas),
// that of refused creates with any change of the spec.
func (l *ledger) adopt(generation int64, revision string) {
	if l.revision != revision {
		l.revision, l.replace = revision, backoff{}
	}
	if l.generation != generation {
		l.generation, l.refusal = generation, nil
	}
}

// blockedSlots are the slots that are not to be tried now.
func (l *ledger) blockedSlots(now time.Time) map[int]bool {
	out := map[int]bool{}
	for slot, until := range l.blocked {
		if now.Before(until) {
			out[slot] = true
		} else {
			delete(l.blocked, slot)
		}
	}
	return out
}

// ledgers are safe for concurrent use; one pool's ledger is used by one
// reconcile at a time, except for gone.
type ledgers struct {
	mu    sync.Mutex
	pools map[types.NamespacedName]*ledger
	gone  map[types.NamespacedName][]types.UID
}

func newLedgers() *ledgers {
	return &ledgers{
		pools: map[types.NamespacedName]*ledger{},
		gone:  map[types.NamespacedName][]types.UID{},
	}
}

// open returns the ledger of a pool, a fresh one for a new pool of the name.
func (ls *ledgers) open(pool *v1alpha1.WorkerPool) *ledger {
	key := types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.pools[key]
	if l == nil || l.uid != pool.UID {
		l = &ledger{
			uid:     pool.UID,
			created: map[types.UID]pending{}, deleted: map[types.UID]pending{},
			blocked: map[int]time.Time{},
		}
		ls.pools[key] = l
	}
	for _, uid := range ls.gone[key] {
		delete(l.created, uid)
		delete(l.deleted, uid)
	}
	delete(ls.gone, key)
	return l
}

// close forgets a pool that is gone.
func (ls *ledgers) close(key types.NamespacedName) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.pools, key)
	delete(ls.gone, key)
}

// podGone notes that the cache saw the end of a pod, so that a pod which came
// and went between two reconciles is not waited for.
func (ls *ledgers) podGone(key types.NamespacedName, uid types.UID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.pools[key] != nil {
		ls.gone[key] = append(ls.gone[key], uid)
	}
}
