package workerpool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/children"
)

// blueprint is what a revision stores: the part of the spec that replaces pods
// when it changes. What the operator injects, the drain timeout, concurrency
// and flow-control window are not part of it, so that neither an upgrade of
// the operator nor tuning rolls a pod.
type blueprint struct {
	Membership v1alpha1.Membership    `json:"membership"`
	Template   corev1.PodTemplateSpec `json:"template"`
}

func blueprintOf(pool *v1alpha1.WorkerPool) blueprint {
	return blueprint{Membership: pool.Spec.Worker.Membership, Template: pool.Spec.Template}
}

// currentRevision finds the stored revision that means the same as the pool's
// spec, or makes the next one. They are compared as values, not as bytes: a
// newer library may write the same template differently.
func currentRevision(pool *v1alpha1.WorkerPool, stored []*appsv1.ControllerRevision) (current *appsv1.ControllerRevision, isNew bool, err error) {
	want := blueprintOf(pool)
	for _, revision := range stored {
		var have blueprint
		if err := json.Unmarshal(revision.Data.Raw, &have); err != nil {
			continue // not readable, so not the same
		}
		if apiequality.Semantic.DeepEqual(have, want) {
			return revision, false, nil
		}
	}
	data, err := json.Marshal(want)
	if err != nil {
		return nil, false, fmt.Errorf("marshal template: %w", err)
	}
	hash := revisionHash(data)
	labels := children.PoolLabels(pool.Name, pool.Spec.ProducerRef.Name)
	labels[v1alpha1.LabelRevision] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:      pool.Name + "-" + hash,
			Namespace: pool.Namespace,
			Labels:    labels,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(pool, v1alpha1.GroupVersion.WithKind(v1alpha1.WorkerPoolKind)),
			},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: newestRevision(stored) + 1,
	}, true, nil
}

// revisionHash is short enough for names and labels.
func revisionHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:5])
}

func newestRevision(stored []*appsv1.ControllerRevision) int64 {
	var newest int64
	for _, revision := range stored {
		newest = max(newest, revision.Revision)
	}
	return newest
}

// expiredRevisions are the oldest ones beyond the limit. The current one and
// those that pods were made from stay.
func expiredRevisions(stored []*appsv1.ControllerRevision, current string, workers []worker, limit int) []*appsv1.ControllerRevision {
	used := map[string]bool{current: true}
	for _, w := range workers {
		used[w.pod.Labels[v1alpha1.LabelRevision]] = true
	}
	var old []*appsv1.ControllerRevision
	for _, revision := range stored {
		if !used[revision.Labels[v1alpha1.LabelRevision]] {
			old = append(old, revision)
		}
	}
	if len(old) <= limit {
		return nil
	}
	slices.SortFunc(old, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	return old[:len(old)-limit]
}
