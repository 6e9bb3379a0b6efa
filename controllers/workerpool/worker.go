package workerpool

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/podstate"
)

// class is what a pod is worth to its pool. The order is that of scale-down:
// the classes that are missed least come first.
type class int

const (
	// terminating pods are being deleted: no capacity, but the name is taken.
	terminating class = iota
	// lost pods are on a node that does not report: no capacity, replaced at
	// once in another slot, and left alone until the node is back or gone.
	lost
	// finished pods ended (failed, evicted, succeeded): no capacity.
	finished
	// crashing pods have a container in CrashLoopBackOff.
	crashing
	// overdue pods were scheduled and missed the start-up deadline.
	overdue
	// unscheduled pods have no node yet.
	unscheduled
	// starting pods were not ready yet since their container started.
	starting
	// unready pods were ready and are not now. They may be running jobs: the
	// producer may be the one that is away.
	unready
	// ready pods are registered with the producer.
	ready
)

// worker is a pod of the pool as the plan sees it.
type worker struct {
	pod      *corev1.Pod
	slot     int
	class    class
	outdated bool // made from another revision than the current one
}

// present pods count towards the desired figure: they work, will work, or wait
// for their replacement.
func (w worker) present() bool { return w.class >= finished }

// broken pods do no work and have to be replaced.
func (w worker) broken() bool {
	return w.class == finished || w.class == crashing || w.class == overdue
}

// replaceable pods run no job that an update could interrupt.
func (w worker) replaceable() bool { return w.class >= finished && w.class <= starting }

// classify looks at one pod.
func classify(pod *corev1.Pod, now time.Time, startupDeadline time.Duration) class {
	readyCondition := podstate.Condition(pod, corev1.PodReady)
	switch {
	case pod.DeletionTimestamp != nil:
		return terminating
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return finished
	case podstate.NodeLost(pod):
		return lost
	case crashLoop(pod) != "":
		return crashing
	case readyCondition != nil && readyCondition.Status == corev1.ConditionTrue:
		return ready
	case pod.Spec.NodeName == "":
		return unscheduled
	case wasReady(pod):
		return unready
	case now.Sub(pod.CreationTimestamp.Time) >= startupDeadline:
		return overdue
	default:
		return starting
	}
}

// wasReady tells whether the worker's container has been ready since it
// started: Ready turned False after the start, not before it.
func wasReady(pod *corev1.Pod) bool {
	c := podstate.Condition(pod, corev1.PodReady)
	if c == nil || c.Status == corev1.ConditionTrue {
		return false
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == v1alpha1.WorkerContainer && s.State.Running != nil {
			return c.LastTransitionTime.After(s.State.Running.StartedAt.Time)
		}
	}
	return false
}

// crashLoop names the container that crashes again and again, or "".
func crashLoop(pod *corev1.Pod) string {
	return podstate.WaitingFor(pod, "CrashLoopBackOff")
}

// imagePull names the container whose image cannot be pulled, or "".
func imagePull(pod *corev1.Pod) string {
	return podstate.WaitingFor(pod, "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName")
}

// readySince is when the pod became ready last. A worker that came back from a
// lost node became ready last of all, so it is the first surplus one to go.
func readySince(pod *corev1.Pod) time.Time {
	if c := podstate.Condition(pod, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

// leavesBefore orders workers for scale-down: least missed class first, then
// those of an older template, then the newest, then the highest slot.
func leavesBefore(a, b worker) int {
	if c := cmp.Compare(a.class, b.class); c != 0 {
		return c
	}
	if a.outdated != b.outdated {
		if a.outdated {
			return -1
		}
		return 1
	}
	if c := readySince(b.pod).Compare(readySince(a.pod)); c != 0 {
		return c
	}
	return cmp.Compare(b.slot, a.slot)
}

// slotOf reads the slot from a pod's name, or -1.
func slotOf(pool, pod string) int {
	digits, ok := strings.CutPrefix(pod, pool+"-")
	if !ok {
		return -1
	}
	slot, err := strconv.Atoi(digits)
	if err != nil || slot < 0 || strconv.Itoa(slot) != digits {
		return -1
	}
	return slot
}
