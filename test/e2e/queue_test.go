//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/producer"
)

// recovery is how soon a producer takes jobs again after its process was killed
// or a standby has taken over: the bar of a successor's first dispatch is 10 s,
// and the kubelet waits between restarts.
const recovery = time.Minute

// load submits jobs one after another until stop, through the Service, and
// keeps the ids that were acknowledged.
type load struct {
	intake
	ids  []string
	told atomic.Int64 // how many there are
	stop func() []string
}

// under submits jobs in the background. What is refused, or gets no answer, was
// never promised; it is not sent again.
func (i intake) under(prefix string) *load {
	l := &load{intake: i}
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-i.ctx.Done():
				return
			default:
			}
			id := fmt.Sprintf("%s-%d", prefix, n)
			answer, err := i.do(i.ctx, http.MethodPost, "/v1/jobs?id="+id, []byte(`{"sleep":"5ms"}`), "Content-Type", "application/json")
			if err == nil && answer.code == http.StatusAccepted {
				l.ids = append(l.ids, id)
				l.told.Add(1)
			}
		}
	})
	l.stop = func() []string {
		close(done)
		group.Wait()
		return l.ids
	}
	return l
}

// flows waits until n jobs were acknowledged.
func (l *load) flows(n int64) {
	l.Helper()
	l.eventually(30*time.Second, fmt.Sprintf("%d jobs acknowledged", n), func() error {
		if told := l.told.Load(); told < n {
			return fmt.Errorf("it is %d", told)
		}
		return nil
	})
}

// awaitIncarnation waits for a producer that started after a moment.
func (i intake) awaitIncarnation(after time.Time) producer.Status {
	i.Helper()
	var status producer.Status
	i.eventually(recovery, "a new incarnation of the producer", func() (err error) {
		if status, err = i.status(); err == nil && !status.Since.After(after) {
			return fmt.Errorf("the one that answers is from %s", status.Since)
		}
		return err
	})
	return status
}

// ran checks that every job was done at least once, and says how many more than
// once: a producer's end makes jobs run again that ran then.
func (w *world) ran(ids []string) {
	w.Helper()
	ends := w.of("end")
	twice := 0
	for _, id := range ids {
		switch n := len(ends[id]); {
		case n == 0:
			w.Errorf("job %s was acknowledged and never done", id)
		case n > 1:
			twice++
		}
	}
	w.Logf("%d jobs acknowledged and done, %d of them more than once", len(ids), twice)
}

// volume makes a PersistentVolume on the safe node and returns its class. There
// is no provisioner in the cluster.
func (w *world) volume() string {
	w.Helper()
	class := w.ns
	folder := w.records + "-volume"
	w.must(os.MkdirAll(folder, 0o755), "make the folder of a volume")
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
			StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostname, Operator: corev1.NodeSelectorOpIn, Values: []string{safeNode}}},
			}}}},
		},
	}
	sc := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	w.create(sc, volume)
	w.Cleanup(func() {
		_ = env.api.Delete(w.ctx, volume)
		_ = env.api.Delete(w.ctx, sc)
	})
	return class
}

func onVolume(class string) func(*v1alpha1.Producer) {
	return func(p *v1alpha1.Producer) {
		claim := &v1alpha1.VolumeClaimTemplate{}
		claim.Spec.StorageClassName = &class
		claim.Spec.Resources.Requests.Storage = resource.MustParse("1Gi")
		p.Spec.Queue = v1alpha1.Queue{Embedded: &v1alpha1.EmbeddedQueue{VolumeClaimTemplate: claim}}
	}
}

// The producer's process gets SIGKILL under load, again and again: whatever was
// acknowledged is done (S33). So it is after the Producer was deleted and made
// again, which adopts its volume.
func TestEmbeddedQueueSurvivesKills(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "embedded", 8*time.Minute)
	class := w.volume()
	in := w.start(w.producer("jobs", onVolume(class)), w.pool("workers", "jobs", 2))
	var ids []string
	for kill := range 5 {
		load := in.under(fmt.Sprintf("kill%d", kill))
		load.flows(50)
		killed, what := time.Now(), "SIGKILL"
		if kill%2 == 0 {
			killed = w.kill(w.producerPod("jobs"), "SIGKILL")
		} else { // of the whole pod; the next one's restarts begin without the kubelet's backoff
			what = "end of the pod"
			w.kubectl("delete", "pod/"+w.producerPod("jobs").Name, "--grace-period=0", "--force")
		}
		in.awaitIncarnation(killed)
		t.Logf("%s, %d of 5: the producer answers again after %.1f s", what, kill+1, time.Since(killed).Seconds())
		ids = append(ids, load.stop()...)
	}
	in.awaitDone(2*time.Minute, ids...)
	w.ran(ids)

	status, err := in.status()
	w.must(err, "read the status")
	if status.Queue != "embedded" || status.Lost != 0 {
		t.Errorf("want an embedded queue and nothing lost, got %+v", status)
	}
	w.kubectl("delete", "workerpool/workers")
	kept := in.submitMany("kept", 5, work{})
	w.kubectl("delete", "producer/jobs", "--cascade=foreground")
	again := w.start(w.producer("jobs", onVolume(class)), w.pool("workers", "jobs", 2))
	again.awaitDone(time.Minute, kept...)
	w.ran(kept)
}

// database runs Debian's PostgreSQL of this machine in a pod of the safe node,
// and makes the Secret with its URL.
func (w *world) database() {
	w.Helper()
	folder, err := programs()
	w.must(err, "find PostgreSQL")
	mounts := []string{"/usr", "/etc/passwd", "/etc/group", "/lib", "/lib64", "/bin"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "database", Namespace: w.ns, Labels: map[string]string{"app": "database"}},
		Spec: corev1.PodSpec{
			NodeSelector:    map[string]string{hostname: safeNode},
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](65534), RunAsGroup: ptr.To[int64](65534), FSGroup: ptr.To[int64](65534)},
			Containers: []corev1.Container{{
				Name: "postgres", Image: env.image("e2e-worker"),
				Command: []string{"/bin/sh", "-ec", strings.Join([]string{
					folder + "/initdb -D /data/db -U postgres --auth=trust --no-locale -E UTF8",
					"echo 'host all all all trust' >> /data/db/pg_hba.conf",
					"exec " + folder + "/postgres -D /data/db -c listen_addresses='*' -c unix_socket_directories=/data",
				}, "\n")},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{
					Command: []string{folder + "/pg_isready", "-h", "/data", "-U", "postgres"}}}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	for n, path := range mounts {
		name := fmt.Sprintf("host-%d", n)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: path}}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: true})
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "database", Namespace: w.ns},
		Spec:       corev1.ServiceSpec{Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 5432}}},
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "database", Namespace: w.ns},
		StringData: map[string]string{"url": "postgres://postgres@database." + w.ns + ".svc:5432/postgres?sslmode=disable"},
	}
	w.create(pod, service, secret)
	w.Cleanup(func() { _ = env.api.Delete(w.ctx, pod) })
	w.eventually(time.Minute, "the database ready", func() error {
		if err := w.get("database", pod); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
	})
}

func inPostgres(replicas int32) func(*v1alpha1.Producer) {
	return func(p *v1alpha1.Producer) {
		p.Spec.Replicas = ptr.To(replicas)
		p.Spec.Queue = v1alpha1.Queue{Postgres: &v1alpha1.PostgresQueue{URLSecretKeyRef: v1alpha1.SecretKeyRef{Name: "database", Key: "url"}}}
	}
}

// activePod is the pod that the status names.
func (w *world) activePod(name string) *corev1.Pod {
	w.Helper()
	p := &v1alpha1.Producer{}
	w.must(w.get(name, p), "read Producer "+name)
	pod := &corev1.Pod{}
	w.must(w.get(p.Status.ActivePod, pod), "read the active pod")
	return pod
}

// awaitTakeOver waits until another pod than the one before is active.
func (w *world) awaitTakeOver(name, before string, since time.Time) {
	w.Helper()
	w.eventually(recovery, "a standby active in place of "+before, func() error {
		p := &v1alpha1.Producer{}
		if err := w.get(name, p); err != nil {
			return err
		}
		if p.Status.ActivePod == before || p.Status.ActivePod == "" {
			return fmt.Errorf("the active pod is %q", p.Status.ActivePod)
		}
		return nil
	})
	w.Logf("another pod than %s is active after %.1f s", before, time.Since(since).Seconds())
}

// A standby takes over from a pod that is frozen, which is fenced when it goes
// on, and from one whose node dies. Whatever was acknowledged is done.
func TestStandbyTakesOver(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "standby", 8*time.Minute)
	w.database()
	// Not on the safe node, where the database is: one of the pods dies with its node.
	elsewhere := func(p *v1alpha1.Producer) {
		p.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "producer"}}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{safeNode}}},
			}}}}}}}
	}
	in := w.start(w.producer("jobs", inPostgres(2), elsewhere), w.pool("workers", "jobs", 2, onNodes(safeNode)))

	load := in.under("frozen")
	load.flows(50)
	frozen := w.activePod("jobs")
	at := w.kill(frozen, "SIGSTOP")
	w.awaitTakeOver("jobs", frozen.Name, at)
	w.kill(frozen, "SIGCONT")
	w.eventually(time.Minute, "the frozen producer a standby, or started again", func() error {
		log, err := logs(w.ctx, w.ns, frozen.Name, "producer", false)
		if err == nil && !strings.Contains(log, "this producer stands by from now on") && w.pod(frozen.Name).Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Errorf("the log does not say so:\n%s", log)
		}
		return err
	})
	in.awaitWorkers(recovery, 2)
	ids := load.stop()

	w.awaitProducer("jobs", time.Minute)
	load = in.under("crash")
	load.flows(50)
	active := w.activePod("jobs")
	at = time.Now()
	w.must(env.node(w.ctx, "crash", active.Spec.NodeName), "crash the active producer's node")
	defer func() { w.must(env.node(w.ctx, "mend", active.Spec.NodeName), "mend the node") }()
	w.awaitTakeOver("jobs", active.Name, at)
	in.awaitWorkers(recovery, 2)
	after := in.submitMany("after", 5, work{})
	ids = append(append(ids, load.stop()...), after...)
	in.awaitDone(2*time.Minute, ids...)
	w.ran(ids)
}

// The API server is frozen for 20 s: the active producer, whose Lease runs out,
// goes on taking jobs and having them done, and no standby takes over then.
func TestOutageOfTheAPIServerStopsNoProducer(t *testing.T) {
	needOperator(t)
	w := newWorld(t, "outage", 5*time.Minute)
	w.database()
	in := w.start(w.producer("jobs", inPostgres(2)), w.pool("workers", "jobs", 2))
	active := w.activePod("jobs")
	server, err := apiServerProcess()
	w.must(err, "find the API server's process")
	w.must(syscall.Kill(server, syscall.SIGSTOP), "freeze the API server")
	const outage = 20 * time.Second
	begun := time.Now()
	url := fmt.Sprintf("http://%s:8080/v1/jobs", active.Status.PodIP)
	out, submitErr := env.onNode(w.ctx, safeNode, submitter(url, "outage", outage)...)
	frozen := time.Since(begun)
	w.must(syscall.Kill(server, syscall.SIGCONT), "let the API server go on")
	w.must(submitErr, "submit jobs while the API server is frozen")
	if frozen < outage {
		t.Fatalf("the API server was frozen for %s only", frozen)
	}
	ids := strings.Fields(out)
	if len(ids) < 100 {
		t.Fatalf("want jobs accepted all the time, got %d: %s", len(ids), out)
	}
	done := 0
	for _, records := range w.of("end") {
		if last := records[len(records)-1]; last.Time < begun.Add(frozen).UnixNano() {
			done++
		}
	}
	t.Logf("an outage of %.1f s: %d jobs were accepted and %d done meanwhile", frozen.Seconds(), len(ids), done)
	if done < len(ids)/2 {
		t.Errorf("of %d jobs only %d were done during the outage", len(ids), done)
	}
	in.awaitDone(time.Minute, ids...)
	w.ran(ids)
	w.eventually(30*time.Second, "the Producer available after the outage", func() error {
		p := &v1alpha1.Producer{}
		if err := w.get("jobs", p); err != nil {
			return err
		}
		if p.Status.ActivePod != active.Name {
			return fmt.Errorf("pod %q is active, it was %s", p.Status.ActivePod, active.Name)
		}
		return wantCondition(p.Status.Conditions, v1alpha1.ConditionAvailable, metav1.ConditionTrue, p.Generation)
	})
}
