package apply

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// noteLimit keeps notes within the 1,024 bytes that an event may have.
const noteLimit = 1000

// Warn records an event for each of the conditions that turned True or has
// another reason than before. Such conditions are complaints.
func Warn(recorder events.EventRecorder, object runtime.Object, before, after []metav1.Condition, types ...string) {
	for _, t := range types {
		old, now := meta.FindStatusCondition(before, t), meta.FindStatusCondition(after, t)
		if now == nil || now.Status != metav1.ConditionTrue {
			continue
		}
		if old != nil && old.Status == now.Status && old.Reason == now.Reason {
			continue
		}
		note := strings.ToValidUTF8(now.Message[:min(len(now.Message), noteLimit)], "")
		recorder.Eventf(object, nil, corev1.EventTypeWarning, now.Reason, "Reconcile", "%s", note)
	}
}
