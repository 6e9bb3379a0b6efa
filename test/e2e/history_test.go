//go:build e2e

package e2e

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/workpull/operator/api/v1alpha1"
)

// history is every change of every pod of a namespace, so that a test can tell
// what happened between two looks.
type history struct {
	mu     sync.Mutex
	events []podEvent
	ended  bool
}

type podEvent struct {
	at   time.Time
	kind watch.EventType
	pod  *corev1.Pod
}

func watchPods(w *world) *history {
	h := &history{}
	seconds := int64(3600) // longer than any test
	watcher, err := env.pods.CoreV1().Pods(w.ns).Watch(w.ctx, metav1.ListOptions{TimeoutSeconds: &seconds})
	w.must(err, "watch pods")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watcher.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				h.mu.Lock()
				h.events = append(h.events, podEvent{time.Now(), e.Type, pod})
				h.mu.Unlock()
			}
		}
		h.mu.Lock()
		h.ended = true
		h.mu.Unlock()
	}()
	w.Cleanup(func() {
		watcher.Stop()
		<-done
	})
	return h
}

// workers tells how many worker pods of a pool were made since a point of the
// history and which were deleted. Pods are told apart by their UIDs.
func (h *history) workers(w *world, pool string, from int) (made, deleted []string) {
	w.Helper()
	for _, e := range h.after(w, from) {
		if e.pod.Labels[v1alpha1.LabelPool] != pool {
			continue
		}
		switch e.kind {
		case watch.Added:
			made = append(made, e.pod.Name)
		case watch.Deleted:
			deleted = append(deleted, e.pod.Name)
		}
	}
	return made, deleted
}

// mark is the present end of the history.
func (h *history) mark() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

func (h *history) after(w *world, from int) []podEvent {
	w.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		w.Fatal("the watch of the pods ended: the history has a hole")
	}
	return append([]podEvent(nil), h.events[from:]...)
}

// leastReady is the smallest number of pods of a pool that were ready and not
// being deleted at any time after a point of the history, and most the largest
// number that existed and were not being deleted.
func (h *history) leastReady(w *world, pool string, from int) (least, most int) {
	w.Helper()
	ready, alive := map[types.UID]bool{}, map[types.UID]bool{}
	least = -1
	for i, e := range h.after(w, 0) {
		if e.pod.Labels[v1alpha1.LabelPool] != pool {
			continue
		}
		delete(ready, e.pod.UID)
		delete(alive, e.pod.UID)
		if e.kind != watch.Deleted && e.pod.DeletionTimestamp == nil {
			alive[e.pod.UID] = true
			if isReady(e.pod) {
				ready[e.pod.UID] = true
			}
		}
		if i < from {
			continue
		}
		if least < 0 || len(ready) < least {
			least = len(ready)
		}
		most = max(most, len(alive))
	}
	return least, most
}

// lines is the history for a person.
func (h *history) lines() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, e := range h.events {
		restarts := int32(0)
		state := ""
		for _, c := range e.pod.Status.ContainerStatuses {
			restarts += c.RestartCount
			if c.State.Waiting != nil {
				state = c.State.Waiting.Reason
			}
		}
		out = append(out, fmt.Sprintf("%s %-8s %-20s %-8s ready=%-5v deleting=%-5v restarts=%d uid=%s node=%s %s", e.at.Format("15:04:05.000"),
			e.kind, e.pod.Name, e.pod.Status.Phase, isReady(e.pod), e.pod.DeletionTimestamp != nil, restarts, e.pod.UID, e.pod.Spec.NodeName, state))
	}
	return out
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
