package producer

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/controllers/children"
	"github.com/workpull/operator/controllers/podstate"
)

// trouble is why a producer's pod does not do its work. The zero value is none.
type trouble struct {
	reason, message string
	acts            bool // somebody has to act: it will not pass by itself
}

// troubleOf looks at the pods for the first trouble, the gravest first. A lost
// node is trouble also where a standby has taken over.
func troubleOf(s state) trouble {
	for _, look := range []func(*state, *corev1.Pod) trouble{lostNode, missingConfig, missingImage, unschedulable} {
		for i := range s.pods {
			if t := look(&s, &s.pods[i]); t.reason != "" {
				return t
			}
		}
	}
	return trouble{}
}

// lostNode: nobody but a person, or the cloud's controller, knows whether the
// node is gone or only silent. A pod that is deleted by force while it still
// runs could write to the volume beside its successor, so we never do that.
func lostNode(s *state, pod *corev1.Pod) trouble {
	if !podstate.NodeLost(pod) {
		return trouble{}
	}
	t := trouble{reason: v1alpha1.ReasonNodeLost}
	where := fmt.Sprintf("pod %s is on node %s, which does not report", pod.Name, pod.Spec.NodeName)
	switch {
	case children.Claim(s.producer) != nil:
		t.acts = true
		t.message = where + "; its volume holds the jobs. It goes on when the node is back. Should the node be gone for good, say so: " +
			"kubectl taint nodes " + pod.Spec.NodeName + " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
	case children.Standbys(s.producer):
		t.message = where + "; a standby takes over"
	default:
		t.message = where + "; Kubernetes replaces the pod when its toleration of the node ends, after five minutes by default"
	}
	return t
}

// missingConfig: the kubelet cannot make the container's environment.
func missingConfig(s *state, pod *corev1.Pod) trouble {
	for i := range pod.Status.ContainerStatuses {
		waiting := pod.Status.ContainerStatuses[i].State.Waiting
		if waiting == nil || waiting.Reason != "CreateContainerConfigError" {
			continue
		}
		t := trouble{
			reason: v1alpha1.ReasonContainerConfigError, acts: true,
			message: fmt.Sprintf("container %s of pod %s cannot be made: %s", pod.Status.ContainerStatuses[i].Name, pod.Name, waiting.Message),
		}
		if q := s.producer.Spec.Queue.Postgres; q != nil && strings.Contains(waiting.Message, q.URLSecretKeyRef.Name) {
			t.reason = v1alpha1.ReasonQueueSecretNotFound
			t.message = fmt.Sprintf("spec.queue.postgres.urlSecretKeyRef wants key %s of Secret %s: %s",
				q.URLSecretKeyRef.Key, q.URLSecretKeyRef.Name, waiting.Message)
		}
		return t
	}
	return trouble{}
}

func missingImage(_ *state, pod *corev1.Pod) trouble {
	name := podstate.WaitingFor(pod, "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName")
	if name == "" {
		return trouble{}
	}
	return trouble{
		reason:  v1alpha1.ReasonImagePullFailed,
		message: fmt.Sprintf("the image of container %s of pod %s cannot be pulled", name, pod.Name),
	}
}

func unschedulable(_ *state, pod *corev1.Pod) trouble {
	if !podstate.Unschedulable(pod) {
		return trouble{}
	}
	return trouble{
		reason:  v1alpha1.ReasonUnschedulable,
		message: fmt.Sprintf("no node can take pod %s: %s", pod.Name, podstate.Condition(pod, corev1.PodScheduled).Message),
	}
}
