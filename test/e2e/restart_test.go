//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/workpull/operator/runtime/podenv"
)

// The producer's process gets SIGKILL: a queue in memory is lost with it, which
// is said and not hidden.
func TestRestartedProducerReportsItsLoss(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "producer", 3*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 2))

	in.submit("done", work{})
	in.awaitDone(10*time.Second, "done")
	in.submit("running", work{Hold: "running"})
	w.awaitRun(10*time.Second, "running", 1)
	lost := append(in.submitMany("lost", 5, work{Hold: "running"}), "running")
	before, err := in.status()
	w.must(err, "read the status")

	pod := w.producerPod("jobs")
	killed := w.kill(pod, "SIGKILL")
	w.eventually(30*time.Second, "a new incarnation of the producer", func() error {
		status, err := in.status()
		if err == nil && !status.Since.After(before.Since) {
			return fmt.Errorf("the one that answers is from %s", status.Since)
		}
		return err
	})
	t.Logf("SIGKILL of the producer: it answers again after %.1f s", time.Since(killed).Seconds())
	status, err := in.status()
	w.must(err, "read the status")
	if status.Accepted != 0 || status.Confirmed != 0 {
		t.Errorf("want a new incarnation that knows no job, got %+v", status)
	}
	for _, id := range append(lost, "done") {
		answer, err := in.do(w.ctx, http.MethodGet, "/v1/jobs/"+id, nil)
		w.must(err, "ask for job "+id)
		if answer.code != http.StatusNotFound || !strings.Contains(answer.body, "since "+status.Since.Format(time.RFC3339)) ||
			!strings.Contains(answer.body, "in memory") {
			t.Errorf("job %s of before the restart: want 404 that says since when the memory queue exists, got %d %s", id, answer.code, answer.body)
		}
	}
	log, err := logs(w.ctx, w.ns, pod.Name, podenv.ProducerContainer, false)
	w.must(err, "read the producer's log")
	if !strings.Contains(log, "the queue is in memory") {
		t.Errorf("the producer's log does not say that what an earlier process held is lost:\n%s", log)
	}

	in.awaitWorkers(30*time.Second, 2)
	t.Logf("both workers are registered again after %.1f s", time.Since(killed).Seconds())
	w.release("running")
	in.submit("new", work{})
	in.awaitDone(20*time.Second, "new")
	w.ranOnce("new")
	w.awaitProducer("jobs", 30*time.Second)
	w.awaitPool("workers", 30*time.Second)

	// Stopped in order, it says how many jobs go with it.
	in.submit("held", work{Hold: "held"})
	w.awaitRun(10*time.Second, "held", 1)
	pod = w.producerPod("jobs")
	w.kill(pod, "SIGTERM")
	w.eventually(30*time.Second, "the loss in the log of the producer that stopped", func() error {
		log, err := logs(w.ctx, w.ns, pod.Name, podenv.ProducerContainer, true)
		if err == nil && !strings.Contains(log, `"lost":1`) {
			return fmt.Errorf("the log is\n%s", log)
		}
		return err
	})
	w.release("held")
	in.awaitWorkers(30*time.Second, 2)
	in.submit("last", work{})
	in.awaitDone(20*time.Second, "last")
}

// The operator's process gets SIGKILL while workers are busy: nothing happens
// to them, and the next process goes on.
func TestRestartedOperatorTouchesNothing(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "operator", 3*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 2))
	in.submit("busy", work{Hold: "busy"})
	w.awaitRun(10*time.Second, "busy", 1)

	from := w.history.mark()
	pods := operatorPods(w.ctx, t)
	if len(pods) != 1 {
		t.Fatalf("want one pod of the operator, got %d", len(pods))
	}
	killed := w.kill(&pods[0], "SIGKILL")
	ids := in.submitMany("meanwhile", 20, work{})

	w.kubectl("scale", "workerpool/workers", "--replicas=3")
	w.awaitPool("workers", time.Minute)
	t.Logf("SIGKILL of the operator: the next process has scaled a pool after %.1f s", time.Since(killed).Seconds())
	in.awaitWorkers(20*time.Second, 3)
	if made, deleted := w.history.workers(w, "workers", from); len(made) != 1 || made[0] != "workers-2" || len(deleted) != 0 {
		t.Errorf("want pod workers-2 made and none deleted, got %v made, %v deleted", made, deleted)
	}
	for _, e := range w.history.after(w, from) {
		if e.pod.DeletionTimestamp != nil {
			t.Errorf("pod %s is being deleted", e.pod.Name)
		}
	}
	w.release("busy")
	ids = append(ids, "busy")
	in.awaitDone(20*time.Second, ids...)
	w.ranOnce(ids...)
	w.kubectl("scale", "workerpool/workers", "--replicas=1")
	w.awaitPool("workers", time.Minute)
}
