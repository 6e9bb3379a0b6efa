// Package podenv is the contract between the operator, which writes pod
// templates, and the programs that run in those pods: the names of the
// environment variables, the ports and the well-known paths. It imports
// nothing, so that both sides may import it.
package podenv

// Environment variables that the operator sets on the reserved container of a
// producer pod ("producer") and of a worker pod ("worker").
const (
	// System is the name of the GoAkt actor system, one per producer.
	System = "WORKPULL_SYSTEM"
	// Producer is the name of the Producer object, which is also the name of
	// the producer endpoint in its actor system.
	Producer = "WORKPULL_PRODUCER"
	// Pool is the name of the WorkerPool; unset in producer pods.
	Pool = "WORKPULL_POOL"

	// PodName, PodNamespace, PodUID, PodIP and NodeName come from the
	// downward API.
	PodName      = "WORKPULL_POD_NAME"
	PodNamespace = "WORKPULL_POD_NAMESPACE"
	PodUID       = "WORKPULL_POD_UID"
	PodIP        = "WORKPULL_POD_IP"
	NodeName     = "WORKPULL_NODE_NAME"

	// Membership is MembershipAttached or MembershipMember.
	Membership = "WORKPULL_MEMBERSHIP"
	// ProducerHost is the DNS name that resolves to the addresses of the
	// producer's pods (a headless Service). Set in worker pods.
	ProducerHost = "WORKPULL_PRODUCER_HOST"

	// RemotingPort, GossipPort and PeersPort are GoAkt's ports; LinkPort is
	// where the producer listens for the connection that every worker holds
	// open; IntakePort serves jobs; HealthPort serves probes and metrics.
	RemotingPort = "WORKPULL_REMOTING_PORT"
	GossipPort   = "WORKPULL_GOSSIP_PORT"
	PeersPort    = "WORKPULL_PEERS_PORT"
	LinkPort     = "WORKPULL_LINK_PORT"
	IntakePort   = "WORKPULL_INTAKE_PORT"
	HealthPort   = "WORKPULL_HEALTH_PORT"

	// Concurrency is the number of worker endpoints in a pod, each with one
	// job in flight.
	Concurrency = "WORKPULL_CONCURRENCY"
	// FlowControlWindow is the demand that an endpoint grants, 1 to 10,000.
	FlowControlWindow = "WORKPULL_FLOW_CONTROL_WINDOW"
	// DrainTimeout is how long a worker may finish what runs after SIGTERM,
	// as a Go duration.
	DrainTimeout = "WORKPULL_DRAIN_TIMEOUT"

	// MaxPending is the number of accepted jobs that may wait before the
	// intake answers 429.
	MaxPending = "WORKPULL_MAX_PENDING"
	// MaxJobBytes is the size of the largest job body in bytes.
	MaxJobBytes = "WORKPULL_MAX_JOB_BYTES"
	// RetryInterval is the producer controller's tick, as a Go duration.
	RetryInterval = "WORKPULL_RETRY_INTERVAL"
	// Queue is the kind of queue behind the intake: QueueMemory, QueueEmbedded
	// or QueuePostgres.
	Queue = "WORKPULL_QUEUE"
	// QueueDir is the folder of an embedded queue.
	QueueDir = "WORKPULL_QUEUE_DIR"
	// QueueURL is the URL of a PostgreSQL database. It holds a password.
	QueueURL = "WORKPULL_QUEUE_URL"
	// QueueAttempts is how often an operation of the queue is tried, and
	// QueueBackoff the pause between, as a Go duration.
	QueueAttempts = "WORKPULL_QUEUE_ATTEMPTS"
	QueueBackoff  = "WORKPULL_QUEUE_BACKOFF"
	// MaxAttempts is how often a job is tried before it is a dead letter.
	MaxAttempts = "WORKPULL_MAX_ATTEMPTS"
	// Backoff is the first pause before a job is tried again, and BackoffMax
	// the longest, as Go durations.
	Backoff    = "WORKPULL_BACKOFF"
	BackoffMax = "WORKPULL_BACKOFF_MAX"
	// DeduplicationWindow is how long a job that is done is still known, as a
	// Go duration.
	DeduplicationWindow = "WORKPULL_DEDUPLICATION_WINDOW"
	// Lease is the name of the Lease by which the active producer is elected,
	// in the pod's namespace; unset where there is no standby.
	Lease = "WORKPULL_LEASE"
)

// Values of Membership.
const (
	MembershipAttached = "Attached"
	MembershipMember   = "Member"
)

// Kinds of queues.
const (
	// QueueMemory keeps accepted jobs in the producer's memory only.
	QueueMemory = "memory"
	// QueueEmbedded keeps them in a database in QueueDir.
	QueueEmbedded = "embedded"
	// QueuePostgres keeps them in the database at QueueURL.
	QueuePostgres = "postgres"
)

// DefaultQueueDir is where the volume of an embedded queue is mounted; the
// queue has a folder in it, since the root of a volume may hold lost+found.
const (
	QueueMountPath  = "/var/lib/workpull"
	DefaultQueueDir = QueueMountPath + "/queue"
)

// Identity of a producer pod in its Lease.
func Identity(podName, podUID string) string { return podName + "_" + podUID }

// Default ports, and the names under which the container lists them.
const (
	DefaultRemotingPort = 9000
	DefaultGossipPort   = 9001
	DefaultPeersPort    = 9002
	DefaultLinkPort     = 9003
	DefaultIntakePort   = 8080
	DefaultHealthPort   = 8081

	RemotingPortName = "remoting"
	GossipPortName   = "gossip"
	PeersPortName    = "peers"
	LinkPortName     = "link"
	IntakePortName   = "intake"
	HealthPortName   = "health"
)

// Paths on the health port.
const (
	LivenessPath  = "/healthz"
	ReadinessPath = "/readyz"
	MetricsPath   = "/metrics"
)

// Names of the reserved containers.
const (
	ProducerContainer = "producer"
	WorkerContainer   = "worker"
)
