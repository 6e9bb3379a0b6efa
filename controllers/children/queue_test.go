package children

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/utils/ptr"

	"github.com/workpull/operator/api/v1alpha1"
	"github.com/workpull/operator/runtime/podenv"
)

func onVolume(change ...func(*v1alpha1.VolumeClaimTemplate)) func(*v1alpha1.Producer) {
	return func(p *v1alpha1.Producer) {
		claim := &v1alpha1.VolumeClaimTemplate{}
		claim.Spec.Resources.Requests.Storage = resource.MustParse("10Gi")
		for _, c := range change {
			c(claim)
		}
		p.Spec.Queue = v1alpha1.Queue{Embedded: &v1alpha1.EmbeddedQueue{VolumeClaimTemplate: claim}}
	}
}

func ephemeral(p *v1alpha1.Producer) {
	p.Spec.Queue = v1alpha1.Queue{Embedded: &v1alpha1.EmbeddedQueue{Ephemeral: true}}
}

func inPostgres(replicas int32) func(*v1alpha1.Producer) {
	return func(p *v1alpha1.Producer) {
		p.Spec.Replicas = &replicas
		p.Spec.Queue = v1alpha1.Queue{Postgres: &v1alpha1.PostgresQueue{URLSecretKeyRef: v1alpha1.SecretKeyRef{Name: "database", Key: "url"}}}
	}
}

func workload(t *testing.T, p *v1alpha1.Producer) Child {
	t.Helper()
	child, err := Workload(p, stock)
	require.NoError(t, err)
	return child
}

func TestEachQueueHasItsWorkload(t *testing.T) {
	for name, tt := range map[string]struct {
		change                   func(*v1alpha1.Producer)
		kind, strategy, role, as string
		replicas                 int32
	}{
		"memory":    {func(*v1alpha1.Producer) {}, "Deployment", "Recreate", "active", "memory", 1},
		"ephemeral": {ephemeral, "Deployment", "Recreate", "active", "embedded", 1},
		"volume":    {onVolume(), "StatefulSet", "RollingUpdate", "active", "embedded", 1},
		"postgres":  {inPostgres(1), "Deployment", "Recreate", "active", "postgres", 1},
		"standbys":  {inPostgres(3), "Deployment", "RollingUpdate", "standby", "postgres", 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := producer(tt.change)
			child := workload(t, p)
			require.Equal(t, tt.kind, child.Kind)
			require.Equal(t, "thumbs-producer", child.Name)
			switch config := child.Config.(type) {
			case *appsv1ac.DeploymentApplyConfiguration:
				require.Equal(t, tt.strategy, string(*config.Spec.Strategy.Type))
				require.Equal(t, tt.replicas, *config.Spec.Replicas)
			case *appsv1ac.StatefulSetApplyConfiguration:
				require.Equal(t, tt.strategy, string(*config.Spec.UpdateStrategy.Type))
				require.Equal(t, tt.replicas, *config.Spec.Replicas)
				require.Equal(t, ProducerName("thumbs"), *config.Spec.ServiceName)
			}
			template := ProducerTemplate(p, stock)
			require.Equal(t, tt.role, template.Labels[v1alpha1.LabelRole])
			require.Equal(t, tt.as, env(template.Spec.Containers[0])[podenv.Queue])
		})
	}
}

// The volume is written by a user that is not root, and the root stays
// read-only.
func TestEmbeddedQueueIsMounted(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Producer){"volume": onVolume(), "ephemeral": ephemeral} {
		t.Run(name, func(t *testing.T) {
			pod := ProducerTemplate(producer(change), stock).Spec
			main := pod.Containers[0]
			require.Contains(t, main.VolumeMounts, corev1.VolumeMount{Name: "workpull-queue", MountPath: "/var/lib/workpull"})
			require.Equal(t, "/var/lib/workpull/queue", env(main)[podenv.QueueDir])
			require.True(t, *main.SecurityContext.ReadOnlyRootFilesystem)
			require.True(t, *pod.SecurityContext.RunAsNonRoot)
			require.Equal(t, int64(65532), *pod.SecurityContext.FSGroup)
			require.Equal(t, corev1.FSGroupChangeOnRootMismatch, *pod.SecurityContext.FSGroupChangePolicy)
			volumes := map[string]bool{}
			for _, v := range pod.Volumes {
				volumes[v.Name] = v.EmptyDir != nil
			}
			require.Equal(t, name == "ephemeral", volumes["workpull-queue"], "a claim's volume comes from the StatefulSet")
		})
	}
	p := producer(onVolume(), func(p *v1alpha1.Producer) {
		p.Spec.Template = &corev1.PodTemplateSpec{}
		p.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](7)}
	})
	require.Equal(t, int64(7), *ProducerTemplate(p, stock).Spec.SecurityContext.FSGroup, "the user's group stays")
}

func TestClaim(t *testing.T) {
	set := func(change ...func(*v1alpha1.Producer)) *appsv1ac.StatefulSetSpecApplyConfiguration {
		return workload(t, producer(change...)).Config.(*appsv1ac.StatefulSetApplyConfiguration).Spec
	}
	plain := set(onVolume())
	claim := plain.VolumeClaimTemplates[0]
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, claim.Spec.AccessModes)
	require.Nil(t, claim.Spec.StorageClassName, "the cluster's default class")
	size := (*claim.Spec.Resources.Requests)[corev1.ResourceStorage]
	require.Equal(t, "10Gi", size.String())
	require.Equal(t, "workpull-operator", claim.Labels[v1alpha1.LabelManagedBy])
	require.Equal(t, "Retain", string(*plain.PersistentVolumeClaimRetentionPolicy.WhenDeleted), "by default nothing is deleted")
	require.Equal(t, "workpull-queue-thumbs-producer-0", ClaimName("thumbs"))
	require.Equal(t, ClaimName("thumbs"), *claim.Name+"-"+ProducerName("thumbs")+"-0")

	own := set(onVolume(func(c *v1alpha1.VolumeClaimTemplate) {
		c.Metadata.Labels = map[string]string{"team": "media", v1alpha1.LabelManagedBy: "me"}
		c.Metadata.Annotations = map[string]string{"note": "one"}
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.StorageClassName = ptr.To("")
		c.Spec.VolumeName = "disk"
		c.Spec.DataSource = &v1alpha1.ClaimSource{APIGroup: "snapshot.storage.k8s.io", Kind: "VolumeSnapshot", Name: "s"}
	}), func(p *v1alpha1.Producer) {
		p.Spec.Queue.Embedded.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetentionPolicy{WhenDeleted: "Delete"}
	})
	claim = own.VolumeClaimTemplates[0]
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, claim.Spec.AccessModes)
	require.Empty(t, *claim.Spec.StorageClassName)
	require.Equal(t, "disk", *claim.Spec.VolumeName)
	require.Equal(t, "VolumeSnapshot", *claim.Spec.DataSource.Kind)
	require.Equal(t, "media", claim.Labels["team"])
	require.Equal(t, "workpull-operator", claim.Labels[v1alpha1.LabelManagedBy])
	require.Equal(t, "one", claim.Annotations["note"])
	require.Equal(t, "Delete", string(*own.PersistentVolumeClaimRetentionPolicy.WhenDeleted))
}

// The URL is in the Secret and nowhere else.
func TestDatabaseURLComesFromTheSecret(t *testing.T) {
	main := ProducerTemplate(producer(inPostgres(1)), stock).Spec.Containers[0]
	require.Equal(t, "secret database/url", env(main)[podenv.QueueURL])
	require.NotContains(t, env(main), podenv.Lease, "one pod needs no election")
	require.NotContains(t, env(main), podenv.QueueDir)
}

func TestStandbys(t *testing.T) {
	p := producer(inPostgres(2))
	template := ProducerTemplate(p, stock)
	require.Equal(t, "thumbs-producer", env(template.Spec.Containers[0])[podenv.Lease])
	keys := []string{}
	for _, c := range template.Spec.TopologySpreadConstraints {
		require.Equal(t, corev1.ScheduleAnyway, c.WhenUnsatisfiable)
		keys = append(keys, c.TopologyKey)
	}
	require.Equal(t, []string{corev1.LabelHostname, corev1.LabelTopologyZone}, keys)

	kinds := []string{}
	for _, c := range StandbyObjects(p) {
		kinds = append(kinds, c.Kind+" "+c.Name)
	}
	require.Equal(t, []string{"Lease thumbs-producer", "PodDisruptionBudget thumbs-producer"}, kinds)
	require.Empty(t, StandbyObjects(producer(inPostgres(1))))

	// Least privilege: the one Lease, and no right to create another.
	rules := func(p *v1alpha1.Producer) string {
		for _, c := range ProducerAccount(p) {
			if role, ok := c.Config.(*rbacv1ac.RoleApplyConfiguration); ok {
				text, err := json.Marshal(role.Rules)
				require.NoError(t, err)
				return string(text)
			}
		}
		return ""
	}
	const pods = `{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["pods"]}`
	require.JSONEq(t, "["+pods+"]", rules(producer(inPostgres(1))))
	require.JSONEq(t, "["+pods+`,{"verbs":["get","update"],"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["thumbs-producer"]}]`, rules(p))

	placed := producer(inPostgres(2), func(p *v1alpha1.Producer) {
		p.Spec.Template = &corev1.PodTemplateSpec{}
		p.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
	})
	require.Empty(t, ProducerTemplate(placed, stock).Spec.TopologySpreadConstraints, "the user says where pods go")
}
