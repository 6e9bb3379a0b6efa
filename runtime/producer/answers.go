package producer

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// State of a job, as a client sees it.
type State string

// States of a job.
const (
	// Waiting jobs are accepted and have not reached a worker's handler.
	Waiting State = "waiting"
	// Running jobs are at a worker.
	Running State = "running"
	// Delayed jobs failed and wait for their next try.
	Delayed State = "delayed"
	// Dead jobs are out of attempts. They are kept and not tried.
	Dead State = "dead"
	// Done jobs were confirmed by a worker.
	Done State = "confirmed"
	// Dropped jobs were dead and were given up.
	Dropped State = "dropped"
)

// Problem is the body of every answer that is no success.
type Problem struct {
	// Error says what is wrong.
	Error string `json:"error"`
	// Wanted says what would be right.
	Wanted string `json:"wanted"`
}

// Submitted is the answer to a job that was accepted.
type Submitted struct {
	// ID of the job: the client's, or a new one.
	ID string `json:"id"`
	// State of the job.
	State State `json:"state"`
}

// JobStatus is the answer to a question about one job.
type JobStatus struct {
	// ID of the job.
	ID string `json:"id"`
	// State of the job.
	State State `json:"state"`
	// Attempt counts from 1; it is the one that runs, or the next one.
	Attempt int `json:"attempt,omitempty"`
	// Worker is the identity of the endpoint that has it, and Pod the name of
	// that endpoint's pod, while it runs.
	Worker string `json:"worker,omitempty"`
	Pod    string `json:"pod,omitempty"`
	// Received, Accepted and Confirmed are when it came to that, as far as this
	// process knows: it does not of what came before it.
	Received  *time.Time `json:"received,omitempty"`
	Accepted  *time.Time `json:"accepted,omitempty"`
	Confirmed *time.Time `json:"confirmed,omitempty"`
}

// Status is the answer to a question about the producer.
type Status struct {
	// Producer is its name.
	Producer string `json:"producer"`
	// Queue is where accepted jobs are kept: "memory" loses them at a restart,
	// "embedded" and "postgres" do not.
	Queue string `json:"queue"`
	// Since is when this process started. With a queue in memory it knows no
	// job from before.
	Since time.Time `json:"since"`
	// Accepting is "yes", or why it is not.
	Accepting string `json:"accepting"`
	// Waiting jobs have no worker, InFlight jobs are at one (running there, or
	// next), Delayed jobs wait for their backoff after a rejection.
	Waiting  int `json:"waiting"`
	InFlight int `json:"inFlight"`
	// Dead jobs are out of attempts.
	Delayed int `json:"delayed"`
	Dead    int `json:"dead"`
	// Running jobs are in a handler: one for each worker that holds any.
	Running int `json:"running"`
	// Accepted, Confirmed, Requeued and Rejected are totals of the controller,
	// which begins anew when its queue has failed; Lost is one of this process.
	Accepted  uint64 `json:"accepted"`
	Confirmed uint64 `json:"confirmed"`
	Requeued  uint64 `json:"requeued"`
	Rejected  uint64 `json:"rejected"`
	Lost      uint64 `json:"lost"`
	// Workers are the endpoints that are bound now.
	Workers []WorkerStatus `json:"workers"`
}

// WorkerStatus is one worker endpoint.
type WorkerStatus struct {
	// Identity of the endpoint, and Pod, the name of its pod when it is known.
	Identity string `json:"identity"`
	Pod      string `json:"pod,omitempty"`
	// Host is the host:port of its actor system.
	Host string `json:"host,omitempty"`
	// Demand is how many jobs it would take now, InFlight how many it holds.
	Demand   int `json:"demand"`
	InFlight int `json:"inFlight"`
	// Running is the id of the job in its handler, and Attempt its number.
	Running string `json:"running,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Since is when it was bound.
	Since time.Time `json:"since"`
	// Suspended workers get nothing until they answer, Draining ones nothing
	// any more.
	Suspended bool `json:"suspended,omitempty"`
	Draining  bool `json:"draining,omitempty"`
}

// answer writes a body of JSON.
func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // the client is gone, or gets it
}

// deny writes a Problem.
func deny(w http.ResponseWriter, code int, problem, wanted string) {
	answer(w, code, Problem{Error: problem, Wanted: wanted})
}

// denyFor writes a Problem that may be over after a while.
func denyFor(w http.ResponseWriter, code int, after time.Duration, problem, wanted string) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(after.Seconds()))))
	deny(w, code, problem, wanted)
}
