package controllers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

func onVolume(p *v1alpha1.Producer, size string) *v1alpha1.Producer {
	claim := &v1alpha1.VolumeClaimTemplate{Metadata: v1alpha1.ClaimMetadata{Labels: map[string]string{"team": "media"}}}
	claim.Spec.Resources.Requests.Storage = resource.MustParse(size)
	p.Spec.Queue = v1alpha1.Queue{Embedded: &v1alpha1.EmbeddedQueue{VolumeClaimTemplate: claim}}
	return p
}

func inPostgres(p *v1alpha1.Producer, replicas int32) *v1alpha1.Producer {
	p.Spec.Replicas = ptr.To(replicas)
	p.Spec.Queue = v1alpha1.Queue{Postgres: &v1alpha1.PostgresQueue{URLSecretKeyRef: v1alpha1.SecretKeyRef{Name: "database", Key: "url"}}}
	return p
}

// read reads an object that the operator made.
func read(t *testing.T, ns, name string, into client.Object) {
	t.Helper()
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, into))
}

// producerPod makes a pod as the workload's controller does, and runs it.
func producerPod(t *testing.T, ns, name string, template *corev1.PodTemplateSpec) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns, Labels: template.Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "producer", Image: "x"}}},
	}
	create(t, pod)
	schedule(t, pod)
	report(t, pod, runs(true))
	return pod
}

func TestEmbeddedQueueBecomesAStatefulSet(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, stop := operator(t, ns)
	p := onVolume(newProducer(ns, "jobs"), "1024Mi")
	create(t, p)
	waitForCondition(t, p, "Degraded", "False AsExpected")

	var set appsv1.StatefulSet
	read(t, ns, "jobs-producer", &set)
	require.True(t, metav1.IsControlledBy(&set, p))
	require.Equal(t, appsv1.ParallelPodManagement, set.Spec.PodManagementPolicy)
	require.Equal(t, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted)
	claim := set.Spec.VolumeClaimTemplates[0]
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, claim.Spec.AccessModes)
	require.Equal(t, "media", claim.Labels["team"])
	err := api.Get(t.Context(), client.ObjectKeyFromObject(&set), &appsv1.Deployment{})
	require.True(t, client.IgnoreNotFound(err) == nil && err != nil, "no Deployment beside it: %v", err)

	pod := producerPod(t, ns, "jobs-producer-0", &set.Spec.Template)
	waitForCondition(t, p, "Available", "True Ready")
	require.Equal(t, pod.Name, p.Status.ActivePod)

	// S23: nothing is written when nothing is to be done.
	before := quiet(t, count)
	change(t, p, func(p *v1alpha1.Producer) { p.Labels = map[string]string{"edited": "yes"} })
	require.Equal(t, before, quiet(t, count))
	stop()
	again, _ := operator(t, ns)
	require.Zero(t, quiet(t, again), "a restarted operator finds everything as it should be")

	// The node does not report: said, and nothing is deleted.
	report(t, pod, func(s *corev1.PodStatus) { s.Conditions[0].Status = corev1.ConditionFalse })
	message := waitForCondition(t, p, "Degraded", "True NodeLost")
	require.Contains(t, message, "node.kubernetes.io/out-of-service")
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	require.Nil(t, pod.DeletionTimestamp, "never by force")
	report(t, pod, runs(true))
	waitForCondition(t, p, "Degraded", "False AsExpected")
}

// The claim is enlarged and the StatefulSet made again beside its pod.
func TestVolumeIsEnlarged(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	class := "growing-" + ns
	p := onVolume(newProducer(ns, "jobs"), "1Gi")
	p.Spec.Queue.Embedded.VolumeClaimTemplate.Spec.StorageClassName = &class
	create(t, p)
	waitForCondition(t, p, "Degraded", "False AsExpected")
	var set appsv1.StatefulSet
	read(t, ns, "jobs-producer", &set)
	pod := producerPod(t, ns, "jobs-producer-0", &set.Spec.Template)

	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "workpull-queue-jobs-producer-0"}}
	claim.Spec = *set.Spec.VolumeClaimTemplates[0].Spec.DeepCopy()
	claim.Spec.VolumeName = "disk-" + ns
	create(t, claim)
	size := func() string {
		require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
		return claim.Spec.Resources.Requests.Storage().String()
	}
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	require.NoError(t, api.Status().Update(t.Context(), claim))

	// The class does not allow it: the refusal is told, and the StatefulSet stays.
	grow := func(p *v1alpha1.Producer) {
		p.Spec.Queue.Embedded.VolumeClaimTemplate.Spec.Resources.Requests.Storage = resource.MustParse("2Gi")
	}
	change(t, p, grow)
	message := waitForCondition(t, p, "Degraded", "True ChildFailed")
	require.Contains(t, message, "enlarge claim workpull-queue-jobs-producer-0 to 2Gi")
	require.Equal(t, "1Gi", size())
	uid := set.UID
	read(t, ns, "jobs-producer", &set)
	require.Equal(t, uid, set.UID)
	require.Nil(t, set.DeletionTimestamp)

	create(t, storageClass(class))
	change(t, p, func(p *v1alpha1.Producer) { p.Labels = map[string]string{"again": "now"} })
	change(t, p, func(p *v1alpha1.Producer) { p.Spec.Intake.MaxPending = 5 })
	eventually(t, "the StatefulSet is deleted without its pod", func(c *assert.CollectT) {
		assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(&set), &set))
		assert.NotNil(c, set.DeletionTimestamp)
		assert.Contains(c, set.Finalizers, metav1.FinalizerOrphanDependents)
	})
	require.Equal(t, "2Gi", size())
	change(t, &set, func(s *appsv1.StatefulSet) { s.Finalizers = nil }) // as the garbage collector does
	eventually(t, "the StatefulSet is made again", func(c *assert.CollectT) {
		assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(&set), &set))
		assert.NotEqual(c, uid, set.UID)
		if assert.Len(c, set.Spec.VolumeClaimTemplates, 1) {
			assert.Equal(c, "2Gi", set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String())
		}
	})
	waitForCondition(t, p, "Degraded", "False AsExpected")
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	require.Nil(t, pod.DeletionTimestamp, "the pod runs on")
}

// The operator needs no right to read Secrets: the kubelet says what is missing.
func TestMissingSecretIsTold(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	operator(t, ns)
	p := inPostgres(newProducer(ns, "jobs"), 1)
	create(t, p)
	waitForCondition(t, p, "Available", "False PodNotReady")
	var deployment appsv1.Deployment
	read(t, ns, "jobs-producer", &deployment)
	pod := producerPod(t, ns, "jobs-producer-x", &deployment.Spec.Template)
	report(t, pod, func(s *corev1.PodStatus) {
		runs(false)(s)
		s.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CreateContainerConfigError", Message: `secret "database" not found`}}
	})
	message := waitForCondition(t, p, "Degraded", "True QueueSecretNotFound")
	require.Contains(t, message, "key url of Secret database")
	report(t, pod, runs(true))
	waitForCondition(t, p, "Degraded", "False AsExpected")

	var role rbacv1.ClusterRole
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Name: "workpull-operator"}, &role))
	for _, rule := range role.Rules {
		require.NotContains(t, rule.Resources, "secrets")
	}
}

// The pod that holds the Lease is the active one, whatever becomes of the
// operator in between.
func TestStandbyTakesOverByLease(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	count, stop := operator(t, ns)
	p := inPostgres(newProducer(ns, "jobs"), 2)
	create(t, p)
	waitForCondition(t, p, "Degraded", "False AsExpected")
	var deployment appsv1.Deployment
	var lease coordinationv1.Lease
	var budget policyv1.PodDisruptionBudget
	for _, child := range []client.Object{&deployment, &lease, &budget} {
		read(t, ns, "jobs-producer", child)
		require.True(t, metav1.IsControlledBy(child, p), "%T", child)
	}
	require.Equal(t, int32(2), *deployment.Spec.Replicas)
	require.Equal(t, policyv1.AlwaysAllow, *budget.Spec.UnhealthyPodEvictionPolicy)
	require.Nil(t, lease.Spec.HolderIdentity, "the Lease is the pods'")

	a := producerPod(t, ns, "jobs-producer-a", &deployment.Spec.Template)
	b := producerPod(t, ns, "jobs-producer-b", &deployment.Spec.Template)
	waitForCondition(t, p, "Available", "False PodNotReady")
	hold := func(pod *corev1.Pod) {
		change(t, &lease, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity = ptr.To(podenv.Identity(pod.Name, string(pod.UID)))
			l.Spec.RenewTime = ptr.To(metav1.NowMicro())
		})
	}
	active := func(pod, other *corev1.Pod) {
		t.Helper()
		eventually(t, pod.Name+" is the active pod", func(c *assert.CollectT) {
			assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(other), other))
			assert.Equal(c, "active", pod.Labels[v1alpha1.LabelRole])
			assert.Equal(c, "standby", other.Labels[v1alpha1.LabelRole])
			assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(p), p))
			assert.Equal(c, pod.Name, p.Status.ActivePod)
		})
		waitForCondition(t, p, "Available", "True Ready")
	}
	hold(a)
	active(a, b)

	before := quiet(t, count)
	change(t, &lease, func(l *coordinationv1.Lease) { l.Spec.RenewTime = ptr.To(metav1.NowMicro()) })
	require.Equal(t, before, quiet(t, count), "a renewal is nothing to write about")

	hold(b)
	active(b, a)
	stop()
	hold(a)
	operator(t, ns)
	active(a, b)

	// One pod alone is made as the active one; what standbys needed stays.
	change(t, p, func(p *v1alpha1.Producer) { p.Spec.Replicas = ptr.To[int32](1) })
	eventually(t, "one replica", func(c *assert.CollectT) {
		assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(&deployment), &deployment))
		assert.Equal(c, int32(1), *deployment.Spec.Replicas)
		assert.Equal(c, appsv1.RecreateDeploymentStrategyType, deployment.Spec.Strategy.Type)
		assert.Nil(c, deployment.Spec.Strategy.RollingUpdate)
		assert.Equal(c, "active", deployment.Spec.Template.Labels[v1alpha1.LabelRole])
	})
	waitForCondition(t, p, "Degraded", "False AsExpected")
	change(t, p, func(p *v1alpha1.Producer) { p.Spec.Replicas = ptr.To[int32](3) })
	eventually(t, "three replicas", func(c *assert.CollectT) {
		assert.NoError(c, api.Get(t.Context(), client.ObjectKeyFromObject(&deployment), &deployment))
		assert.Equal(c, int32(3), *deployment.Spec.Replicas)
		assert.Equal(c, "standby", deployment.Spec.Template.Labels[v1alpha1.LabelRole])
	})
	waitForCondition(t, p, "Degraded", "False AsExpected")
}

// storageClass lets claims grow.
func storageClass(name string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: ptr.To(true),
	}
}
