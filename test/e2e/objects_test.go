//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

// The nodes of the cluster that `make e2e` brings up. What has to outlive a
// crash of other nodes is kept on the first.
const (
	safeNode = "node1"
	hostname = "kubernetes.io/hostname"
)

// drain is the time that the suite's workers get to finish a job.
const drain = 25 * time.Second

// producer is a Producer with the stock intake.
func (w *world) producer(name string, change ...func(*v1alpha1.Producer)) *v1alpha1.Producer {
	p := &v1alpha1.Producer{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns},
		Spec:       v1alpha1.ProducerSpec{Queue: v1alpha1.Queue{Memory: &v1alpha1.MemoryQueue{}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// onSafeNode keeps the producer's pod on the node that no test breaks.
func onSafeNode(p *v1alpha1.Producer) {
	p.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers:   []corev1.Container{{Name: podenv.ProducerContainer}},
		NodeSelector: map[string]string{hostname: safeNode},
	}}
}

// pool is a WorkerPool of the suite's worker, which writes its records to the
// world's folder.
func (w *world) pool(name, producer string, replicas int32, change ...func(*v1alpha1.WorkerPool)) *v1alpha1.WorkerPool {
	p := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns},
		Spec: v1alpha1.WorkerPoolSpec{
			ProducerRef: v1alpha1.ProducerReference{Name: producer},
			Replicas:    ptr.To(replicas),
			Drain:       v1alpha1.Drain{Timeout: &metav1.Duration{Duration: drain}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name:         podenv.WorkerContainer,
					Image:        env.image("e2e-worker"),
					Env:          []corev1.EnvVar{{Name: "E2E_RECORDS", Value: "/records"}},
					VolumeMounts: []corev1.VolumeMount{{Name: "records", MountPath: "/records"}},
				}},
				Volumes: []corev1.Volume{{Name: "records", VolumeSource: corev1.VolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: w.records, Type: ptr.To(corev1.HostPathDirectory)},
				}}},
			}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// onNodes lets the pool's pods run on some nodes only, and as evenly as can be.
func onNodes(nodes ...string) func(*v1alpha1.WorkerPool) {
	return func(p *v1alpha1.WorkerPool) {
		p.Spec.Template.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: hostname, Operator: corev1.NodeSelectorOpIn, Values: nodes},
				}}},
			}},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100,
				PodAffinityTerm: corev1.PodAffinityTerm{
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPool: p.Name}},
					TopologyKey:   hostname,
				},
			}}},
		}
	}
}

func concurrency(n int32) func(*v1alpha1.WorkerPool) {
	return func(p *v1alpha1.WorkerPool) { p.Spec.Worker.Concurrency = n }
}

func asMembers(p *v1alpha1.WorkerPool) { p.Spec.Worker.Membership = v1alpha1.MembershipMember }

// workerEnv sets a variable of the worker's container.
func workerEnv(p *v1alpha1.WorkerPool, name, value string) {
	for i := range p.Spec.Template.Spec.Containers {
		c := &p.Spec.Template.Spec.Containers[i]
		if c.Name != podenv.WorkerContainer {
			continue
		}
		c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

// start creates a Producer and its pools and waits until all are available.
func (w *world) start(p *v1alpha1.Producer, pools ...*v1alpha1.WorkerPool) intake {
	w.Helper()
	begun := time.Now()
	w.create(p)
	slots := 0
	for _, pool := range pools {
		w.create(pool)
		slots += int(*pool.Spec.Replicas * max(1, pool.Spec.Worker.Concurrency))
	}
	in := w.intake(p.Name)
	w.awaitProducer(p.Name, time.Minute)
	for _, pool := range pools {
		w.awaitPool(pool.Name, time.Minute)
	}
	in.awaitWorkers(20*time.Second, slots)
	w.Logf("producer and %d workers work after %.1f s", slots, time.Since(begun).Seconds())
	return in
}

func (w *world) awaitProducer(name string, limit time.Duration) {
	w.Helper()
	w.eventually(limit, "Producer "+name+" available", func() error {
		p := &v1alpha1.Producer{}
		if err := w.get(name, p); err != nil {
			return err
		}
		return wantCondition(p.Status.Conditions, v1alpha1.ConditionAvailable, metav1.ConditionTrue, p.Generation)
	})
}

// awaitPool waits until a pool has what it wants and nothing is changing.
func (w *world) awaitPool(name string, limit time.Duration) *v1alpha1.WorkerPool {
	w.Helper()
	p := &v1alpha1.WorkerPool{}
	w.eventually(limit, "WorkerPool "+name+" settled", func() error {
		if err := w.get(name, p); err != nil {
			return err
		}
		if err := wantCondition(p.Status.Conditions, v1alpha1.ConditionAvailable, metav1.ConditionTrue, p.Generation); err != nil {
			return err
		}
		if want, s := *p.Spec.Replicas, p.Status; s.ReadyReplicas != want || s.UpdatedReplicas != want || s.TerminatingReplicas != 0 || s.Replicas != want {
			return fmt.Errorf("want %d ready and updated, got %+v", want, s)
		}
		return nil
	})
	return p
}

func wantCondition(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, generation int64) error {
	c := meta.FindStatusCondition(conditions, kind)
	switch {
	case c == nil:
		return fmt.Errorf("there is no condition %s in %+v", kind, conditions)
	case c.Status != status:
		return fmt.Errorf("condition %s is %s (%s: %s)", kind, c.Status, c.Reason, c.Message)
	case c.ObservedGeneration != generation:
		return fmt.Errorf("condition %s is about generation %d, not %d", kind, c.ObservedGeneration, generation)
	}
	return nil
}

// workers returns the pods of a pool by name.
func (w *world) workers(pool string) map[string]corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(env.api.List(w.ctx, &list, client.InNamespace(w.ns), client.MatchingLabels{v1alpha1.LabelPool: pool}), "list pods")
	out := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		out[pod.Name] = pod
	}
	return out
}

func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(w.get(name, pod), "read pod "+name)
	return pod
}

// producerPod returns the pod of a Producer that is not being deleted.
func (w *world) producerPod(name string) *corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(env.api.List(w.ctx, &list, client.InNamespace(w.ns), client.MatchingLabels{
		v1alpha1.LabelProducer: name, v1alpha1.LabelComponent: v1alpha1.ComponentProducer,
	}), "list pods")
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			return &list.Items[i]
		}
	}
	w.Fatalf("Producer %s has no pod", name)
	return nil
}

func labelled(name, value string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: name + "=" + value}
}
