package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func validProducer() *Producer {
	p := &Producer{ObjectMeta: metav1.ObjectMeta{Name: "thumbnails"}}
	p.Spec.Queue.Memory = &MemoryQueue{}
	p.SetDefaults()
	return p
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
		"name too long":    {func(p *Producer) { p.Name = strings.Repeat("a", 41) }, []string{"metadata.name", "at most 40"}},
		"name with dot":    {func(p *Producer) { p.Name = "a.b" }, []string{"metadata.name", "begin with a letter"}},
		"no queue":         {func(p *Producer) { p.Spec.Queue.Memory = nil }, []string{"spec.queue", "exactly one kind"}},
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
