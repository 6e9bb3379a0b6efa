package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/workpull/operator/runtime/podenv"
)

// readyTimeout bounds what a readiness probe may ask; the kubelet gives it a
// second.
const readyTimeout = 800 * time.Millisecond

// NewRegistry is a registry of metrics with those of Go and of the process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// Health serves liveness, readiness and metrics.
type Health struct {
	server   *http.Server
	listener net.Listener
}

// ServeHealth listens on the health port until Close. The process is live
// while it answers; it is ready while ready returns nil, and the answer to a
// readiness probe is otherwise 503 with the reason.
func ServeHealth(s *Settings, registry *prometheus.Registry, ready func(context.Context) error, logger *slog.Logger) (*Health, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(s.HealthPort)))
	if err != nil {
		return nil, fmt.Errorf("listen on the health port: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+podenv.LivenessPath, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET "+podenv.ReadinessPath, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := ready(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET "+podenv.MetricsPath, promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	h := &Health{listener: listener, server: &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}}
	go func() {
		if err := h.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the health server ended", "error", err)
		}
	}()
	return h, nil
}

// Addr is the host:port that it listens on.
func (h *Health) Addr() string { return h.listener.Addr().String() }

// Close ends it at once.
func (h *Health) Close() error { return h.server.Close() }
