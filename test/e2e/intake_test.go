//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/workpull/operator/runtime/producer"
)

// intake speaks HTTP with a Producer through the API server's proxy of its
// Service, as a client inside the cluster would with the Service itself.
type intake struct {
	*world
	name string
}

func (w *world) intake(producer string) intake { return intake{w, producer} }

// reply is an HTTP answer.
type reply struct {
	code   int
	header http.Header
	body   string
}

func (i intake) do(ctx context.Context, method, path string, body []byte, header ...string) (reply, error) {
	base := fmt.Sprintf("%s/api/v1/namespaces/%s/services/http:%s:80/proxy", env.config.Host, i.ns, i.name)
	request, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for n := 0; n+1 < len(header); n += 2 {
		request.Header.Set(header[n], header[n+1])
	}
	return send(request)
}

func send(request *http.Request) (reply, error) {
	answer, err := env.http.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, strings.TrimSpace(string(text))}, err
}

// work is the body of a job for the suite's worker (worker/main.go).
type work struct {
	Sleep string `json:"sleep,omitempty"` // how long it takes
	Hold  string `json:"hold,omitempty"`  // it lasts until release(Hold)
	Fail  int    `json:"fail,omitempty"`  // attempts that are rejected
}

// post sends one job and returns the answer, whatever it is.
func (i intake) post(id string, body any) reply {
	i.Helper()
	data, err := json.Marshal(body)
	i.must(err, "encode a job")
	answer, err := i.do(i.ctx, http.MethodPost, "/v1/jobs?id="+url.QueryEscape(id), data, "Content-Type", "application/json")
	i.must(err, "submit job "+id)
	return answer
}

// submit sends one job that has to be accepted.
func (i intake) submit(id string, body work) {
	i.Helper()
	if answer := i.post(id, body); answer.code != http.StatusAccepted {
		i.Fatalf("submit job %s: want 202, got %d %s", id, answer.code, answer.body)
	}
}

// submitMany sends n jobs and returns their ids.
func (i intake) submitMany(prefix string, n int, body work) []string {
	i.Helper()
	ids := make([]string, n)
	for k := range ids {
		ids[k] = fmt.Sprintf("%s-%d", prefix, k)
		i.submit(ids[k], body)
	}
	return ids
}

// ask reads a JSON answer that has to be 200.
func (i intake) ask(path string, into any) error {
	answer, err := i.do(i.ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if answer.code != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s", path, answer.code, answer.body)
	}
	return json.Unmarshal([]byte(answer.body), into)
}

func (i intake) job(id string) (job producer.JobStatus, err error) {
	return job, i.ask("/v1/jobs/"+url.PathEscape(id), &job)
}

func (i intake) status() (status producer.Status, err error) {
	return status, i.ask("/v1/status", &status)
}

// awaitDone waits until every job is confirmed.
func (i intake) awaitDone(limit time.Duration, ids ...string) {
	i.Helper()
	left := ids // in order: those before were seen to be done
	i.eventually(limit, fmt.Sprintf("all of %d jobs confirmed", len(ids)), func() error {
		for len(left) > 0 {
			job, err := i.job(left[0])
			if err != nil {
				return err
			}
			if job.State != producer.Done {
				return fmt.Errorf("job %s is %s (attempt %d at %s), %d more to look at", job.ID, job.State, job.Attempt, job.Pod, len(left)-1)
			}
			left = left[1:]
		}
		return nil
	})
}

// awaitWorkers waits until n worker endpoints are bound to the producer.
func (i intake) awaitWorkers(limit time.Duration, n int) producer.Status {
	i.Helper()
	var status producer.Status
	i.eventually(limit, fmt.Sprintf("%d workers registered", n), func() (err error) {
		if status, err = i.status(); err != nil {
			return err
		}
		if len(status.Workers) != n {
			return fmt.Errorf("there are %d: %+v", len(status.Workers), status.Workers)
		}
		return nil
	})
	return status
}
