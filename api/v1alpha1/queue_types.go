package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Queue is a union: exactly one member is set.
//
// +kubebuilder:validation:XValidation:rule="(has(self.memory) ? 1 : 0) + (has(self.embedded) ? 1 : 0) + (has(self.postgres) ? 1 : 0) == 1",message="set exactly one kind of queue, for instance queue: {memory: {}}; the kinds are memory, embedded and postgres"
// +kubebuilder:validation:XValidation:rule="has(self.memory) == has(oldSelf.memory) && has(self.embedded) == has(oldSelf.embedded) && has(self.postgres) == has(oldSelf.postgres)",message="the kind of queue is immutable; delete the Producer and create it with the other queue"
type Queue struct {
	// Memory keeps accepted jobs in the producer's memory only: a restart of
	// the producer loses those that no worker has confirmed.
	// +optional
	Memory *MemoryQueue `json:"memory,omitempty"`

	// Embedded keeps accepted jobs in a database within the producer's
	// process, on a volume of its own.
	// +optional
	Embedded *EmbeddedQueue `json:"embedded,omitempty"`

	// Postgres keeps accepted jobs in a PostgreSQL database, which standbys
	// can take over.
	// +optional
	Postgres *PostgresQueue `json:"postgres,omitempty"`
}

// MemoryQueue has no settings.
type MemoryQueue struct{}

// EmbeddedQueue says where the producer's database lies: on a volume that
// outlives the pod, or in one that ends with it.
//
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate) != (has(self.ephemeral) && self.ephemeral)",message="set either volumeClaimTemplate or ephemeral: true"
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate) == has(oldSelf.volumeClaimTemplate)",message="volumeClaimTemplate and ephemeral cannot replace each other; delete the Producer and create it with the other volume"
// +kubebuilder:validation:XValidation:rule="!has(self.persistentVolumeClaimRetentionPolicy) || has(self.volumeClaimTemplate)",message="persistentVolumeClaimRetentionPolicy needs volumeClaimTemplate"
type EmbeddedQueue struct {
	// VolumeClaimTemplate is the claim of the volume that holds the jobs.
	// Where it names no accessModes it asks for ReadWriteOncePod. Its storage
	// request may grow; nothing else of it can be changed.
	// +optional
	VolumeClaimTemplate *VolumeClaimTemplate `json:"volumeClaimTemplate,omitempty"`

	// PersistentVolumeClaimRetentionPolicy says what becomes of the claim. By
	// default it is kept, and a Producer that is made again under the same name
	// goes on with the jobs in it.
	// +optional
	PersistentVolumeClaimRetentionPolicy *ClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// Ephemeral keeps the jobs in an emptyDir: they survive the end of the
	// producer's process, not that of its pod.
	// +optional
	Ephemeral bool `json:"ephemeral,omitempty"`
}

// VolumeClaimTemplate is a PersistentVolumeClaim to be made.
type VolumeClaimTemplate struct {
	// Metadata are labels and annotations of the claim. A change holds for a
	// claim that is made after it.
	// +optional
	Metadata ClaimMetadata `json:"metadata,omitzero"`

	// Spec is that of the claim, with those fields of a PersistentVolumeClaim
	// that make sense here.
	// +required
	Spec ClaimSpec `json:"spec"`
}

// ClaimMetadata is what a claim may carry beside the operator's own labels.
type ClaimMetadata struct {
	// Labels of the claim.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the claim.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ClaimSpec is a part of a PersistentVolumeClaim's, with bounds and without
// what has only one sensible value.
//
// +kubebuilder:validation:XValidation:rule="has(self.accessModes) == has(oldSelf.accessModes) && (!has(self.accessModes) || self.accessModes == oldSelf.accessModes) && has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName) && has(self.volumeName) == has(oldSelf.volumeName) && (!has(self.volumeName) || self.volumeName == oldSelf.volumeName) && has(self.dataSource) == has(oldSelf.dataSource) && (!has(self.dataSource) || self.dataSource == oldSelf.dataSource)",message="volumeClaimTemplate.spec is immutable but for resources.requests.storage, which can grow"
type ClaimSpec struct {
	// AccessModes of the volume; ReadWriteOncePod when absent. A class that
	// does not know that one needs ReadWriteOnce.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=ReadWriteOncePod;ReadWriteOnce;ReadWriteMany
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// StorageClassName is the class of the volume; the cluster's default class
	// when absent, and none when empty.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName *string `json:"storageClassName,omitempty"`

	// VolumeName binds the claim to one PersistentVolume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	VolumeName string `json:"volumeName,omitempty"`

	// DataSource fills the new volume, for instance from a snapshot.
	// +optional
	DataSource *ClaimSource `json:"dataSource,omitempty"`

	// Resources is the size.
	// +required
	Resources ClaimResources `json:"resources"`
}

// ClaimSource is an object that a volume is filled from.
type ClaimSource struct {
	// APIGroup of the object; empty for a PersistentVolumeClaim.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`

	// Kind of the object, such as VolumeSnapshot.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// Name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ClaimResources is the size of a volume.
type ClaimResources struct {
	// Requests is what the volume has to have at least.
	// +required
	Requests ClaimRequests `json:"requests"`
}

// ClaimRequests is what a volume has to have at least.
type ClaimRequests struct {
	// Storage is the size of the volume, such as 10Gi. It can grow, where the
	// storage class allows that.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="resources.requests.storage must be at least 1Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="resources.requests.storage can grow and not shrink"
	Storage resource.Quantity `json:"storage"`
}

// ClaimRetentionPolicy says what becomes of the claim.
type ClaimRetentionPolicy struct {
	// WhenDeleted is what becomes of it when the Producer is deleted: Retain
	// or Delete.
	// +optional
	// +kubebuilder:default=Retain
	// +kubebuilder:validation:Enum=Retain;Delete
	WhenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenDeleted,omitempty"`
}

// PostgresQueue names the database.
type PostgresQueue struct {
	// URLSecretKeyRef is the key of a Secret in the same namespace that holds
	// the database's URL (postgres://user:password@host:port/database).
	// +required
	URLSecretKeyRef SecretKeyRef `json:"urlSecretKeyRef"`
}

// SecretKeyRef is a key of a Secret in the same namespace.
type SecretKeyRef struct {
	// Name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() >= 1",message="urlSecretKeyRef.name must be the name of a Secret"
	Name string `json:"name"`

	// Key within the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="urlSecretKeyRef.key must be the name of a key: letters, digits, -, _ and ."
	Key string `json:"key"`
}
