package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/runtime/producer"
)

// fault is what was done to a busy worker, and what became of its job.
type fault struct {
	what    string
	pod     string
	process string // begins the identities of its endpoints
	job     string
	at      time.Time
	resumed time.Duration // until the job ran elsewhere or was done
	how     string
}

// recoverTimeout is how long a killed worker's job may take to run again.
const recoverTimeout = 15 * time.Second

// killProcess kills the process of a busy worker. On a cluster that is not our
// own nobody lets us: there its pod is deleted without a grace period, which
// ends in the same signal.
func (w *world) killProcess(ctx context.Context, not string) (*fault, error) {
	busy, pod, err := w.findBusy(ctx, not)
	if err != nil {
		return nil, err
	}
	f := &fault{what: "SIGKILL to the process of", pod: pod.Name, process: processOf(busy.Identity), job: busy.Running, at: time.Now()}
	if w.isOwn() {
		id, err := containerID(pod)
		if err != nil {
			return nil, err
		}
		command := w.ask(ctx, "node", "exec", pod.Spec.NodeName, "ctr", "--namespace", "k8s.io", "task", "kill", "--signal", "SIGKILL", id)
		if output, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("kill the process of %s: %w: %s", pod.Name, err, strings.TrimSpace(string(output)))
		}
		f.at = time.Now() // the way to containerd is no part of the recovery
	} else {
		f.what = "deletion without grace (this cluster lets nobody send a SIGKILL) of"
		if err := w.deletePod(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
			return nil, err
		}
	}
	w.out.say("%s %s, which runs %s", f.what, f.pod, f.job)
	return f, nil
}

// deleteWorker deletes the pod of a busy worker.
func (w *world) deleteWorker(ctx context.Context, not string) (*fault, error) {
	busy, pod, err := w.findBusy(ctx, not)
	if err != nil {
		return nil, err
	}
	f := &fault{what: "deletion of pod", pod: pod.Name, process: processOf(busy.Identity), job: busy.Running, at: time.Now()}
	if err := w.deletePod(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return nil, err
	}
	w.out.say("%s %s, which runs %s", f.what, f.pod, f.job)
	return f, nil
}

func (w *world) deletePod(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if err := w.core.CoreV1().Pods(demoNamespace).Delete(ctx, name, options); err != nil {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// findBusy finds a worker that runs a job, in another pod than not.
func (w *world) findBusy(ctx context.Context, not string) (worker producer.WorkerStatus, pod *corev1.Pod, err error) {
	err = w.await(ctx, "a busy worker", func(ctx context.Context) (string, error) {
		status, err := w.status(ctx)
		if err != nil {
			return "", err
		}
		for _, worker = range status.Workers {
			if worker.Running == "" || worker.Pod == "" || worker.Pod == not || worker.Suspended || worker.Draining {
				continue
			}
			pod, err = w.core.CoreV1().Pods(demoNamespace).Get(ctx, worker.Pod, metav1.GetOptions{})
			if err == nil && pod.DeletionTimestamp == nil && strings.HasPrefix(worker.Identity, string(pod.UID)+"/") {
				return "", nil
			}
		}
		return "no worker runs a job", nil
	})
	return worker, pod, err
}

// processOf is an endpoint's identity without its own number.
func processOf(identity string) string { return identity[:strings.LastIndexByte(identity, '/')+1] }

// containerID is the id of the worker's container, as containerd has it.
func containerID(pod *corev1.Pod) (string, error) {
	for _, s := range pod.Status.ContainerStatuses {
		if id, ok := strings.CutPrefix(s.ContainerID, "containerd://"); ok && s.Name == podenv.WorkerContainer {
			return id, nil
		}
	}
	return "", fmt.Errorf("pod %s has no container %q of containerd that runs", pod.Name, podenv.WorkerContainer)
}

// follow waits until the job of a fault runs elsewhere or is done.
func (w *world) follow(ctx context.Context, f *fault) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recoverTimeout, errors.New("it took too long"))
	defer cancel()
	for {
		state, err := w.state(ctx, f.job)
		switch {
		case err != nil:
		case state.State == producer.Done:
			f.resumed, f.how = time.Since(f.at), "was done"
			return nil
		case state.State == producer.Running && state.Pod != "" && !strings.HasPrefix(state.Worker, f.process):
			f.resumed, f.how = time.Since(f.at), "ran in "+state.Pod
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("follow job %s of %s: %w", f.job, f.pod, errors.Join(context.Cause(ctx), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
