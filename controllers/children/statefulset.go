package children

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

const (
	// queueVolume is the volume of an embedded queue, and begins the name of
	// its claim.
	queueVolume = "workpull-queue"
	// queueGroup may write to the volume, whatever user the container runs as.
	queueGroup int64 = 65532
)

// Claim is the template of the claim that the queue is on, or nil.
func Claim(p *v1alpha1.Producer) *v1alpha1.VolumeClaimTemplate {
	if p.Spec.Queue.Embedded == nil {
		return nil
	}
	return p.Spec.Queue.Embedded.VolumeClaimTemplate
}

// statefulSet runs the one pod of a queue that is on a volume: its successor
// gets the same claim. Of one pod there is no order to keep, and Parallel lets a
// corrected template replace a pod that never became ready.
func statefulSet(p *v1alpha1.Producer, template *corev1ac.PodTemplateSpecApplyConfiguration) Child {
	retention := appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if policy := p.Spec.Queue.Embedded.PersistentVolumeClaimRetentionPolicy; policy != nil {
		retention = policy.WhenDeleted
	}
	name := ProducerName(p.Name)
	config := appsv1ac.StatefulSet(name, p.Namespace).
		WithLabels(ProducerLabels(p.Name)).
		WithOwnerReferences(ownerReference(p, v1alpha1.ProducerKind)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(1).
			WithRevisionHistoryLimit(2).
			WithServiceName(name).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(appsv1.RollingUpdateStatefulSetStrategyType)).
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(retention).WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(ProducerSelector(p.Name))).
			WithVolumeClaimTemplates(claimTemplate(p)).
			WithTemplate(template))
	return newChild("StatefulSet", name, config,
		func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} }, extractStatefulSet)
}

// extractStatefulSet leaves out what the API server adds to the templates of
// claims, a list of which an owner owns the whole: a status, and in some
// versions kind and apiVersion.
func extractStatefulSet(live *appsv1.StatefulSet, owner string) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	config, err := appsv1ac.ExtractStatefulSet(live, owner)
	if err != nil || config.Spec == nil {
		return config, err
	}
	for i := range config.Spec.VolumeClaimTemplates {
		claim := &config.Spec.VolumeClaimTemplates[i]
		claim.Kind, claim.APIVersion, claim.Status = nil, nil, nil
	}
	return config, nil
}

func claimTemplate(p *v1alpha1.Producer) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	claim := Claim(p)
	modes := claim.Spec.AccessModes
	if len(modes) == 0 {
		modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(modes...).
		WithVolumeMode(corev1.PersistentVolumeFilesystem).
		WithResources(corev1ac.VolumeResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests.Storage}))
	if class := claim.Spec.StorageClassName; class != nil {
		spec.WithStorageClassName(*class)
	}
	if claim.Spec.VolumeName != "" {
		spec.WithVolumeName(claim.Spec.VolumeName)
	}
	if source := claim.Spec.DataSource; source != nil {
		reference := corev1ac.TypedLocalObjectReference().WithKind(source.Kind).WithName(source.Name)
		if source.APIGroup != "" {
			reference.WithAPIGroup(source.APIGroup)
		}
		spec.WithDataSource(reference)
	}
	config := &corev1ac.PersistentVolumeClaimApplyConfiguration{}
	config.WithName(queueVolume).WithSpec(spec).
		WithLabels(overlay(claim.Metadata.Labels, ProducerLabels(p.Name)))
	if len(claim.Metadata.Annotations) > 0 {
		config.WithAnnotations(claim.Metadata.Annotations)
	}
	return config
}

// ClaimIsOf tells whether the template of the claim in a live StatefulSet has
// the size, the labels and the annotations that the Producer says: all that can
// change.
func ClaimIsOf(live *appsv1.StatefulSet, p *v1alpha1.Producer) bool {
	claim := Claim(p)
	if claim == nil || len(live.Spec.VolumeClaimTemplates) != 1 {
		return false
	}
	has := live.Spec.VolumeClaimTemplates[0]
	size := has.Spec.Resources.Requests[corev1.ResourceStorage]
	return size.Cmp(claim.Spec.Resources.Requests.Storage) == 0 &&
		maps.Equal(has.Labels, overlay(claim.Metadata.Labels, ProducerLabels(p.Name))) &&
		maps.Equal(has.Annotations, claim.Metadata.Annotations)
}

// mountQueue gives the reserved container the folder of an embedded queue, and
// the pod a group that may write to it.
func mountQueue(p *v1alpha1.Producer, pod *corev1.PodSpec, main *corev1.Container) {
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: queueVolume, MountPath: podenv.QueueMountPath})
	if Claim(p) == nil {
		pod.Volumes = append(pod.Volumes, corev1.Volume{
			Name: queueVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	if pod.OS != nil && pod.OS.Name == corev1.Windows {
		return // the fields below are refused on Windows
	}
	if pod.SecurityContext == nil {
		pod.SecurityContext = &corev1.PodSecurityContext{}
	}
	if pod.SecurityContext.FSGroup == nil {
		pod.SecurityContext.FSGroup = ptr.To(queueGroup)
	}
	if pod.SecurityContext.FSGroupChangePolicy == nil {
		pod.SecurityContext.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	}
}
