package v1alpha1

import (
	"fmt"
	"regexp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// leastStorage is the smallest volume that makes sense.
var leastStorage = resource.MustParse("1Mi")

// secretKey is what a key within a Secret may be.
var secretKey = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// Validate repeats the rules of the CRD, for objects that were stored before a
// rule existed. It expects defaults to be set. The errors name the field and
// what it wants.
func (p *Producer) Validate() field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if len(p.Name) > 40 || !producerName.MatchString(p.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), p.Name,
			"must be at most 40 lower-case letters, digits or dashes and begin with a letter"))
	}
	replicas := *p.Spec.Replicas
	errs = append(errs, between(spec.Child("replicas"), replicas, 1, 10)...)
	if replicas > 1 && p.Spec.Queue.Postgres == nil {
		errs = append(errs, field.Invalid(spec.Child("replicas"), replicas,
			"above 1 need queue.postgres: a standby has to reach what the active producer has stored"))
	}
	errs = append(errs, p.Spec.Queue.validate(spec.Child("queue"))...)
	intake := spec.Child("intake")
	errs = append(errs, between(intake.Child("maxPending"), p.Spec.Intake.MaxPending, 1, 1_000_000)...)
	errs = append(errs, between(intake.Child("maxJobBytes"), p.Spec.Intake.MaxJobBytes, 1, 15<<20)...)
	errs = append(errs, between(intake.Child("service", "port"), p.Spec.Intake.Service.Port, 1, 65_535)...)
	return append(errs, p.Spec.Delivery.validate(spec.Child("delivery"))...)
}

func (q *Queue) validate(path *field.Path) field.ErrorList {
	kinds := 0
	for _, set := range []bool{q.Memory != nil, q.Embedded != nil, q.Postgres != nil} {
		if set {
			kinds++
		}
	}
	const one = "set exactly one kind of queue, for instance queue: {memory: {}}; the kinds are memory, embedded and postgres"
	switch {
	case kinds == 0:
		return field.ErrorList{field.Required(path, one)}
	case kinds > 1:
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d kinds", kinds), one)}
	case q.Embedded != nil:
		return q.Embedded.validate(path.Child("embedded"))
	case q.Postgres != nil:
		return q.Postgres.URLSecretKeyRef.validate(path.Child("postgres", "urlSecretKeyRef"))
	}
	return nil
}

func (q *EmbeddedQueue) validate(path *field.Path) field.ErrorList {
	claim := q.VolumeClaimTemplate
	if (claim != nil) == q.Ephemeral {
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("ephemeral: %t", q.Ephemeral), "set either volumeClaimTemplate or ephemeral: true")}
	}
	var errs field.ErrorList
	if policy := q.PersistentVolumeClaimRetentionPolicy; policy != nil {
		if claim == nil {
			errs = append(errs, field.Forbidden(path.Child("persistentVolumeClaimRetentionPolicy"), "needs volumeClaimTemplate"))
		}
		switch policy.WhenDeleted {
		case appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType:
		default:
			errs = append(errs, field.NotSupported(path.Child("persistentVolumeClaimRetentionPolicy", "whenDeleted"), policy.WhenDeleted,
				[]appsv1.PersistentVolumeClaimRetentionPolicyType{appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType}))
		}
	}
	if claim != nil {
		if size := claim.Spec.Resources.Requests.Storage; size.Cmp(leastStorage) < 0 {
			errs = append(errs, field.Invalid(path.Child("volumeClaimTemplate", "spec", "resources", "requests", "storage"), size.String(), "must be at least 1Mi"))
		}
	}
	return errs
}

func (r *SecretKeyRef) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Name == "" || len(r.Name) > 253 {
		errs = append(errs, field.Invalid(path.Child("name"), r.Name, "must be the name of a Secret"))
	}
	if len(r.Key) > 253 || !secretKey.MatchString(r.Key) {
		errs = append(errs, field.Invalid(path.Child("key"), r.Key, "must be the name of a key: letters, digits, -, _ and ."))
	}
	return errs
}

func (d *Delivery) validate(path *field.Path) field.ErrorList {
	errs := between(path.Child("maxAttempts"), d.MaxAttempts, 1, 1000)
	backoff := path.Child("backoff")
	errs = append(errs, within(backoff.Child("initial"), d.Backoff.Initial.Duration, time.Millisecond, 24*time.Hour, "1ms and 24h")...)
	errs = append(errs, within(backoff.Child("max"), d.Backoff.Max.Duration, time.Millisecond, 24*time.Hour, "1ms and 24h")...)
	if d.Backoff.Max.Duration < d.Backoff.Initial.Duration {
		errs = append(errs, field.Invalid(backoff.Child("max"), d.Backoff.Max.Duration.String(), "must not be below backoff.initial"))
	}
	errs = append(errs, within(path.Child("deduplicationWindow"), d.DeduplicationWindow.Duration, 0, 168*time.Hour, "0s and 168h")...)
	errs = append(errs, within(path.Child("retryInterval"), d.RetryInterval.Duration, 10*time.Millisecond, time.Minute, "10ms and 1m")...)
	retry := path.Child("queueRetry")
	errs = append(errs, between(retry.Child("attempts"), d.QueueRetry.Attempts, 1, 100)...)
	return append(errs, within(retry.Child("backoff"), d.QueueRetry.Backoff.Duration, time.Millisecond, time.Minute, "1ms and 1m")...)
}

// within refuses a duration outside of the bounds, which the words name.
func within(path *field.Path, value, low, high time.Duration, words string) field.ErrorList {
	if value >= low && value <= high {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.String(), "must be between "+words)}
}
