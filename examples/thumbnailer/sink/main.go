// Command sink keeps the results of the thumbnailer example in memory, for
// somebody to look at:
//
//	PUT    /results/{id}   keep a result; a second one replaces the first
//	GET    /results/{id}   the result
//	GET    /results        a list: id, size, SHA-256, type, how often it came
//	DELETE /results        forget all
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"sync"
	"syscall"
	"time"
)

// Limits of the sink's memory.
const (
	maxResult  = 1 << 20
	maxResults = 100_000
	maxBytes   = 1 << 30
)

const address = ":8080"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{
		Addr: address, Handler: newSink().handler(),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ending)
	})
	fmt.Fprintln(os.Stderr, "sink: results are kept in memory; listening on", address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "sink:", err)
		os.Exit(1)
	}
}

// Result describes one result in the list.
type Result struct {
	ID     string `json:"id"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	Type   string `json:"type"`
	// Count is how often a result came under this id; above one, the job ran
	// more than once.
	Count int `json:"count"`
	// Worker and Attempt are of the last.
	Worker  string `json:"worker"`
	Attempt string `json:"attempt"`

	body []byte
}

// sink keeps results.
type sink struct {
	mu      sync.Mutex
	results map[string]*Result
	bytes   int
}

func newSink() *sink { return &sink{results: map[string]*Result{}} }

func (s *sink) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /results/{id}", s.put)
	mux.HandleFunc("GET /results/{id}", s.get)
	mux.HandleFunc("GET /results", s.list)
	mux.HandleFunc("DELETE /results", s.clear)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

func (s *sink) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxResult))
	if err != nil {
		http.Error(w, fmt.Sprintf("the result cannot be read, or has more than %d bytes", maxResult), http.StatusRequestEntityTooLarge)
		return
	}
	id, sum := r.PathValue("id"), sha256.Sum256(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	result, known := s.results[id]
	if !known && (len(s.results) >= maxResults || s.bytes+len(body) > maxBytes) {
		http.Error(w, "the sink is full: DELETE /results", http.StatusInsufficientStorage)
		return
	}
	if !known {
		result = &Result{ID: id}
		s.results[id] = result
	}
	s.bytes += len(body) - len(result.body)
	result.body, result.Bytes, result.SHA256 = body, len(body), hex.EncodeToString(sum[:])
	result.Type, result.Worker, result.Attempt = r.Header.Get("Content-Type"), r.Header.Get("Worker"), r.Header.Get("Attempt")
	result.Count++
	w.WriteHeader(http.StatusNoContent)
}

func (s *sink) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	var body []byte
	var kind string
	result, known := s.results[r.PathValue("id")]
	if known {
		body, kind = result.body, result.Type
	}
	s.mu.Unlock()
	if !known {
		http.Error(w, "no such result", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // the client is gone, or gets it
}

func (s *sink) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	all := make([]Result, 0, len(s.results))
	for _, result := range s.results {
		all = append(all, *result)
	}
	s.mu.Unlock()
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // the client is gone, or gets it
}

func (s *sink) clear(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results, s.bytes = map[string]*Result{}, 0
	w.WriteHeader(http.StatusNoContent)
}
