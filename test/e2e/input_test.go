//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

// A refused manifest names the field and what it wants.
func TestInvalidManifestsAreRefused(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "manifests", time.Minute)
	const pool = "apiVersion: workpull.dev/v1alpha1\nkind: WorkerPool\nmetadata: {name: %s}\nspec: {producerRef: {name: jobs}, %s}\n"
	const producer = "apiVersion: workpull.dev/v1alpha1\nkind: Producer\nmetadata: {name: %s}\nspec: {%s}\n"
	const template = "template: {spec: {containers: [{name: worker, image: i}]}}"
	long := strings.Repeat("x", 41)
	for name, c := range map[string]struct {
		manifest string
		wants    []string
	}{
		"negative replicas":   {fmt.Sprintf(pool, "p", "replicas: -1, "+template), []string{"spec.replicas", "between 0 and 1000"}},
		"no worker container": {fmt.Sprintf(pool, "p", "template: {spec: {containers: [{name: other, image: i}]}}"), []string{"spec.template", `container named "worker"`}},
		"grace period":        {fmt.Sprintf(pool, "p", "template: {spec: {terminationGracePeriodSeconds: 9, containers: [{name: worker, image: i}]}}"), []string{"terminationGracePeriodSeconds", "set drain.timeout"}},
		"drain in words":      {fmt.Sprintf(pool, "p", "drain: {timeout: soon}, "+template), []string{"spec.drain.timeout", "must be a duration"}},
		"unknown membership":  {fmt.Sprintf(pool, "p", "worker: {membership: Guest}, "+template), []string{"spec.worker.membership", `"Attached", "Member"`}},
		"concurrency of zero": {fmt.Sprintf(pool, "p", "worker: {concurrency: 0}, "+template), []string{"spec.worker.concurrency", "between 1 and 100"}},
		"no template":         {fmt.Sprintf(pool, "p", "replicas: 1"), []string{"spec.template", "Required value"}},
		"a misspelt field":    {fmt.Sprintf(pool, "p", "replica: 1, "+template), []string{"spec.replica", "unknown field"}},
		"no queue":            {fmt.Sprintf(producer, "jobs", "queue: {}"), []string{"spec.queue", "set exactly one kind of queue"}},
		"a long name":         {fmt.Sprintf(producer, long, "queue: {memory: {}}"), []string{"metadata.name", "at most 40"}},
		"jobs of no size":     {fmt.Sprintf(producer, "jobs", "queue: {memory: {}}, intake: {maxJobBytes: 0}"), []string{"spec.intake.maxJobBytes", "between 1 and"}},
		"a hasty retry":       {fmt.Sprintf(producer, "jobs", "queue: {memory: {}}, delivery: {retryInterval: 1ms}"), []string{"spec.delivery.retryInterval", "between 10ms and 1m"}},
	} {
		out, err := runWith(w.ctx, c.manifest, env.cluster, "kubectl", "-n", w.ns, "create", "-f", "-")
		if err == nil {
			t.Errorf("%s: it was accepted: %s", name, out)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the refusal lacks %q: %v", name, want, err)
			}
		}
	}

	valid := fmt.Sprintf(pool, "p", "replicas: 0, "+template)
	_, err := runWith(w.ctx, valid, env.cluster, "kubectl", "-n", w.ns, "create", "-f", "-")
	w.must(err, "create a valid pool")
	if _, err := env.kubectl(w.ctx, "-n", w.ns, "patch", "workerpool/p", "--type=merge", "-p", `{"spec":{"producerRef":{"name":"other"}}}`); err == nil || !strings.Contains(err.Error(), "producerRef is immutable") {
		t.Errorf("another producerRef: want it refused as immutable, got %v", err)
	}
}

// A setting that cannot be used stops the pod, with one line that says which.
func TestBadSettingStopsThePod(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "setting", 2*time.Minute)
	w.create(
		w.producer("jobs", func(p *v1alpha1.Producer) {
			p.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: podenv.ProducerContainer, Env: []corev1.EnvVar{{Name: "WORKPULL_LOG_LEVEL", Value: "loud"}},
			}}}}
		}),
		w.pool("workers", "jobs", 1, func(p *v1alpha1.WorkerPool) { workerEnv(p, "WORKPULL_SEEDS", "nowhere") }),
	)
	for label, c := range map[string]struct{ container, setting, value, want string }{
		v1alpha1.ComponentProducer: {podenv.ProducerContainer, "WORKPULL_LOG_LEVEL", "loud", "one of debug, info, warn, error"},
		v1alpha1.ComponentWorker:   {podenv.WorkerContainer, "WORKPULL_SEEDS", "nowhere", "addresses such as"},
	} {
		w.eventually(time.Minute, "a "+label+" stopped by its setting", func() error {
			pod, ended, err := w.endedContainer(label)
			if err != nil {
				return err
			}
			if ended.ExitCode != 2 {
				return fmt.Errorf("exit status %d, want 2", ended.ExitCode)
			}
			log, err := logs(w.ctx, w.ns, pod, c.container, false)
			if err != nil {
				return err
			}
			for _, want := range []string{c.setting, strconv.Quote(c.value), c.want} {
				if !strings.Contains(log, want) {
					return fmt.Errorf("the log lacks %q: %s", want, log)
				}
			}
			if lines := strings.Split(strings.TrimSpace(log), "\n"); len(lines) != 1 {
				return fmt.Errorf("want one line, got %d:\n%s", len(lines), log)
			}
			return nil
		})
	}
}

// endedContainer finds a pod of a component whose only container has ended.
func (w *world) endedContainer(component string) (pod string, ended *corev1.ContainerStateTerminated, err error) {
	list, err := env.pods.CoreV1().Pods(w.ns).List(w.ctx, labelled(v1alpha1.LabelComponent, component))
	if err != nil {
		return "", nil, err
	}
	for _, p := range list.Items {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Terminated != nil {
				return p.Name, c.State.Terminated, nil
			}
			if c.State.Waiting != nil && c.LastTerminationState.Terminated != nil {
				return p.Name, c.LastTerminationState.Terminated, nil
			}
		}
	}
	return "", nil, fmt.Errorf("of %d pods none has ended", len(list.Items))
}

// What the intake does not take is answered with what is wrong and wanted.
func TestIntakeRefusals(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "intake", 2*time.Minute)
	const pending, largest = 5, 1000
	w.create(w.producer("jobs", func(p *v1alpha1.Producer) {
		p.Spec.Intake.MaxPending, p.Spec.Intake.MaxJobBytes = pending, largest
	}))
	in := w.intake("jobs")

	// Before it can accept: 503, straight at the pod, which no Service shows yet.
	starting := in.firstAnswerOfPod(time.Minute)
	wantProblem(t, "a job for a producer that starts", starting, http.StatusServiceUnavailable)
	if starting.header.Get("Retry-After") == "" {
		t.Errorf("503 without Retry-After: %v", starting.header)
	}
	w.awaitProducer("jobs", time.Minute)

	for name, c := range map[string]struct {
		path string
		body []byte
		code int
	}{
		"too large":  {"/v1/jobs?id=large", bytes.Repeat([]byte("x"), largest+1), http.StatusRequestEntityTooLarge},
		"blank id":   {"/v1/jobs?id=%20", []byte("{}"), http.StatusBadRequest},
		"two ids":    {"/v1/jobs?id=a&id=b", []byte("{}"), http.StatusBadRequest},
		"binary id":  {"/v1/jobs?id=%00", []byte("{}"), http.StatusBadRequest},
		"wrong path": {"/v1/job", []byte("{}"), http.StatusNotFound},
	} {
		answer, err := in.do(w.ctx, http.MethodPost, c.path, c.body)
		w.must(err, "submit "+name)
		wantProblem(t, name, answer, c.code)
	}
	answer, err := in.do(w.ctx, http.MethodPost, "/v1/jobs?id=type", []byte("{}"), "Content-Type", "neither;;nor")
	w.must(err, "submit with a malformed type")
	wantProblem(t, "malformed Content-Type", answer, http.StatusBadRequest)
	answer, err = in.do(w.ctx, http.MethodGet, "/v1/jobs/unknown", nil)
	w.must(err, "ask for an unknown job")
	wantProblem(t, "unknown job", answer, http.StatusNotFound)

	// Exactly the largest is taken, and as many as may wait.
	largestJob := append([]byte(`{"sleep":"1ms"}`), bytes.Repeat([]byte(" "), largest-len(`{"sleep":"1ms"}`))...)
	answer, err = in.do(w.ctx, http.MethodPost, "/v1/jobs?id=fits", largestJob)
	w.must(err, "submit the largest job")
	if answer.code != http.StatusAccepted {
		t.Fatalf("a job of %d bytes: want 202, got %d %s", largest, answer.code, answer.body)
	}
	ids := append(in.submitMany("job", pending-1, work{}), "fits")
	answer = in.post("surplus", work{})
	wantProblem(t, "one too many", answer, http.StatusTooManyRequests)
	if seconds, err := strconv.Atoi(answer.header.Get("Retry-After")); err != nil || seconds < 1 {
		t.Errorf("429 with Retry-After %q, want seconds", answer.header.Get("Retry-After"))
	}
	w.create(w.pool("workers", "jobs", 1))
	in.awaitDone(time.Minute, ids...)
	in.submit("surplus", work{})
	in.awaitDone(20*time.Second, "surplus")
	w.ranOnce(append(ids, "surplus")...)

	// A second post of the same id runs nothing.
	if answer := in.post("surplus", work{}); answer.code != http.StatusOK {
		t.Errorf("a job that is done, posted again: want 200, got %d %s", answer.code, answer.body)
	}
	w.ranOnce("surplus")
}

// firstAnswerOfPod posts to the producer's pod itself until the intake answers
// and returns that answer.
func (i intake) firstAnswerOfPod(limit time.Duration) reply {
	i.Helper()
	var answer reply
	i.eventually(limit, "an answer of the producer's pod", func() error {
		list, err := env.pods.CoreV1().Pods(i.ns).List(i.ctx, labelled(v1alpha1.LabelProducer, i.name))
		if err != nil {
			return err
		}
		if len(list.Items) == 0 || list.Items[0].Status.PodIP == "" {
			return fmt.Errorf("it has no pod with an address yet")
		}
		path := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/http:%s:%d/proxy/v1/jobs", env.config.Host, i.ns, list.Items[0].Name, podenv.DefaultIntakePort)
		request, err := http.NewRequestWithContext(i.ctx, http.MethodPost, path, strings.NewReader("{}"))
		if err != nil {
			return err
		}
		answer, err = send(request)
		if err == nil && (!json.Valid([]byte(answer.body)) || strings.Contains(answer.body, `"kind":"Status"`)) {
			return fmt.Errorf("the API server answers: %d %s", answer.code, answer.body)
		}
		return err
	})
	return answer
}

// wantProblem checks the code of a refusal and that it says what is wrong and
// what is wanted.
func wantProblem(t *testing.T, name string, answer reply, code int) {
	t.Helper()
	var problem struct{ Error, Wanted string }
	if err := json.Unmarshal([]byte(answer.body), &problem); err != nil || answer.code != code || problem.Error == "" || problem.Wanted == "" {
		t.Errorf("%s: want %d with what is wrong and what is wanted, got %d %s", name, code, answer.code, answer.body)
	}
}
