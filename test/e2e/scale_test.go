//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpull/operator/api/v1alpha1"
)

func TestScale(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "scale", 3*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 1))

	start := time.Now()
	w.kubectl("scale", "workerpool/workers", "--replicas=5")
	w.awaitPool("workers", time.Minute)
	t.Logf("from 1 to 5 workers in %.1f s", time.Since(start).Seconds())
	in.awaitWorkers(20*time.Second, 5)
	for slot := range 5 {
		w.pod(fmt.Sprintf("workers-%d", slot))
	}

	// Jobs go on while it shrinks: each is finished where it runs.
	ids := in.submitMany("job", 60, work{Sleep: "50ms"})
	from := w.history.mark()
	w.kubectl("scale", "workerpool/workers", "--replicas=2")
	in.awaitDone(time.Minute, ids...)
	w.ranOnce(ids...)
	w.awaitPool("workers", time.Minute)
	in.awaitWorkers(20*time.Second, 2)
	if made, deleted := w.history.workers(w, "workers", from); len(made) != 0 || len(deleted) != 3 {
		t.Errorf("want three pods deleted and none made, got %v deleted, %v made", deleted, made)
	}

	// To zero, with jobs waiting, and back.
	w.kubectl("scale", "workerpool/workers", "--replicas=0")
	w.awaitPool("workers", time.Minute)
	waiting := in.submitMany("waiting", 5, work{})
	w.kubectl("scale", "workerpool/workers", "--replicas=2")
	in.awaitDone(time.Minute, waiting...)
	w.ranOnce(waiting...)

	if out := strings.TrimSpace(w.kubectl("get", "workerpool/workers", "--subresource=scale", "-o", "jsonpath={.spec.replicas} {.status.selector}")); !strings.HasPrefix(out, "2 ") || !strings.Contains(out, v1alpha1.LabelPool+"=workers") {
		t.Errorf("want the scale subresource with 2 replicas and a selector of the pool, got %q", out)
	}
}

// S15: the template changes while all workers are busy. They are replaced one
// after the other, and no job is lost or run twice.
func TestTemplateChangeReplacesOneAtATime(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "rollout", 4*time.Minute)
	const workers = 3
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", workers))
	before := w.workers("workers")

	ids := in.submitMany("job", 150, work{Sleep: "60ms"})
	from := w.history.mark()
	update(w, "workers", &v1alpha1.WorkerPool{}, func(p *v1alpha1.WorkerPool) { workerEnv(p, "E2E_REVISION", "2") })
	start := time.Now()
	w.awaitPool("workers", 2*time.Minute)
	t.Logf("%d busy workers replaced in %.1f s", workers, time.Since(start).Seconds())
	in.awaitDone(time.Minute, ids...)
	w.ranOnce(ids...)
	in.awaitWorkers(20*time.Second, workers)

	for name, pod := range w.workers("workers") {
		for _, old := range before {
			if old.UID == pod.UID {
				t.Errorf("pod %s is still of the old template", name)
			}
		}
	}
	// One at a time: at most one worker was missing, and at most one too many.
	least, most := w.history.leastReady(w, "workers", from)
	if least < workers-1 || most > workers+1 {
		t.Errorf("want at least %d ready and at most %d pods at any time, got %d and %d:\n%s", workers-1, workers+1, least, most, strings.Join(w.history.lines(), "\n"))
	}
	if made, deleted := w.history.workers(w, "workers", from); len(made) != workers || len(deleted) != workers {
		t.Errorf("want %d pods made and deleted, got %v made, %v deleted", workers, made, deleted)
	}
}

// A worker that crashes again and again shows in a condition, and the pool
// heals by itself when the cause is gone.
func TestCrashingWorkerShowsAndHeals(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "crashloop", 5*time.Minute)
	w.create(w.producer("jobs"), w.pool("workers", "jobs", 2, func(p *v1alpha1.WorkerPool) { workerEnv(p, "E2E_EXIT", "3") }))
	in := w.intake("jobs")
	w.awaitProducer("jobs", time.Minute)

	start := time.Now()
	w.eventually(90*time.Second, "condition ReplicaFailure with reason CrashLoopBackOff", func() error {
		p := &v1alpha1.WorkerPool{}
		if err := w.get("workers", p); err != nil {
			return err
		}
		if err := wantCondition(p.Status.Conditions, v1alpha1.ConditionReplicaFailure, metav1.ConditionTrue, p.Generation); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReplicaFailure); c.Reason != v1alpha1.ReasonCrashLoopBackOff {
			return fmt.Errorf("its reason is %s: %s", c.Reason, c.Message)
		}
		return nil
	})
	t.Logf("a crashing worker shows after %.1f s", time.Since(start).Seconds())
	w.eventually(90*time.Second, "a crashing pod replaced", func() error {
		if _, deleted := w.history.workers(w, "workers", 0); len(deleted) == 0 {
			return fmt.Errorf("no pod was deleted")
		}
		return nil
	})
	t.Logf("it is replaced after %.1f s", time.Since(start).Seconds())
	if made, _ := w.history.workers(w, "workers", 0); len(made) > 10 {
		t.Errorf("%d pods were made in %.0f s: that is no backoff", len(made), time.Since(start).Seconds())
	}

	healed := time.Now()
	update(w, "workers", &v1alpha1.WorkerPool{}, func(p *v1alpha1.WorkerPool) { workerEnv(p, "E2E_EXIT", "") })
	w.awaitPool("workers", 2*time.Minute)
	t.Logf("the pool is whole %.1f s after the cause was gone", time.Since(healed).Seconds())
	p := &v1alpha1.WorkerPool{}
	w.eventually(30*time.Second, "condition ReplicaFailure gone", func() error {
		if err := w.get("workers", p); err != nil {
			return err
		}
		return wantCondition(p.Status.Conditions, v1alpha1.ConditionReplicaFailure, metav1.ConditionFalse, p.Generation)
	})
	ids := in.submitMany("job", 4, work{})
	in.awaitDone(20*time.Second, ids...)
}
