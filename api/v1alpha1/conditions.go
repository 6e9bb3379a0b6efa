package v1alpha1

// Condition types of both kinds. Available, Progressing and Degraded are on
// each; ReplicaFailure is on WorkerPools only.
const (
	// ConditionAvailable is True when the object does its work: a Producer
	// takes jobs, a WorkerPool has every worker that it should have.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while the operator, or the cluster on its
	// behalf, is changing something.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True when somebody has to act: the cause will not
	// go away by itself.
	ConditionDegraded = "Degraded"
	// ConditionReplicaFailure is True when pods of a WorkerPool cannot be made
	// or do not stay alive.
	ConditionReplicaFailure = "ReplicaFailure"
)

// Reasons of Available.
const (
	// ReasonReady: the producer's pod is ready, or every desired worker is.
	ReasonReady = "Ready"
	// ReasonScaledToZero: the pool wants no worker and has none.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonPodNotReady: the producer has no ready pod. Its log and its
	// readiness say why, for instance that its queue cannot be reached.
	ReasonPodNotReady = "PodNotReady"
	// ReasonWorkersNotReady: fewer workers are ready than are desired.
	ReasonWorkersNotReady = "WorkersNotReady"
)

// Reasons of Progressing.
const (
	// ReasonStable: nothing is changing.
	ReasonStable = "Stable"
	// ReasonDeploying: the producer's Deployment is rolling out.
	ReasonDeploying = "Deploying"
	// ReasonScaling: workers are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonRollingOut: workers of an older template are being replaced.
	ReasonRollingOut = "RollingOut"
)

// Reasons of Degraded, and of any condition that follows from it.
const (
	// ReasonAsExpected: nobody has to act.
	ReasonAsExpected = "AsExpected"
	// ReasonInvalidSpec: the stored object breaks a rule of this API; nothing
	// is changed until it is corrected.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonNameConflict: an object that belongs to somebody else has the name
	// of one that the operator has to make. It is never taken over.
	ReasonNameConflict = "NameConflict"
	// ReasonProducerNotFound: the pool's Producer does not exist or is being
	// deleted. Existing workers are kept, none is made.
	ReasonProducerNotFound = "ProducerNotFound"
	// ReasonChildFailed: the API server refuses an object that the operator
	// has to make.
	ReasonChildFailed = "ChildFailed"
	// ReasonQueueSecretNotFound: the Secret that spec.queue.postgres names does
	// not exist or lacks the key. The pod starts when it is there.
	ReasonQueueSecretNotFound = "QueueSecretNotFound"
	// ReasonContainerConfigError: a container of the producer's pod refers to
	// something else that does not exist.
	ReasonContainerConfigError = "ContainerConfigError"
)

// Reasons of ReplicaFailure.
const (
	// ReasonNoFailure: no pod fails and none is refused.
	ReasonNoFailure = "NoFailure"
	// ReasonQuotaExceeded: a ResourceQuota refuses a pod. What runs is kept,
	// and the create is tried again with a capped backoff.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonPodForbidden: an admission rule other than a quota refuses a pod.
	ReasonPodForbidden = "PodForbidden"
	// ReasonInvalidTemplate: the API server refuses the pod as invalid.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonCreateFailed: a pod could not be made for another cause.
	ReasonCreateFailed = "CreateFailed"
	// ReasonCrashLoopBackOff: a worker's container crashes again and again.
	// Its pod is replaced with a capped backoff.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonPodFailed: a pod ended although it should not, for instance by
	// eviction, and waits for its replacement.
	ReasonPodFailed = "PodFailed"
	// ReasonImagePullFailed: an image of a worker's pod cannot be pulled.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonUnschedulable: no node can take a worker's pod.
	ReasonUnschedulable = "Unschedulable"
	// ReasonStartupDeadlineExceeded: a pod was not ready within
	// spec.startupDeadlineSeconds. It is replaced with a capped backoff.
	ReasonStartupDeadlineExceeded = "StartupDeadlineExceeded"
	// ReasonNodeLost: a worker's node does not report. The worker was replaced
	// on another node. Of a Producer: the node of its pod does not report, and
	// with an embedded queue on a volume somebody has to say that it is gone.
	ReasonNodeLost = "NodeLost"
)

// Reasons of events. An event is recorded only after the status that it
// belongs to was written.
const (
	// EventWorkerCreated: pods were made.
	EventWorkerCreated = "WorkersCreated"
	// EventWorkerDeleted: pods were deleted; the message says why.
	EventWorkerDeleted = "WorkersDeleted"
	// EventActivated: another pod of a Producer is the active one.
	EventActivated = "Activated"
	// EventVolumeEnlarged: the claim of an embedded queue was enlarged.
	EventVolumeEnlarged = "VolumeEnlarged"
	// EventChildApplied: an object that belongs to a Producer or a WorkerPool
	// was made or changed.
	EventChildApplied = "ChildApplied"
)
