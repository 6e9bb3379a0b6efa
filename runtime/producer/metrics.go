package producer

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a producer's process. The gauges and totals of the controller are
// asked of it when they are scraped.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram

	endpoint endpoint
	waiting, inFlight, delayed, dead, running, workers, processes, active,
	accepted, confirmed, requeued, rejected *prometheus.Desc
}

// scrapeTimeout bounds the question to the controller.
const scrapeTimeout = 2 * time.Second

func newMetrics(registry prometheus.Registerer, of endpoint) *metrics {
	describe := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("workpull_"+name, help, nil, nil)
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "workpull_intake_requests_total", Help: "Requests to the intake, by method and code of the answer.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "workpull_intake_request_duration_seconds", Help: "Time from a request to the intake to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}),
		endpoint: of,

		waiting:   describe("jobs_waiting", "Accepted jobs that have no worker."),
		inFlight:  describe("jobs_in_flight", "Jobs that workers hold."),
		delayed:   describe("jobs_delayed", "Rejected jobs that wait for their backoff."),
		dead:      describe("jobs_dead", "Jobs that are out of attempts."),
		active:    describe("producer_active", "1 on a producer that has an endpoint, 0 on one that starts or is a standby."),
		running:   describe("jobs_running", "Jobs that are in a worker's handler."),
		workers:   describe("workers", "Worker endpoints that are bound."),
		processes: describe("worker_processes", "Worker processes whose connection is open."),
		accepted:  describe("jobs_accepted_total", "Jobs that were accepted."),
		confirmed: describe("jobs_confirmed_total", "Jobs that a worker confirmed."),
		requeued:  describe("jobs_requeued_total", "Jobs that came back from a worker that ended."),
		rejected:  describe("jobs_rejected_total", "Jobs that a worker rejected, each time counted."),
	}
	registry.MustRegister(m.requests, m.seconds, m)
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.waiting, m.inFlight, m.delayed, m.dead, m.active, m.running, m.workers, m.processes, m.accepted, m.confirmed, m.requeued, m.rejected} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Where the controller gives no
// answer its figures are absent, which is not zero.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(m.processes, prometheus.GaugeValue, float64(len(m.endpoint.pods())))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s, err := m.endpoint.inspect(ctx)
	active := 1.0
	if errors.Is(err, errStarting) {
		active = 0
	}
	to <- prometheus.MustNewConstMetric(m.active, prometheus.GaugeValue, active)
	if err != nil {
		return
	}
	running := 0
	for _, w := range s.Workers {
		if w.RunningID != "" {
			running++
		}
	}
	gauge := func(d *prometheus.Desc, v int) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	total := func(d *prometheus.Desc, v uint64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	gauge(m.waiting, s.Waiting)
	gauge(m.inFlight, s.InFlight)
	gauge(m.delayed, s.Delayed)
	gauge(m.dead, s.Dead)
	gauge(m.running, running)
	gauge(m.workers, len(s.Workers))
	total(m.accepted, s.Accepted)
	total(m.confirmed, s.Confirmed)
	total(m.requeued, s.Requeued)
	total(m.rejected, s.Rejected)
}

// measure counts and times requests.
func (m *metrics) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		recorder := &codeRecorder{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(recorder, r)
		m.seconds.Observe(time.Since(begin).Seconds())
		m.requests.WithLabelValues(method(r), strconv.Itoa(recorder.code)).Inc()
	})
}

// method bounds the label's values: a client may send any word.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodPost, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch:
		return r.Method
	}
	return "other"
}

type codeRecorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader notes the code.
func (c *codeRecorder) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController and http.MaxBytesReader.
func (c *codeRecorder) Unwrap() http.ResponseWriter { return c.ResponseWriter }
