package producer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/workpull/operator/runtime/internal/jobpb"
	"github.com/workpull/operator/workpull"
)

// Headers of the intake.
const (
	// IDHeader carries the id of a job; the query parameter "id" does the same.
	IDHeader = "Workpull-Id"
	// FieldPrefix begins the headers that are handed to the worker, without
	// the prefix and in lower case.
	FieldPrefix = "Workpull-Header-"
)

// Limits of one request.
const (
	maxIDBytes    = 256
	maxFields     = 64
	maxFieldBytes = 16 << 10
	maxTypeBytes  = 256
)

const (
	// acceptTimeout bounds the wait for the endpoint to store a job.
	acceptTimeout = 10 * time.Second
	// retryAfter is advised to clients whose job was not taken.
	retryAfter = 2 * time.Second
)

// intake serves HTTP.
type intake struct {
	ledger   *ledger
	endpoint endpoint
	maxBytes int64
	producer string
	queue    string // its kind
	window   time.Duration
	watch    *queueWatch
	started  time.Time
	logger   *slog.Logger

	closed atomic.Pointer[string] // why it takes no jobs; nil when it does
}

// endpoint is the producer endpoint, as far as the intake uses it.
type endpoint interface {
	// wake tells it that a job waits.
	wake(ctx context.Context) error
	// inspect asks its controller, or returns an answer that is at most
	// inspectAge old.
	inspect(ctx context.Context) (workpull.Snapshot, error)
	// explain asks its controller about a job: workpull.ErrUnknownJob where it
	// does not hold it.
	explain(ctx context.Context, id string) (workpull.JobState, error)
	// completed asks its queue about a job that is done.
	completed(ctx context.Context, id string) (workpull.CompletedMessage, bool, error)
	// pods maps worker processes to the names of their pods.
	pods() map[string]string
}

// close makes the intake answer 503 to new jobs, with a reason.
func (i *intake) close(reason string) { i.closed.Store(&reason) }

func (i *intake) open() { i.closed.Store(nil) }

func (i *intake) accepting() string {
	if reason := i.closed.Load(); reason != nil {
		return *reason
	}
	if i.watch.trouble() != nil { // what it is, is for the log and the probe
		return queueFails
	}
	return accepting
}

const (
	// accepting is what accepting returns when jobs are taken.
	accepting = "yes"
	// queueFails is why they are not, for a client.
	queueFails = "the queue fails"
)

// handler routes requests.
func (i *intake) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", i.submit)
	mux.HandleFunc("/v1/jobs", only("POST"))
	mux.HandleFunc("GET /v1/jobs/{id}", i.job)
	mux.HandleFunc("/v1/jobs/{id}", only("GET"))
	mux.HandleFunc("GET /v1/status", i.status)
	mux.HandleFunc("/v1/status", only("GET"))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		deny(w, http.StatusNotFound, fmt.Sprintf("nothing is at %q", r.URL.Path), "/v1/jobs, /v1/jobs/{id} or /v1/status")
	})
	return mux
}

func only(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", method)
		deny(w, http.StatusMethodNotAllowed, "method "+r.Method+" is not served here", method)
	}
}

// submit takes a job and answers 202 once it is accepted.
func (i *intake) submit(w http.ResponseWriter, r *http.Request) {
	id, err := jobID(r)
	if err != nil {
		deny(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("at most %d bytes of printable text in the header %s or the parameter id, in one of them", maxIDBytes, IDHeader))
		return
	}
	if known, ok := i.ledger.find(id); ok && known.phase == confirmed {
		answer(w, http.StatusOK, Submitted{ID: id, State: Done})
		return
	}
	if reason := i.accepting(); reason != accepting {
		denyFor(w, http.StatusServiceUnavailable, retryAfter, "no job is taken now: "+reason, "the same request later")
		return
	}
	job, ok := i.read(w, r)
	if !ok {
		return
	}
	if id == "" {
		id = rand.Text()
	}
	i.hand(w, r, id, job)
}

// hand gives a job to the endpoint and waits for it to be accepted.
func (i *intake) hand(w http.ResponseWriter, r *http.Request, id string, job *jobpb.Job) {
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	if i.ledger.full() {
		// What is known of the jobs at workers may be old.
		if _, err := i.endpoint.inspect(ctx); err != nil {
			i.logger.Warn("cannot ask the controller", "error", err)
		}
	}
	entry, known, err := i.ledger.submit(id, job)
	if err != nil {
		denyFor(w, http.StatusTooManyRequests, retryAfter, fmt.Sprintf("%d jobs wait", i.ledger.limit), "the same request later, when fewer wait")
		return
	}
	if !known {
		if err := i.endpoint.wake(ctx); err != nil {
			i.logger.Error("cannot reach the endpoint", "error", err)
		}
	}
	select {
	case <-entry.settled:
	case <-ctx.Done():
	}
	switch now := i.ledger.leave(entry); {
	case now.phase == accepted:
		answer(w, http.StatusAccepted, Submitted{ID: id, State: Waiting})
	case now.phase == confirmed && known:
		answer(w, http.StatusOK, Submitted{ID: id, State: Done})
	case now.phase == confirmed:
		answer(w, http.StatusAccepted, Submitted{ID: id, State: Done})
	case errors.Is(now.err, workpull.ErrPayloadTooLarge):
		deny(w, http.StatusRequestEntityTooLarge, "the job with its header fields is too large", fmt.Sprintf("at most %d bytes", workpull.MaxPayloadBytes))
	case now.phase == refused && entryRefused(now):
		deny(w, http.StatusBadRequest, now.err.Error(), "a job that can be encoded")
	case errors.Is(now.err, errAbandoned):
		denyFor(w, http.StatusServiceUnavailable, retryAfter, now.err.Error(), "the same request with the same id: it runs once")
	default:
		denyFor(w, http.StatusServiceUnavailable, retryAfter,
			fmt.Sprintf("job %q was not accepted within %s", id, acceptTimeout), "the same request with the same id: it runs once")
	}
}

func entryRefused(v view) bool {
	var invalid *workpull.MessageError
	return errors.As(v.err, &invalid)
}

// read takes the job out of a request; where it cannot it has answered.
func (i *intake) read(w http.ResponseWriter, r *http.Request) (*jobpb.Job, bool) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		deny(w, http.StatusUnsupportedMediaType, fmt.Sprintf("content encoding %q is not decoded", encoding), "a body without Content-Encoding")
		return nil, false
	}
	kind := r.Header.Get("Content-Type")
	if _, _, err := mime.ParseMediaType(kind); kind != "" && (err != nil || len(kind) > maxTypeBytes) {
		deny(w, http.StatusBadRequest, "the Content-Type cannot be read", fmt.Sprintf("a media type of at most %d bytes, or none", maxTypeBytes))
		return nil, false
	}
	fields, err := fieldsOf(r.Header)
	if err != nil {
		deny(w, http.StatusBadRequest, err.Error(), fmt.Sprintf("at most %d headers %s*, each once, of at most %d bytes together", maxFields, FieldPrefix, maxFieldBytes))
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, i.maxBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		deny(w, http.StatusRequestEntityTooLarge, "the body is too large", fmt.Sprintf("at most %d bytes", i.maxBytes))
		return nil, false
	case err != nil:
		deny(w, http.StatusBadRequest, "the body could not be read to its end", "a whole body within the time-out")
		return nil, false
	}
	return &jobpb.Job{Body: body, ContentType: kind, Header: fields}, true
}

// jobID is the id that a request names; "" means none.
func jobID(r *http.Request) (string, error) {
	id, ok := "", false
	for _, named := range [][]string{r.Header.Values(IDHeader), r.URL.Query()["id"]} {
		for _, value := range named {
			if ok && value != id {
				return "", errors.New("the request names two ids")
			}
			id, ok = value, true
		}
	}
	if !ok {
		return "", nil
	}
	return id, checkID(id)
}

func checkID(id string) error {
	switch {
	case strings.TrimSpace(id) == "":
		return errors.New("the id is blank")
	case len(id) > maxIDBytes:
		return fmt.Errorf("the id has %d bytes", len(id))
	case !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the id is not printable")
	case strings.HasPrefix(id, workpull.ReservedIDPrefix):
		return fmt.Errorf("ids that begin with %q are reserved", workpull.ReservedIDPrefix)
	}
	return nil
}

// fieldsOf are the header fields for the worker.
func fieldsOf(header http.Header) (map[string]string, error) {
	fields := map[string]string{}
	size := 0
	for name, values := range header {
		field, ok := strings.CutPrefix(name, FieldPrefix)
		if !ok {
			continue
		}
		if len(values) > 1 || field == "" {
			return nil, fmt.Errorf("header %s comes %d times", name, len(values))
		}
		if !utf8.ValidString(values[0]) {
			return nil, fmt.Errorf("header %s is not UTF-8", name)
		}
		fields[strings.ToLower(field)] = values[0]
		size += len(field) + len(values[0])
	}
	if len(fields) > maxFields || size > maxFieldBytes {
		return nil, fmt.Errorf("there are %d headers %s* of %d bytes", len(fields), FieldPrefix, size)
	}
	return fields, nil
}
