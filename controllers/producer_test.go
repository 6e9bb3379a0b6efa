package controllers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
)

func TestProducerBecomesItsWorkload(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	p := newProducer(ns, "jobs")
	create(t, p)
	waitForCondition(t, p, "Available", "False PodNotReady")
	require.Equal(t, "http://jobs."+ns+".svc", p.Status.Endpoint)

	var deployment appsv1.Deployment
	key := client.ObjectKey{Namespace: ns, Name: "jobs-producer"}
	require.NoError(t, api.Get(t.Context(), key, &deployment))
	require.Equal(t, appsv1.RecreateDeploymentStrategyType, deployment.Spec.Strategy.Type)
	require.Equal(t, int32(1), *deployment.Spec.Replicas)
	require.Equal(t, "example.com/workpull:1", deployment.Spec.Template.Spec.Containers[0].Image)

	var cluster, intake corev1.Service
	require.NoError(t, api.Get(t.Context(), key, &cluster))
	require.Equal(t, corev1.ClusterIPNone, cluster.Spec.ClusterIP)
	require.True(t, cluster.Spec.PublishNotReadyAddresses)
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "jobs"}, &intake))
	require.Equal(t, int32(80), intake.Spec.Ports[0].Port)
	require.Equal(t, "active", intake.Spec.Selector[v1alpha1.LabelRole])

	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	var account corev1.ServiceAccount
	for _, child := range []client.Object{&role, &binding, &account, &deployment, &cluster} {
		require.NoError(t, api.Get(t.Context(), key, child))
		require.True(t, metav1.IsControlledBy(child, p), "%T", child)
		require.True(t, *child.GetOwnerReferences()[0].BlockOwnerDeletion)
	}

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "jobs-producer-x", Namespace: ns, Labels: deployment.Spec.Template.Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "producer", Image: "x"}}},
	}
	create(t, pod)
	schedule(t, pod)
	report(t, pod, runs(true))
	waitForCondition(t, p, "Available", "True Ready")
	require.Equal(t, "jobs-producer-x", p.Status.ActivePod)
}

// S23: a reconcile that has nothing to do writes nothing, whatever the way in
// which the user wrote the template.
func TestProducerAtRestWritesNothing(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, stop := operator(t, ns)
	p := newProducer(ns, "jobs")
	p.Spec.Intake.Service.Type = corev1.ServiceTypeNodePort
	p.Spec.Template = &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"disk": "fast"},
			Tolerations:  []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{
				{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1024Mi"))}}},
				{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
			},
			Containers: []corev1.Container{
				{Name: "producer",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m"), corev1.ResourceMemory: resource.MustParse("1024Mi")}},
					Env:       []corev1.EnvVar{{Name: "EMPTY"}, {Name: "X", Value: "1"}}},
				{Name: "sidecar", Image: "x", Ports: []corev1.ContainerPort{{ContainerPort: 7777}, {Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}},
					VolumeMounts: []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}, {Name: "conf", MountPath: "/conf"}},
					LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
						HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(7777)}}}},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway}},
		},
	}
	create(t, p)
	waitForCondition(t, p, "Degraded", "False AsExpected")
	before := quiet(t, count)

	change(t, p, func(p *v1alpha1.Producer) { p.Labels = map[string]string{"edited": "yes"} })
	require.Equal(t, before, quiet(t, count))

	stop()
	again, _ := operator(t, ns)
	require.Zero(t, quiet(t, again), "a restarted operator finds everything as it should be")
}

func TestProducerRepairsItsChildren(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	p := newProducer(ns, "jobs")
	create(t, p)
	waitForCondition(t, p, "Degraded", "False AsExpected")

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "jobs-producer"}}
	change(t, deployment, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](3) })
	intake := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "jobs"}}
	require.NoError(t, api.Delete(t.Context(), intake.DeepCopy()))
	eventually(t, "children are as they were", func(c *assert.CollectT) {
		assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
		assert.Equal(c, int32(1), *deployment.Spec.Replicas)
		assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(intake), intake))
	})

	change(t, p, func(p *v1alpha1.Producer) { p.Spec.Intake.Service.Port = 8000 })
	eventually(t, "the Service follows the spec", func(c *assert.CollectT) {
		assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(intake), intake))
		if assert.Len(c, intake.Spec.Ports, 1) {
			assert.Equal(c, int32(8000), intake.Spec.Ports[0].Port)
		}
	})
}

// An object of somebody else is never taken over.
func TestProducerLeavesANamesakeAlone(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	stranger := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "jobs"}}
	stranger.Spec.Ports = []corev1.ServicePort{{Port: 1}}
	create(t, stranger)
	operator(t, ns)
	p := newProducer(ns, "jobs")
	create(t, p)

	message := waitForCondition(t, p, "Degraded", "True NameConflict")
	require.Contains(t, message, "Service jobs")
	version := stranger.ResourceVersion
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(stranger), stranger))
	require.Equal(t, version, stranger.ResourceVersion, "the stranger's object is untouched")
	var deployment appsv1.Deployment
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "jobs-producer"}, &deployment),
		"the other children are made")
}
