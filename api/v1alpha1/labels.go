package v1alpha1

// Labels that the operator puts on what it makes.
const (
	// LabelName, LabelInstance, LabelComponent and LabelManagedBy are the
	// recommended labels of Kubernetes.
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelComponent = "app.kubernetes.io/component"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	// LabelProducer is the name of the Producer that the object belongs to.
	LabelProducer = "workpull.dev/producer"
	// LabelPool is the name of the WorkerPool that a pod or a revision
	// belongs to.
	LabelPool = "workpull.dev/pool"
	// LabelRevision is the hash of the template that a worker pod was made
	// from.
	LabelRevision = "workpull.dev/revision"
	// LabelRole marks the producer pod that serves the intake (RoleActive).
	// Where there are standbys, pods are made as RoleStandby and the operator
	// sets it by the Lease.
	LabelRole = "workpull.dev/role"
	// LabelMembership is MembershipMember on pods that are members of the
	// producer's GoAkt cluster; its discovery selects them by it.
	LabelMembership = "workpull.dev/membership"
)

// Values of the labels.
const (
	NameWorkpull      = "workpull"
	ComponentProducer = "producer"
	ComponentWorker   = "worker"
	ManagedByOperator = "workpull-operator"
	RoleActive        = "active"
	RoleStandby       = "standby"
)
