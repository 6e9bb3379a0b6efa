package worker

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a worker's process.
type metrics struct {
	running prometheus.Gauge
	seconds *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer, registered func(context.Context) (int, error), link func() bool) *metrics {
	m := &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "workpull_worker_jobs_running", Help: "Jobs that are in the handler.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "workpull_worker_handler_duration_seconds", Help: "Time that the handler took, by outcome.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{done, failed, interrupted} {
		m.seconds.WithLabelValues(outcome)
	}
	registry.MustRegister(m.running, m.seconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "workpull_worker_registered_endpoints", Help: "Endpoints of this process that the producer has bound.",
		}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
			defer cancel()
			count, _ := registered(ctx) // those that do not answer are not registered
			return float64(count)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "workpull_worker_link_up", Help: "1 while the connection to the producer is open.",
		}, func() float64 {
			if link() {
				return 1
			}
			return 0
		}),
	)
	return m
}
