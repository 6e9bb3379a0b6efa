package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func validProducer() *Producer {
	p := &Producer{ObjectMeta: metav1.ObjectMeta{Name: "thumbnails"}}
	p.Spec.Queue.Memory = &MemoryQueue{}
	p.SetDefaults()
	return p
}

// embedded makes the queue one on a volume, changed.
func embedded(change func(*EmbeddedQueue)) func(*Producer) {
	return func(p *Producer) {
		claim := &VolumeClaimTemplate{}
		claim.Spec.Resources.Requests.Storage = resource.MustParse("1Gi")
		p.Spec.Queue = Queue{Embedded: &EmbeddedQueue{VolumeClaimTemplate: claim}}
		change(p.Spec.Queue.Embedded)
	}
}

// postgres makes the queue one in PostgreSQL, its Secret changed.
func postgres(change func(*SecretKeyRef)) func(*Producer) {
	return func(p *Producer) {
		p.Spec.Queue = Queue{Postgres: &PostgresQueue{URLSecretKeyRef: SecretKeyRef{Name: "database", Key: "url"}}}
		change(&p.Spec.Queue.Postgres.URLSecretKeyRef)
	}
}

func TestValidQueues(t *testing.T) {
	for name, change := range map[string]func(*Producer){
		"volume":    embedded(func(*EmbeddedQueue) {}),
		"kept":      embedded(func(q *EmbeddedQueue) { q.PersistentVolumeClaimRetentionPolicy = &ClaimRetentionPolicy{} }),
		"ephemeral": embedded(func(q *EmbeddedQueue) { *q = EmbeddedQueue{Ephemeral: true} }),
		"postgres":  postgres(func(*SecretKeyRef) {}),
		"standbys": func(p *Producer) {
			postgres(func(*SecretKeyRef) {})(p)
			p.Spec.Replicas = ptr.To[int32](3)
		},
		"no deduplication": func(p *Producer) { p.Spec.Delivery.DeduplicationWindow = &metav1.Duration{} },
	} {
		t.Run(name, func(t *testing.T) {
			p := validProducer()
			change(p)
			p.SetDefaults()
			require.Empty(t, p.Validate())
		})
	}
}

func validPool() *WorkerPool {
	w := &WorkerPool{ObjectMeta: metav1.ObjectMeta{Name: "resizers"}}
	w.Spec.ProducerRef.Name = "thumbnails"
	w.Spec.Template.Spec.Containers = []corev1.Container{{Name: "worker", Image: "example"}}
	w.SetDefaults()
	return w
}

// S26: a field that an older CRD did not have is absent, and absent is never
// zero.
func TestAbsentFieldsTakeTheirDefaultsAndAreNeverZero(t *testing.T) {
	pool := validPool()
	require.Equal(t, int32(1), *pool.Spec.Replicas)
	require.Equal(t, 30*time.Second, pool.Spec.Drain.Timeout.Duration)
	require.Equal(t, MembershipAttached, pool.Spec.Worker.Membership)
	require.Empty(t, pool.Validate())
	require.Empty(t, validProducer().Validate())

	pool.Spec.Replicas = ptr.To[int32](0)
	pool.Spec.Drain.Timeout = &metav1.Duration{}
	pool.SetDefaults()
	require.Zero(t, *pool.Spec.Replicas, "zero that was asked for stays zero")
	require.Zero(t, pool.Spec.Drain.Timeout.Duration)
}

func TestInvalidProducersAreNamedWithFieldAndWish(t *testing.T) {
	tests := map[string]struct {
		change func(*Producer)
		want   []string
	}{
		"name too long": {func(p *Producer) { p.Name = strings.Repeat("a", 41) }, []string{"metadata.name", "at most 40"}},
		"name with dot": {func(p *Producer) { p.Name = "a.b" }, []string{"metadata.name", "begin with a letter"}},
		"no queue":      {func(p *Producer) { p.Spec.Queue.Memory = nil }, []string{"spec.queue", "exactly one kind"}},
		"two queues":    {func(p *Producer) { p.Spec.Queue.Postgres = &PostgresQueue{} }, []string{"spec.queue", "2 kinds", "exactly one kind"}},
		"no volume":     {embedded(func(q *EmbeddedQueue) { q.VolumeClaimTemplate = nil }), []string{"spec.queue.embedded", "either volumeClaimTemplate or ephemeral"}},
		"two volumes":   {embedded(func(q *EmbeddedQueue) { q.Ephemeral = true }), []string{"spec.queue.embedded", "either volumeClaimTemplate or ephemeral"}},
		"no size":       {embedded(func(q *EmbeddedQueue) { q.VolumeClaimTemplate.Spec.Resources = ClaimResources{} }), []string{"spec.queue.embedded.volumeClaimTemplate.spec.resources.requests.storage", "at least 1Mi"}},
		"retention word": {embedded(func(q *EmbeddedQueue) {
			q.PersistentVolumeClaimRetentionPolicy = &ClaimRetentionPolicy{WhenDeleted: "Keep"}
		}), []string{"persistentVolumeClaimRetentionPolicy.whenDeleted", "Retain", "Delete"}},
		"retained nothing": {embedded(func(q *EmbeddedQueue) {
			*q = EmbeddedQueue{Ephemeral: true, PersistentVolumeClaimRetentionPolicy: &ClaimRetentionPolicy{WhenDeleted: "Retain"}}
		}), []string{"persistentVolumeClaimRetentionPolicy", "needs volumeClaimTemplate"}},
		"no secret":         {postgres(func(r *SecretKeyRef) { r.Name = "" }), []string{"spec.queue.postgres.urlSecretKeyRef.name", "name of a Secret"}},
		"no key":            {postgres(func(r *SecretKeyRef) { r.Key = "a b" }), []string{"spec.queue.postgres.urlSecretKeyRef.key", "name of a key"}},
		"standby of memory": {func(p *Producer) { p.Spec.Replicas = ptr.To[int32](2) }, []string{"spec.replicas", "need queue.postgres"}},
		"no replica":        {func(p *Producer) { p.Spec.Replicas = ptr.To[int32](0) }, []string{"spec.replicas", "between 1 and 10"}},
		"many replicas": {func(p *Producer) {
			postgres(func(*SecretKeyRef) {})(p)
			p.Spec.Replicas = ptr.To[int32](11)
		}, []string{"spec.replicas", "between 1 and 10"}},
		"attempts":         {func(p *Producer) { p.Spec.Delivery.MaxAttempts = -1 }, []string{"spec.delivery.maxAttempts", "between 1 and 1000"}},
		"backoff":          {func(p *Producer) { p.Spec.Delivery.Backoff.Initial.Duration = time.Microsecond }, []string{"spec.delivery.backoff.initial", "between 1ms and 24h"}},
		"backoff max":      {func(p *Producer) { p.Spec.Delivery.Backoff.Max.Duration = 25 * time.Hour }, []string{"spec.delivery.backoff.max", "between 1ms and 24h"}},
		"backoff shrunk":   {func(p *Producer) { p.Spec.Delivery.Backoff.Max.Duration = time.Millisecond }, []string{"spec.delivery.backoff.max", "not be below backoff.initial"}},
		"window":           {func(p *Producer) { p.Spec.Delivery.DeduplicationWindow.Duration = -1 }, []string{"spec.delivery.deduplicationWindow", "between 0s and 168h"}},
		"queue attempts":   {func(p *Producer) { p.Spec.Delivery.QueueRetry.Attempts = 101 }, []string{"spec.delivery.queueRetry.attempts", "between 1 and 100"}},
		"queue backoff":    {func(p *Producer) { p.Spec.Delivery.QueueRetry.Backoff.Duration = time.Hour }, []string{"spec.delivery.queueRetry.backoff", "between 1ms and 1m"}},
		"maxPending":       {func(p *Producer) { p.Spec.Intake.MaxPending = -1 }, []string{"spec.intake.maxPending", "between 1 and 1000000"}},
		"maxJobBytes":      {func(p *Producer) { p.Spec.Intake.MaxJobBytes = 16 << 20 }, []string{"spec.intake.maxJobBytes", "between 1 and 15728640"}},
		"port":             {func(p *Producer) { p.Spec.Intake.Service.Port = 70_000 }, []string{"spec.intake.service.port", "between 1 and 65535"}},
		"interval too low": {func(p *Producer) { p.Spec.Delivery.RetryInterval.Duration = time.Millisecond }, []string{"spec.delivery.retryInterval", "between 10ms and 1m"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := validProducer()
			tt.change(p)
			errs := p.Validate()
			require.Len(t, errs, 1)
			for _, want := range tt.want {
				require.ErrorContains(t, errs.ToAggregate(), want)
			}
		})
	}
}

func TestInvalidWorkerPoolsAreNamedWithFieldAndWish(t *testing.T) {
	tests := map[string]struct {
		change func(*WorkerPool)
		want   []string
	}{
		"name too long":  {func(w *WorkerPool) { w.Name = strings.Repeat("a", 51) }, []string{"metadata.name", "at most 50"}},
		"no producer":    {func(w *WorkerPool) { w.Spec.ProducerRef.Name = "" }, []string{"spec.producerRef.name", "1 to 40"}},
		"replicas":       {func(w *WorkerPool) { w.Spec.Replicas = ptr.To[int32](1001) }, []string{"spec.replicas", "between 0 and 1000"}},
		"history":        {func(w *WorkerPool) { w.Spec.RevisionHistoryLimit = ptr.To[int32](-1) }, []string{"spec.revisionHistoryLimit", "between 0 and 1000"}},
		"deadline":       {func(w *WorkerPool) { w.Spec.StartupDeadlineSeconds = ptr.To[int32](0) }, []string{"spec.startupDeadlineSeconds", "between 1 and 86400"}},
		"concurrency":    {func(w *WorkerPool) { w.Spec.Worker.Concurrency = 101 }, []string{"spec.worker.concurrency", "between 1 and 100"}},
		"window":         {func(w *WorkerPool) { w.Spec.Worker.FlowControlWindow = 10_001 }, []string{"spec.worker.flowControlWindow", "between 1 and 10000"}},
		"membership":     {func(w *WorkerPool) { w.Spec.Worker.Membership = "Guest" }, []string{"spec.worker.membership", "Attached", "Member"}},
		"drain":          {func(w *WorkerPool) { w.Spec.Drain.Timeout.Duration = 25 * time.Hour }, []string{"spec.drain.timeout", "between 0s and 24h"}},
		"no container":   {func(w *WorkerPool) { w.Spec.Template.Spec.Containers[0].Name = "main" }, []string{"spec.template.spec.containers", `named "worker"`}},
		"grace period":   {func(w *WorkerPool) { w.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](9) }, []string{"terminationGracePeriodSeconds", "drain.timeout"}},
		"restart policy": {func(w *WorkerPool) { w.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }, []string{"restartPolicy", "Always"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := validPool()
			tt.change(w)
			errs := w.Validate()
			require.Len(t, errs, 1)
			for _, want := range tt.want {
				require.ErrorContains(t, errs.ToAggregate(), want)
			}
		})
	}
}
