//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/producer"
)

// requeueLimit is how soon the job of a killed process runs on a survivor.
const requeueLimit = 2 * time.Second

// S19, S27: the process of a busy worker gets SIGKILL.
func TestKilledWorkerLosesNothing(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "sigkill", 3*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 2))

	in.submit("long", work{Hold: "long"})
	first := w.awaitRun(10*time.Second, "long", 1)
	ids := in.submitMany("behind", 6, work{}) // some are buffered behind it
	pod := w.pod(first.Pod)
	killed := w.kill(pod, "SIGKILL")
	second := w.awaitRun(20*time.Second, "long", 2)
	took := time.Unix(0, second.Time).Sub(killed)
	t.Logf("SIGKILL of a busy worker: its job runs on a survivor after %.0f ms", float64(took.Microseconds())/1000)
	if second.Pod == first.Pod {
		t.Errorf("the job was started again at the killed worker's pod %s, want the survivor", first.Pod)
	}
	if took > requeueLimit {
		t.Errorf("that took %s, want under %s", took, requeueLimit)
	}

	w.release("long")
	in.awaitDone(20*time.Second, append(ids, "long")...)
	w.ranOnce(ids...)
	if starts, ends := w.of("start")["long"], w.of("end")["long"]; len(starts) != 2 || len(ends) != 1 {
		t.Errorf("want two starts and one end of the killed worker's job, got %v %v", starts, ends)
	}
	// Nothing stays with the dead process.
	w.eventually(10*time.Second, "no job counted as held by anyone", func() error {
		status, err := in.status()
		if err == nil && (status.Running != 0 || status.InFlight != 0 || status.Waiting != 0) {
			return fmt.Errorf("status %+v", status)
		}
		return err
	})

	// The slot works again: kubelet restarts the container in its pod.
	w.awaitPool("workers", 30*time.Second)
	in.awaitWorkers(10*time.Second, 2)
	w.eventually(10*time.Second, "the killed container restarted in its pod", func() error {
		now := w.pod(pod.Name)
		if now.UID != pod.UID || now.Status.ContainerStatuses[0].RestartCount != 1 {
			return fmt.Errorf("pod %s is %s, its container restarted %d times", now.Name, now.UID, now.Status.ContainerStatuses[0].RestartCount)
		}
		return nil
	})
	in.submit("a", work{Hold: "both"})
	in.submit("b", work{Hold: "both"})
	a, b := w.awaitRun(10*time.Second, "a", 1), w.awaitRun(10*time.Second, "b", 1)
	if a.Pod == b.Pod {
		t.Errorf("both jobs run at %s: the killed worker's slot is not used again", a.Pod)
	}
	w.release("both")
	in.awaitDone(10*time.Second, "a", "b")
}

// S36: the pod of a busy worker is deleted. What runs is finished there, what
// was only buffered runs elsewhere at once.
func TestDeletedWorkerFinishesItsJob(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "delete", 3*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 2, func(p *v1alpha1.WorkerPool) {
		p.Spec.Drain.Timeout.Duration = 2 * time.Minute // ends early only when the job does
	}))

	in.submit("leaving", work{Hold: "leaving"})
	in.submit("staying", work{Hold: "staying"})
	leaving, staying := w.awaitRun(10*time.Second, "leaving", 1), w.awaitRun(10*time.Second, "staying", 1)
	if leaving.Pod == staying.Pod {
		t.Fatalf("both jobs run at %s, want one at each worker", leaving.Pod)
	}
	ids := in.submitMany("buffered", 8, work{})
	held := 0
	w.eventually(10*time.Second, "every job at a worker, some behind the running one of the pod to delete", func() error {
		status, err := in.status()
		if held = heldBy(status, leaving.Pod); err == nil && (status.Waiting > 0 || held < 2) {
			return fmt.Errorf("status %+v", status)
		}
		return err
	})

	pod := w.pod(leaving.Pod)
	deleted := time.Now()
	w.must(env.api.Delete(w.ctx, pod, client.Preconditions{UID: &pod.UID}), "delete pod "+pod.Name)
	w.eventually(5*time.Second, "the pod that leaves holds its running job only", func() error {
		status, err := in.status()
		if err == nil && heldBy(status, leaving.Pod) != 1 {
			return fmt.Errorf("status %+v", status)
		}
		return err
	})
	t.Logf("pod deleted: the %d jobs that were buffered there are handed back after %.0f ms", held-1, float64(time.Since(deleted).Microseconds())/1000)
	w.release("staying")
	in.awaitDone(20*time.Second, append(ids, "staying")...)
	w.ranOnce(ids...)
	job, err := in.job("leaving")
	w.must(err, "read job leaving")
	if job.State != producer.Running || job.Pod != leaving.Pod {
		t.Errorf("want job leaving running at %s while its pod drains, got %+v", leaving.Pod, job)
	}

	w.release("leaving")
	in.awaitDone(20*time.Second, "leaving")
	w.ranOnce("leaving", "staying")
	w.eventually(20*time.Second, "the drained pod gone", func() error {
		for _, now := range w.workers("workers") {
			if now.UID == pod.UID {
				return fmt.Errorf("it is %s", now.Status.Phase)
			}
		}
		return nil
	})
	w.awaitPool("workers", 30*time.Second)
	in.awaitWorkers(10*time.Second, 2)
	status, err := in.status()
	w.must(err, "read the status")
	if status.Confirmed != uint64(len(ids)+2) || status.Rejected != 0 {
		t.Errorf("want %d jobs confirmed, none rejected, got %+v", len(ids)+2, status)
	}
}

// heldBy is the number of jobs that a pod holds.
func heldBy(status producer.Status, pod string) int {
	held := 0
	for _, worker := range status.Workers {
		if worker.Pod == pod {
			held += worker.InFlight
		}
	}
	return held
}

// The node of a busy worker loses its power: the lease (B5) requeues the job, a
// worker in another slot takes the place, and what comes back is surplus.
func TestCrashedNodeLosesNothing(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "crash", 4*time.Minute)
	in := w.start(w.producer("jobs", onSafeNode), w.pool("workers", "jobs", 2, onNodes("node2", "node3"), concurrency(2)))
	from := w.history.mark()

	in.submit("lost", work{Hold: "lost"})
	first := w.awaitRun(10*time.Second, "lost", 1)
	crashed := time.Now()
	w.must(env.node(w.ctx, "crash", first.Node), "crash "+first.Node)
	mend := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := env.node(ctx, "mend", first.Node); err != nil {
			t.Errorf("mend %s: %v", first.Node, err)
		}
	})
	t.Cleanup(mend) // the tests that follow need it

	second := w.awaitRun(time.Minute, "lost", 2)
	t.Logf("crash of %s: its job runs on %s after %.1f s", first.Node, second.Node, time.Unix(0, second.Time).Sub(crashed).Seconds())
	if second.Node == first.Node {
		t.Errorf("the job runs on the crashed node %s", first.Node)
	}
	w.release("lost")
	in.awaitDone(20*time.Second, "lost")

	w.eventually(time.Minute, "the lost worker replaced in another slot", func() error {
		made, _ := w.history.workers(w, "workers", from)
		if len(made) != 1 || made[0] == first.Pod {
			return fmt.Errorf("pods made since the crash: %v", made)
		}
		p := &v1alpha1.WorkerPool{}
		if err := w.get("workers", p); err != nil {
			return err
		}
		if p.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%d workers are ready: %+v", p.Status.ReadyReplicas, p.Status)
		}
		return wantCondition(p.Status.Conditions, v1alpha1.ConditionAvailable, metav1.ConditionTrue, p.Generation)
	})
	t.Logf("the worker is replaced after %.1f s", time.Since(crashed).Seconds())
	ids := in.submitMany("meanwhile", 40, work{Sleep: "5ms"})
	in.awaitDone(30*time.Second, ids...)
	w.ranOnce(ids...)

	mend()
	w.eventually(time.Minute, "the surplus gone after the node came back", func() error {
		pods := w.workers("workers")
		if len(pods) != 2 {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil || !isReady(&pod) {
				return fmt.Errorf("pod %s is going or not ready", pod.Name)
			}
		}
		return nil
	})
	w.awaitPool("workers", 30*time.Second)
	in.awaitWorkers(20*time.Second, 4)
	ids = in.submitMany("after", 40, work{Sleep: "5ms"})
	in.awaitDone(30*time.Second, ids...)
	w.ranOnce(ids...)
}
