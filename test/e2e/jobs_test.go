//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/workpull/operator/api/v1alpha1"
)

func TestInstallByChart(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "chart", 2*time.Minute)
	w.start(w.producer("jobs"), w.pool("workers", "jobs", 2))

	// A person reads the columns: each has a heading and a value.
	w.wantTable([]string{"NAME", "AVAILABLE", "REASON", "ENDPOINT", "AGE"},
		[]string{"jobs", "True", v1alpha1.ReasonReady, "http://jobs." + w.ns + ".svc"}, "get", "producers")
	w.wantTable([]string{"NAME", "PRODUCER", "DESIRED", "READY", "UPDATED", "AVAILABLE", "REASON", "AGE"},
		[]string{"workers", "jobs", "2", "2", "2", "True", v1alpha1.ReasonReady}, "get", "workerpools")
	both := w.kubectl("get", "producers,workerpools")
	for _, want := range []string{"producer.workpull.dev/jobs", "workerpool.workpull.dev/workers"} {
		if !strings.Contains(both, want) {
			t.Errorf("kubectl get producers,workerpools lacks %s:\n%s", want, both)
		}
	}
	t.Logf("kubectl get producers,workerpools\n%s", both)
	for _, name := range []string{"wpp", "wp", "workpull"} {
		if out := w.kubectl("get", name, "-o", "name"); strings.TrimSpace(out) == "" {
			t.Errorf("kubectl get %s shows nothing", name)
		}
	}
	for name, pod := range w.workers("workers") {
		if len(pod.Finalizers) > 0 {
			t.Errorf("pod %s has finalizers %v, want none (S21)", name, pod.Finalizers)
		}
	}
}

// wantTable compares the first row of a table, whose last column is an age.
func (w *world) wantTable(headings, row []string, args ...string) {
	w.Helper()
	out := w.kubectl(args...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 {
		w.Errorf("kubectl %s: want a heading and one row, got\n%s", strings.Join(args, " "), out)
		return
	}
	if got := strings.Fields(lines[0]); strings.Join(got, " ") != strings.Join(headings, " ") {
		w.Errorf("kubectl %s: want the columns %v, got %v", strings.Join(args, " "), headings, got)
	}
	if got := strings.Fields(lines[1]); len(got) != len(row)+1 || strings.Join(got[:len(row)], " ") != strings.Join(row, " ") {
		w.Errorf("kubectl %s: want %v and an age, got %v", strings.Join(args, " "), row, got)
	}
}

func TestJobsAreDoneOnce(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "jobs", 2*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 3, onNodes("node1", "node2")))

	start := time.Now()
	ids := in.submitMany("job", 200, work{Sleep: "20ms"})
	accepted := time.Since(start)
	in.awaitDone(30*time.Second, ids...)
	t.Logf("200 jobs of 20 ms over HTTP: accepted in %.2f s, confirmed after %.2f s", accepted.Seconds(), time.Since(start).Seconds())
	w.ranOnce(ids...)

	pods, nodes := map[string]int{}, map[string]int{}
	for _, runs := range w.of("start") {
		for _, r := range runs {
			pods[r.Pod]++
			nodes[r.Node]++
		}
	}
	if len(pods) != 3 || len(nodes) != 2 {
		t.Errorf("want jobs at 3 pods on 2 nodes, got pods %v, nodes %v", pods, nodes)
	}
	status, err := in.status()
	w.must(err, "read the status")
	if status.Accepted != 200 || status.Confirmed != 200 || status.Requeued != 0 || status.Waiting+status.InFlight+status.Delayed != 0 {
		t.Errorf("want 200 accepted and confirmed, none requeued or left, got %+v", status)
	}
}

func TestRejectedJobIsTriedAgain(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "reject", 2*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("workers", "jobs", 1))
	in.submit("stubborn", work{Fail: 2})
	in.awaitDone(time.Minute, "stubborn")
	if starts := w.of("start")["stubborn"]; len(starts) != 3 || starts[2].Attempt != 3 {
		t.Errorf("want three attempts, the last numbered 3, got %v", starts)
	}
}

// A job is accepted and kept before there is any worker (B7).
func TestJobsWaitForTheFirstWorker(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "first", 2*time.Minute)
	in := w.start(w.producer("jobs"))
	ids := in.submitMany("early", 20, work{})
	status, err := in.status()
	w.must(err, "read the status")
	if status.Waiting != len(ids) {
		t.Errorf("want %d jobs waiting, got %+v", len(ids), status)
	}
	w.create(w.pool("workers", "jobs", 1))
	in.awaitDone(30*time.Second, ids...)
	w.ranOnce(ids...)
}

func TestMembersBesideAttachedWorkers(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "members", 3*time.Minute)
	in := w.start(w.producer("jobs"), w.pool("attached", "jobs", 3), w.pool("members", "jobs", 3, asMembers))

	ids := in.submitMany("job", 300, work{Sleep: "20ms"})
	in.awaitDone(time.Minute, ids...)
	w.ranOnce(ids...)
	pods := map[string]int{}
	for _, runs := range w.of("start") {
		pods[runs[0].Pod]++
	}
	t.Logf("jobs by pod: %v", pods)
	for _, pool := range []string{"attached", "members"} {
		for name, pod := range w.workers(pool) {
			if pods[name] == 0 {
				t.Errorf("pod %s of pool %s did no job", name, pool)
			}
			mounted := pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken
			if mounted != (pool == "members") {
				t.Errorf("pod %s of pool %s: API token mounted is %v", name, pool, mounted)
			}
		}
	}

	// A member that dies loses nothing either.
	in.submit("held", work{Hold: "held"})
	first := w.awaitRun(10*time.Second, "held", 1)
	killed := w.kill(w.pod(first.Pod), "SIGKILL")
	second := w.awaitRun(20*time.Second, "held", 2)
	t.Logf("worker %s killed: its job runs on %s %.2f s later", first.Pod, second.Pod, time.Unix(0, second.Time).Sub(killed).Seconds())
	w.release("held")
	in.awaitDone(20*time.Second, "held")
	in.awaitWorkers(30*time.Second, 6)
}
