package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Delivery is how jobs are handed to workers.
type Delivery struct {
	// MaxAttempts is how often a job is tried: one that was rejected, or whose
	// worker died while it ran, is charged an attempt. After the last it is a
	// dead letter, which is kept and not tried.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 1000",message="maxAttempts must be between 1 and 1000"
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// Backoff is the pause before a job is tried again.
	// +optional
	// +kubebuilder:default={}
	Backoff Backoff `json:"backoff,omitzero"`

	// DeduplicationWindow is how long a job that is done is still known, so
	// that the same id submitted again runs nothing, whatever restarts in
	// between. With a memory queue it is the last 10,000 jobs of an hour instead.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$') && duration(self) >= duration('0s') && duration(self) <= duration('168h')",message="deduplicationWindow must be a duration between 0s and 168h, such as 5m or 1h"
	DeduplicationWindow *metav1.Duration `json:"deduplicationWindow,omitempty"`

	// RetryInterval is the cadence at which the producer repeats what was not
	// answered.
	// +optional
	// +kubebuilder:default="500ms"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$') && duration(self) >= duration('10ms') && duration(self) <= duration('1m')",message="retryInterval must be a duration between 10ms and 1m, such as 500ms or 2s"
	RetryInterval metav1.Duration `json:"retryInterval,omitzero"`

	// QueueRetry is how an operation of the queue that failed is tried again
	// before the intake is closed.
	// +optional
	// +kubebuilder:default={}
	QueueRetry QueueRetry `json:"queueRetry,omitzero"`
}

// Backoff doubles from Initial up to Max.
//
// +kubebuilder:validation:XValidation:rule="!has(self.initial) || !has(self.max) || !self.initial.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$') || !self.max.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$') || duration(self.initial) <= duration(self.max)",message="backoff.max must not be below backoff.initial"
type Backoff struct {
	// Initial is the pause after the first failed attempt.
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="backoff.initial must be a duration between 1ms and 24h, such as 1s"
	Initial metav1.Duration `json:"initial,omitzero"`

	// Max is the longest pause.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="backoff.max must be a duration between 1ms and 24h, such as 1m"
	Max metav1.Duration `json:"max,omitzero"`
}

// QueueRetry is how an operation of the queue is tried again.
type QueueRetry struct {
	// Attempts of one operation, the first included.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 100",message="queueRetry.attempts must be between 1 and 100"
	Attempts int32 `json:"attempts,omitempty"`

	// Backoff is the pause between two attempts.
	// +optional
	// +kubebuilder:default="100ms"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h))+$') && duration(self) >= duration('1ms') && duration(self) <= duration('1m')",message="queueRetry.backoff must be a duration between 1ms and 1m, such as 100ms"
	Backoff metav1.Duration `json:"backoff,omitzero"`
}
