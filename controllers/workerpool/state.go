package workerpool

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
	"github.com/workpull/operator/controllers/children"
)

// expectationTimeout is how long a created pod may be missing from the cache
// before the API server is asked whether it still exists.
const expectationTimeout = 5 * time.Second

// state is everything that the plan and the status depend on.
type state struct {
	now      time.Time
	pool     *v1alpha1.WorkerPool // with defaults
	invalid  field.ErrorList
	producer bool // exists and is not being deleted

	workers []worker // by slot
	settled bool     // the cache shows every pod write of ours

	stored      []*appsv1.ControllerRevision
	current     *appsv1.ControllerRevision
	newRevision bool // current is not stored yet

	accounts  []apply.Observed // ServiceAccount, Role, RoleBinding of members
	leftovers []client.Object  // of these, what the pool has and does not need

	closing bool // the namespace terminates
	blocked map[int]bool
	replace backoff
	refusal *refusal
}

// observe reads the state. Reads come from the cache; the API server is asked
// only where the cache cannot know.
func (r *Reconciler) observe(ctx context.Context, pool *v1alpha1.WorkerPool, book *ledger) (state, error) {
	s := state{now: r.Clock.Now(), pool: pool}
	pool.SetDefaults()
	s.invalid = pool.Validate()
	var producer v1alpha1.Producer
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: pool.Spec.ProducerRef.Name}, &producer)
	if client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("get Producer %s: %w", pool.Spec.ProducerRef.Name, err)
	}
	s.producer = err == nil && producer.DeletionTimestamp == nil

	if err := r.observeRevisions(ctx, &s); err != nil {
		return s, err
	}
	book.adopt(pool.Generation, s.current.Labels[v1alpha1.LabelRevision])
	s.closing, s.replace, s.refusal = book.closing, book.replace, book.refusal
	s.blocked = book.blockedSlots(s.now)
	if err := r.observePods(ctx, &s, book); err != nil {
		return s, err
	}
	return s, r.observeAccounts(ctx, &s)
}

func (r *Reconciler) observePods(ctx context.Context, s *state, book *ledger) error {
	if !book.verified {
		live, err := ownPods(ctx, r.Live, s.pool)
		if err != nil {
			return err
		}
		book.compare(live, s.now)
	}
	pods, err := ownPods(ctx, r.Client, s.pool)
	if err != nil {
		return err
	}
	s.settled = book.settle(pods)
	for uid, missing := range book.overdue(s.now, expectationTimeout) {
		var pod corev1.Pod
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.pool.Namespace, Name: missing.pod}, &pod)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get pod %s: %w", missing.pod, err)
		}
		if apierrors.IsNotFound(err) || pod.UID != uid {
			delete(book.created, uid) // gone before the cache saw it
			delete(book.deleted, uid)
			s.settled = book.settle(pods)
		}
	}
	s.workers = workersOf(s.pool, pods, s.current.Labels[v1alpha1.LabelRevision], s.now)
	return nil
}

// workersOf classifies the pods and orders them by slot.
func workersOf(pool *v1alpha1.WorkerPool, pods []*corev1.Pod, revision string, now time.Time) []worker {
	deadline := time.Duration(*pool.Spec.StartupDeadlineSeconds) * time.Second
	workers := make([]worker, 0, len(pods))
	for _, pod := range pods {
		workers = append(workers, worker{
			pod: pod, slot: slotOf(pool.Name, pod.Name),
			class:    classify(pod, now, deadline),
			outdated: pod.Labels[v1alpha1.LabelRevision] != revision,
		})
	}
	slices.SortFunc(workers, func(a, b worker) int { return a.slot - b.slot })
	return workers
}

// ownPods lists the pods that the pool controls, whoever else has the labels.
func ownPods(ctx context.Context, reader client.Reader, pool *v1alpha1.WorkerPool) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(pool.Namespace),
		client.MatchingLabels{v1alpha1.LabelPool: pool.Name}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var own []*corev1.Pod
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], pool) {
			own = append(own, &list.Items[i])
		}
	}
	return own, nil
}

func (r *Reconciler) observeRevisions(ctx context.Context, s *state) error {
	var list appsv1.ControllerRevisionList
	if err := r.Client.List(ctx, &list, client.InNamespace(s.pool.Namespace),
		client.MatchingLabels{v1alpha1.LabelPool: s.pool.Name}); err != nil {
		return fmt.Errorf("list revisions: %w", err)
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], s.pool) {
			s.stored = append(s.stored, &list.Items[i])
		}
	}
	var err error
	s.current, s.newRevision, err = currentRevision(s.pool, s.stored)
	return err
}

func (r *Reconciler) observeAccounts(ctx context.Context, s *state) error {
	wanted := map[string]bool{}
	for _, child := range children.WorkerAccount(s.pool) {
		o, err := apply.Observe(ctx, r.Client, r.Live, s.pool, child)
		if err != nil {
			return err
		}
		s.accounts = append(s.accounts, o)
		wanted[child.Kind] = true
	}
	key := client.ObjectKey{Namespace: s.pool.Namespace, Name: children.WorkerAccountName(s.pool.Name)}
	for kind, object := range map[string]client.Object{
		"RoleBinding": &rbacv1.RoleBinding{}, "Role": &rbacv1.Role{}, "ServiceAccount": &corev1.ServiceAccount{},
	} {
		if wanted[kind] {
			continue
		}
		err := r.Client.Get(ctx, key, object)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get %s %s: %w", kind, key.Name, err)
		}
		if err == nil && metav1.IsControlledBy(object, s.pool) && object.GetDeletionTimestamp() == nil {
			s.leftovers = append(s.leftovers, object)
		}
	}
	return nil
}
