package workerpool

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/apply"
)

// announce records events. It is called only after the status was written.
func (r *Reconciler) announce(pool *v1alpha1.WorkerPool, after v1alpha1.WorkerPoolStatus, out outcome) {
	apply.Warn(r.Recorder, pool, pool.Status.Conditions, after.Conditions,
		v1alpha1.ConditionReplicaFailure, v1alpha1.ConditionDegraded)
	if len(out.created) > 0 {
		r.Recorder.Eventf(pool, nil, corev1.EventTypeNormal, v1alpha1.EventWorkerCreated, "Create",
			"created %d: %s", len(out.created), naming(out.created))
	}
	byReason := map[string][]string{}
	for _, d := range out.deleted {
		byReason[d.why] = append(byReason[d.why], d.pod.Name)
	}
	for _, why := range []string{becauseBroken, becauseSurplus, becauseOutdated} {
		if names := byReason[why]; len(names) > 0 {
			r.Recorder.Eventf(pool, nil, corev1.EventTypeNormal, v1alpha1.EventWorkerDeleted, "Delete",
				"deleted %d (%s): %s", len(names), why, naming(names))
		}
	}
}
