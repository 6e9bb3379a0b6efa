package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProducerSpec says how jobs are taken in and handed out.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas <= 1 || has(self.queue.postgres)",message="replicas above 1 need queue.postgres: a standby has to reach what the active producer has stored"
type ProducerSpec struct {
	// Replicas is the number of producer pods. One is active; the others are
	// standbys that take over, and more than one needs queue.postgres.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 10",message="replicas must be between 1 and 10"
	Replicas *int32 `json:"replicas,omitempty"`

	// Queue is where accepted jobs wait. Exactly one kind has to be set, and
	// the kind cannot be changed later.
	// +required
	Queue Queue `json:"queue"`

	// Intake is where jobs are submitted.
	// +optional
	// +kubebuilder:default={}
	Intake Intake `json:"intake,omitzero"`

	// Delivery is how jobs are handed to workers.
	// +optional
	// +kubebuilder:default={}
	Delivery Delivery `json:"delivery,omitzero"`

	// Template is the producer's pod. When it is absent, or its container
	// named "producer" has no image, the operator's stock intake image runs.
	// The container named "producer" is the reserved one: the operator adds
	// its environment, ports and probes.
	// +optional
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`
}

// Intake is the HTTP interface that takes jobs.
type Intake struct {
	// MaxPending is the number of accepted jobs that may wait before the
	// intake answers 429.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1000000",message="maxPending must be between 1 and 1000000 jobs"
	MaxPending int32 `json:"maxPending,omitempty"`

	// MaxJobBytes is the size of the largest job in bytes. Larger ones are
	// answered with 413. A frame between pods holds 16 MiB, hence the bound.
	// +optional
	// +kubebuilder:default=1048576
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 15728640",message="maxJobBytes must be between 1 and 15728640 bytes (15 MiB)"
	MaxJobBytes int32 `json:"maxJobBytes,omitempty"`

	// Service is the Service in front of the intake. It has the Producer's
	// name.
	// +optional
	// +kubebuilder:default={}
	Service IntakeService `json:"service,omitzero"`
}

// IntakeService is the Service in front of the intake.
type IntakeService struct {
	// Type is the type of the Service.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Port is the port of the Service.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 65535",message="port must be between 1 and 65535"
	Port int32 `json:"port,omitempty"`
}

// ProducerStatus is what the operator saw last.
type ProducerStatus struct {
	// ObservedGeneration is the generation of the spec that this status is
	// about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Available, Progressing and Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Endpoint is the URL of the intake inside the cluster.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// ActivePod is the name of the pod that serves the intake.
	// +optional
	ActivePod string `json:"activePod,omitempty"`
}

// Producer takes jobs in and hands each to one worker at a time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=wpp,categories=workpull
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Active Pod",type=string,JSONPath=`.status.activePod`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 40 lower-case letters, digits or dashes and begin with a letter, because Services get their names from it"
type Producer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +required
	Spec ProducerSpec `json:"spec"`

	// Status is what the operator saw last.
	// +optional
	Status ProducerStatus `json:"status,omitzero"`
}

// ProducerList is a list of Producers.
//
// +kubebuilder:object:root=true
type ProducerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Producer `json:"items"`
}
