package children

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

var stock = StockImage{Name: "example.com/workpull:1", PullPolicy: corev1.PullNever}

func producer(change ...func(*v1alpha1.Producer)) *v1alpha1.Producer {
	p := &v1alpha1.Producer{ObjectMeta: metav1.ObjectMeta{Name: "thumbs", Namespace: "media", UID: "p-uid"}}
	p.Spec.Queue.Memory = &v1alpha1.MemoryQueue{}
	p.SetDefaults()
	for _, c := range change {
		c(p)
	}
	return p
}

func pool(change ...func(*v1alpha1.WorkerPool)) *v1alpha1.WorkerPool {
	w := &v1alpha1.WorkerPool{ObjectMeta: metav1.ObjectMeta{Name: "fast", Namespace: "media", UID: "w-uid"}}
	w.Spec.ProducerRef.Name = "thumbs"
	w.Spec.Template.Spec.Containers = []corev1.Container{{Name: "worker", Image: "example.com/worker:1"}}
	w.SetDefaults()
	for _, c := range change {
		c(w)
	}
	return w
}

func env(c corev1.Container) map[string]string {
	out := map[string]string{}
	for _, e := range c.Env {
		out[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			out[e.Name] = "secret " + e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
		} else if e.ValueFrom != nil {
			out[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	return out
}

func TestProducerWithoutTemplateRunsTheStockImage(t *testing.T) {
	template := ProducerTemplate(producer(), stock)

	require.Len(t, template.Spec.Containers, 1)
	main := template.Spec.Containers[0]
	require.Equal(t, "producer", main.Name)
	require.Equal(t, stock.Name, main.Image)
	require.Equal(t, corev1.PullNever, main.ImagePullPolicy)
	require.Equal(t, []string{"producer"}, main.Args)
	require.True(t, *main.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, "/tmp", main.VolumeMounts[0].MountPath)
	require.NotNil(t, template.Spec.Volumes[0].EmptyDir)
	require.Equal(t, int64(30), *template.Spec.TerminationGracePeriodSeconds)
	require.Equal(t, "thumbs-producer", template.Spec.ServiceAccountName)
	require.Empty(t, main.Resources, "resources are the user's")
	require.Equal(t, podenv.ReadinessPath, main.ReadinessProbe.HTTPGet.Path)
	require.Equal(t, podenv.LivenessPath, main.LivenessProbe.HTTPGet.Path)

	got := env(main)
	for name, want := range map[string]string{
		podenv.System: "workpull-media-thumbs", podenv.Producer: "thumbs",
		podenv.PodUID: "metadata.uid", podenv.PodIP: "status.podIP", podenv.NodeName: "spec.nodeName",
		podenv.Membership: "Member", podenv.Queue: "memory", podenv.IntakePort: "8080", podenv.LinkPort: "9003",
		podenv.MaxAttempts: "10", podenv.Backoff: "1s", podenv.BackoffMax: "1m0s", podenv.DeduplicationWindow: "5m0s",
		podenv.QueueAttempts: "3", podenv.QueueBackoff: "100ms",
		podenv.MaxPending: "10000", podenv.MaxJobBytes: "1048576", podenv.RetryInterval: "500ms",
	} {
		require.Equal(t, want, got[name], name)
	}
	require.Equal(t, "active", template.Labels[v1alpha1.LabelRole])
	require.Equal(t, "Member", template.Labels[v1alpha1.LabelMembership])
}

func TestProducerTemplateKeepsWhatTheUserSet(t *testing.T) {
	p := producer(func(p *v1alpha1.Producer) {
		p.Spec.Template = &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "media", v1alpha1.LabelRole: "mine"}},
			Spec: corev1.PodSpec{
				ServiceAccountName: "given",
				Containers: []corev1.Container{
					{Name: "sidecar", Image: "example.com/sidecar:1"},
					{Name: "producer", Image: "example.com/own:1",
						Env: []corev1.EnvVar{{Name: podenv.System, Value: "mine"}, {Name: "OWN", Value: "1"}}},
				},
			},
		}
	})
	before := p.DeepCopy()
	template := ProducerTemplate(p, stock)
	require.Equal(t, before, p, "the user's object is not changed")

	main := template.Spec.Containers[1]
	require.Equal(t, "example.com/own:1", main.Image)
	require.Nil(t, main.Args)
	require.Nil(t, main.SecurityContext.ReadOnlyRootFilesystem, "only our own image is known to need no writable root")
	require.Empty(t, template.Spec.Volumes)
	require.Equal(t, "given", template.Spec.ServiceAccountName)
	require.Equal(t, "workpull-media-thumbs", env(main)[podenv.System], "the contract wins")
	require.Equal(t, "1", env(main)["OWN"])
	require.Equal(t, "media", template.Labels["team"])
	require.Equal(t, "active", template.Labels[v1alpha1.LabelRole], "the intake Service selects by it")

	kinds := []string{}
	for _, c := range ProducerAccount(p) {
		kinds = append(kinds, c.Kind)
	}
	require.Equal(t, []string{"Role", "RoleBinding"}, kinds, "a given ServiceAccount is bound, not made")
}

func TestAttachedWorkerPod(t *testing.T) {
	pod := WorkerPod(pool(), 3, "abc")
	require.Equal(t, "fast-3", pod.Name)
	require.Empty(t, pod.Finalizers, "S21")
	require.Equal(t, corev1.RestartPolicyAlways, pod.Spec.RestartPolicy)
	require.Equal(t, int64(35), *pod.Spec.TerminationGracePeriodSeconds)
	require.False(t, *pod.Spec.AutomountServiceAccountToken)
	require.Empty(t, pod.Spec.ServiceAccountName)
	require.Empty(t, WorkerAccount(pool()), "attached workers get no Role")
	require.True(t, metav1.IsControlledBy(pod, pool()))

	require.Equal(t, map[string]string{
		"app.kubernetes.io/name": "workpull", "app.kubernetes.io/instance": "thumbs",
		"app.kubernetes.io/component": "worker", "app.kubernetes.io/managed-by": "workpull-operator",
		"workpull.dev/producer": "thumbs", "workpull.dev/pool": "fast", "workpull.dev/revision": "abc",
		"workpull.dev/membership": "Attached",
	}, pod.Labels)

	main := pod.Spec.Containers[0]
	got := env(main)
	for name, want := range map[string]string{
		podenv.System: "workpull-media-thumbs", podenv.Pool: "fast", podenv.Membership: "Attached",
		podenv.ProducerHost: "thumbs-producer.media.svc", podenv.Concurrency: "1",
		podenv.FlowControlWindow: "50", podenv.DrainTimeout: "30s", podenv.LinkPort: "9003",
	} {
		require.Equal(t, want, got[name], name)
	}
	require.NotContains(t, got, podenv.GossipPort)
	require.Len(t, main.Ports, 2)
}

func TestMemberWorkerPod(t *testing.T) {
	w := pool(func(w *v1alpha1.WorkerPool) {
		w.Spec.Worker.Membership = v1alpha1.MembershipMember
		w.Spec.Drain.Timeout.Duration = 1500 * time.Millisecond
	})
	pod := WorkerPod(w, 0, "abc")
	require.Equal(t, "fast-worker", pod.Spec.ServiceAccountName)
	require.Nil(t, pod.Spec.AutomountServiceAccountToken, "discovery asks the API")
	require.Equal(t, int64(7), *pod.Spec.TerminationGracePeriodSeconds, "rounded up")
	require.Equal(t, "Member", pod.Labels[v1alpha1.LabelMembership])
	require.Equal(t, "9001", env(pod.Spec.Containers[0])[podenv.GossipPort])
	require.Len(t, WorkerAccount(w), 3)
}

// Restricted Pod Security, merged field by field and container by container.
func TestSecurityDefaults(t *testing.T) {
	pod := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}},
		Containers: []corev1.Container{
			{Name: "plain"},
			{Name: "root", SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)}},
			{Name: "bind", SecurityContext: &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}}}},
			{Name: "privileged", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}},
			{Name: "admin", SecurityContext: &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}},
		},
	}
	secure(&pod)
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	for _, c := range []corev1.Container{pod.InitContainers[0], pod.Containers[0]} {
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, c.Name)
		require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, c.Name)
		require.Nil(t, c.SecurityContext.ReadOnlyRootFilesystem, c.Name)
		require.Nil(t, c.SecurityContext.RunAsNonRoot, c.Name)
	}
	require.False(t, *pod.Containers[1].SecurityContext.RunAsNonRoot, "root was asked for")
	require.Equal(t, []corev1.Capability{"NET_BIND_SERVICE"}, pod.Containers[2].SecurityContext.Capabilities.Add)
	require.Equal(t, []corev1.Capability{"ALL"}, pod.Containers[2].SecurityContext.Capabilities.Drop)
	require.Nil(t, pod.Containers[3].SecurityContext.AllowPrivilegeEscalation, "the API server refuses it beside privileged")
	require.Nil(t, pod.Containers[4].SecurityContext.AllowPrivilegeEscalation, "the API server refuses it beside SYS_ADMIN")

	windows := corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{Name: "plain"}}}
	secure(&windows)
	require.Nil(t, windows.SecurityContext)
}

func TestUsersPortsAreKept(t *testing.T) {
	c := corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: podenv.DefaultHealthPort}}}
	addPorts(&c, tcpPort("remoting", 9000), tcpPort("health", podenv.DefaultHealthPort))
	require.Equal(t, []corev1.ContainerPort{tcpPort("web", podenv.DefaultHealthPort), tcpPort("remoting", 9000)}, c.Ports)
}

// The bounds on the owners' names are there for these.
func TestDerivedNamesFitLabels(t *testing.T) {
	longProducer, longPool := strings.Repeat("p", 40), strings.Repeat("w", 50)
	p := producer(func(p *v1alpha1.Producer) { p.Name = longProducer })
	w := pool(func(w *v1alpha1.WorkerPool) { w.Name = longPool; w.Spec.ProducerRef.Name = longProducer })
	for _, name := range []string{ProducerName(longProducer), WorkerAccountName(longPool), PodName(longPool, 9999)} {
		require.Empty(t, validation.IsDNS1123Label(name), name)
	}
	for _, labels := range []map[string]string{ProducerTemplate(p, stock).Labels, WorkerPod(w, 9999, "0123456789").Labels} {
		for key, value := range labels {
			require.Empty(t, validation.IsQualifiedName(key), key)
			require.Empty(t, validation.IsValidLabelValue(value), value)
		}
	}
}

func TestEndpoint(t *testing.T) {
	require.Equal(t, "http://thumbs.media.svc", Endpoint("media", "thumbs", 80))
	require.Equal(t, "http://thumbs.media.svc:8080", Endpoint("media", "thumbs", 8080))
}
