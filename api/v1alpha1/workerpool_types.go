package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkerPoolSpec says which workers there should be.
type WorkerPoolSpec struct {
	// ProducerRef names the Producer, in the same namespace, whose jobs the
	// workers do.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="producerRef is immutable; create another WorkerPool for the other Producer"
	ProducerRef ProducerReference `json:"producerRef"`

	// Replicas is the number of worker pods. The user, kubectl scale or an
	// autoscaler that uses /scale owns it.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000",message="replicas must be between 0 and 1000"
	Replicas *int32 `json:"replicas,omitempty"`

	// Worker is how each pod takes part.
	// +optional
	// +kubebuilder:default={}
	Worker Worker `json:"worker,omitzero"`

	// Drain is how a worker that has to go finishes its work.
	// +optional
	// +kubebuilder:default={}
	Drain Drain `json:"drain,omitzero"`

	// RevisionHistoryLimit is the number of older templates that are kept.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:XValidation:rule="self >= 0 && self <= 1000",message="revisionHistoryLimit must be between 0 and 1000"
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// StartupDeadlineSeconds is how long a scheduled pod may take until it is
	// ready for the first time. After that it is replaced.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 86400",message="startupDeadlineSeconds must be between 1 and 86400 seconds"
	StartupDeadlineSeconds *int32 `json:"startupDeadlineSeconds,omitempty"`

	// Template is the worker's pod. The container named "worker" is the
	// reserved one: the operator adds its environment, ports and probes.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.spec.containers.exists(c, c.name == 'worker')",message="template.spec.containers must have a container named \"worker\""
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.terminationGracePeriodSeconds)",message="template.spec.terminationGracePeriodSeconds must not be set; set drain.timeout, the grace period is drain.timeout plus 5s"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Always'",message="template.spec.restartPolicy must be absent or Always, because a worker that ends is started again"
	Template corev1.PodTemplateSpec `json:"template"`
}

// ProducerReference names a Producer in the same namespace.
type ProducerReference struct {
	// Name is the name of the Producer.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() >= 1 && self.size() <= 40",message="producerRef.name must be the name of a Producer, 1 to 40 characters"
	Name string `json:"name"`
}

// Membership says how worker pods join their producer.
//
// +kubebuilder:validation:Enum=Attached;Member
type Membership string

const (
	// MembershipAttached workers know the producer by its address and hold no
	// part of the cluster's registry: any number may come or die at once.
	MembershipAttached Membership = "Attached"
	// MembershipMember workers are full members of the producer's GoAkt
	// cluster. Their actors can be addressed by name. Meant for pools of up
	// to some tens.
	MembershipMember Membership = "Member"
)

// Worker is how each pod takes part. Concurrency and flowControlWindow are not
// part of the template: a change restarts nothing and applies to pods made
// after it. A change of membership replaces the pods.
type Worker struct {
	// Concurrency is the number of jobs that a pod works on at once.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 100",message="concurrency must be between 1 and 100 jobs per pod"
	Concurrency int32 `json:"concurrency,omitempty"`

	// FlowControlWindow is the number of jobs that may be under way to one
	// slot of a worker, including the one it works on.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 10000",message="flowControlWindow must be between 1 and 10000 jobs"
	FlowControlWindow int32 `json:"flowControlWindow,omitempty"`

	// Membership is Attached (the default) or Member.
	// +optional
	// +kubebuilder:default=Attached
	Membership Membership `json:"membership,omitempty"`
}

// Drain is how a worker that has to go finishes its work.
type Drain struct {
	// Timeout is how long a worker may finish what it is running. The pod's
	// grace period is this plus 5 seconds. It applies to pods made after a
	// change.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$') && duration(self) <= duration('24h')",message="drain.timeout must be a duration between 0s and 24h, such as 30s or 10m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// WorkerPoolStatus is what the operator saw last.
type WorkerPoolStatus struct {
	// ObservedGeneration is the generation of the spec that this status is
	// about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Selector selects the pool's pods. The scale subresource shows it to
	// autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Replicas is the number of pods that are neither finished nor
	// terminating, and never more than are desired, so that a rollout does not
	// mislead an autoscaler.
	// +optional
	Replicas int32 `json:"replicas"`

	// DesiredReplicas is the number of pods that the operator works towards.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`

	// StartingReplicas have not been ready yet since they last started.
	// +optional
	StartingReplicas int32 `json:"startingReplicas"`

	// ReadyReplicas are ready: registered with the producer.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// TerminatingReplicas are being deleted. They are no capacity.
	// +optional
	TerminatingReplicas int32 `json:"terminatingReplicas"`

	// UpdatedReplicas were made from the current template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// FailedReplicas failed, crash again and again, missed their start-up
	// deadline, or are on a lost node.
	// +optional
	FailedReplicas int32 `json:"failedReplicas"`

	// Conditions are Available, Progressing, ReplicaFailure and Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkerPool is a set of uniform worker pods that do the jobs of one Producer.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=wp,categories=workpull
// +kubebuilder:printcolumn:name="Producer",type=string,JSONPath=`.spec.producerRef.name`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredReplicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Starting",type=integer,JSONPath=`.status.startingReplicas`,priority=1
// +kubebuilder:printcolumn:name="Terminating",type=integer,JSONPath=`.status.terminatingReplicas`,priority=1
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failedReplicas`,priority=1
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 50 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be at most 50 lower-case letters, digits or dashes, because pods get their names from it"
type WorkerPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	// +required
	Spec WorkerPoolSpec `json:"spec"`

	// Status is what the operator saw last.
	// +optional
	Status WorkerPoolStatus `json:"status,omitzero"`
}

// WorkerPoolList is a list of WorkerPools.
//
// +kubebuilder:object:root=true
type WorkerPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkerPool `json:"items"`
}
