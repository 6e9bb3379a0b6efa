package v1alpha1

import (
	"fmt"
	"regexp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ProducerContainer and WorkerContainer are the reserved containers of the
// templates.
const (
	ProducerContainer = "producer"
	WorkerContainer   = "worker"
)

// Defaults of fields that an object may lack when it was stored before the
// field existed. Absent is never zero (S26). They equal the schema's defaults.
const (
	DefaultReplicas               int32 = 1
	DefaultMaxPending             int32 = 10_000
	DefaultMaxJobBytes            int32 = 1 << 20
	DefaultServicePort            int32 = 80
	DefaultRetryInterval                = 500 * time.Millisecond
	DefaultProducerReplicas       int32 = 1
	DefaultMaxAttempts            int32 = 10
	DefaultBackoffInitial               = time.Second
	DefaultBackoffMax                   = time.Minute
	DefaultDeduplicationWindow          = 5 * time.Minute
	DefaultQueueAttempts          int32 = 3
	DefaultQueueBackoff                 = 100 * time.Millisecond
	DefaultConcurrency            int32 = 1
	DefaultFlowControlWindow      int32 = 50
	DefaultDrainTimeout                 = 30 * time.Second
	DefaultRevisionHistoryLimit   int32 = 10
	DefaultStartupDeadlineSeconds int32 = 600
)

var (
	producerName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	poolName     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// SetDefaults fills what is absent, in memory only.
func (p *Producer) SetDefaults() {
	spec := &p.Spec
	fillPointer(&spec.Replicas, DefaultProducerReplicas)
	fill(&spec.Intake.MaxPending, DefaultMaxPending)
	fill(&spec.Intake.MaxJobBytes, DefaultMaxJobBytes)
	fill(&spec.Intake.Service.Type, corev1.ServiceTypeClusterIP)
	fill(&spec.Intake.Service.Port, DefaultServicePort)
	delivery := &spec.Delivery
	fill(&delivery.MaxAttempts, DefaultMaxAttempts)
	fill(&delivery.Backoff.Initial.Duration, DefaultBackoffInitial)
	fill(&delivery.Backoff.Max.Duration, DefaultBackoffMax)
	fillPointer(&delivery.DeduplicationWindow, metav1.Duration{Duration: DefaultDeduplicationWindow})
	fill(&delivery.RetryInterval.Duration, DefaultRetryInterval)
	fill(&delivery.QueueRetry.Attempts, DefaultQueueAttempts)
	fill(&delivery.QueueRetry.Backoff.Duration, DefaultQueueBackoff)
	if embedded := spec.Queue.Embedded; embedded != nil && embedded.PersistentVolumeClaimRetentionPolicy != nil {
		fill(&embedded.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	}
}

// SetDefaults fills what is absent, in memory only.
func (w *WorkerPool) SetDefaults() {
	spec := &w.Spec
	fillPointer(&spec.Replicas, DefaultReplicas)
	fillPointer(&spec.RevisionHistoryLimit, DefaultRevisionHistoryLimit)
	fillPointer(&spec.StartupDeadlineSeconds, DefaultStartupDeadlineSeconds)
	fill(&spec.Worker.Concurrency, DefaultConcurrency)
	fill(&spec.Worker.FlowControlWindow, DefaultFlowControlWindow)
	fill(&spec.Worker.Membership, MembershipAttached)
	if spec.Drain.Timeout == nil {
		spec.Drain.Timeout = &metav1.Duration{Duration: DefaultDrainTimeout}
	}
}

func fill[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

func fillPointer[T any](v **T, value T) {
	if *v == nil {
		*v = &value
	}
}

// Validate repeats the rules of the CRD, for objects that were stored before a
// rule existed. It expects defaults to be set. The errors name the field and
// what it wants.
func (w *WorkerPool) Validate() field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if len(w.Name) > 50 || !poolName.MatchString(w.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), w.Name,
			"must be at most 50 lower-case letters, digits or dashes"))
	}
	if name := w.Spec.ProducerRef.Name; name == "" || len(name) > 40 {
		errs = append(errs, field.Invalid(spec.Child("producerRef", "name"), name,
			"must be the name of a Producer, 1 to 40 characters"))
	}
	errs = append(errs, between(spec.Child("replicas"), *w.Spec.Replicas, 0, 1000)...)
	errs = append(errs, between(spec.Child("revisionHistoryLimit"), *w.Spec.RevisionHistoryLimit, 0, 1000)...)
	errs = append(errs, between(spec.Child("startupDeadlineSeconds"), *w.Spec.StartupDeadlineSeconds, 1, 86_400)...)
	errs = append(errs, between(spec.Child("worker", "concurrency"), w.Spec.Worker.Concurrency, 1, 100)...)
	errs = append(errs, between(spec.Child("worker", "flowControlWindow"), w.Spec.Worker.FlowControlWindow, 1, 10_000)...)
	if m := w.Spec.Worker.Membership; m != MembershipAttached && m != MembershipMember {
		errs = append(errs, field.NotSupported(spec.Child("worker", "membership"), m,
			[]Membership{MembershipAttached, MembershipMember}))
	}
	if d := w.Spec.Drain.Timeout.Duration; d < 0 || d > 24*time.Hour {
		errs = append(errs, field.Invalid(spec.Child("drain", "timeout"), d.String(), "must be between 0s and 24h"))
	}
	return append(errs, validateWorkerTemplate(spec.Child("template", "spec"), w.Spec.Template.Spec)...)
}

func validateWorkerTemplate(path *field.Path, pod corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	found := false
	for _, c := range pod.Containers {
		found = found || c.Name == WorkerContainer
	}
	if !found {
		errs = append(errs, field.Required(path.Child("containers"), `must have a container named "worker"`))
	}
	if pod.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("terminationGracePeriodSeconds"),
			"set drain.timeout, the grace period is drain.timeout plus 5s"))
	}
	if p := pod.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.Invalid(path.Child("restartPolicy"), p, "must be absent or Always"))
	}
	return errs
}

func between(path *field.Path, value, low, high int32) field.ErrorList {
	if value >= low && value <= high {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be between %d and %d", low, high))}
}
