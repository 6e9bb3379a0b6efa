package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/workpull/operator/runtime/producer"
)

// Jobs, questions and results go through the API server's proxy of the two
// Services: it needs no port of this machine and survives a pod's end.

const (
	callTimeout = 15 * time.Second
	postRetries = 30
	postPause   = time.Second
)

// result is an entry of the sink's list.
type result struct {
	ID    string `json:"id"`
	Count int    `json:"count"`
}

func (w *world) call(verb, service string, path ...string) *rest.Request {
	return w.core.CoreV1().RESTClient().Verb(verb).
		Namespace(demoNamespace).Resource("services").Name("http:" + service + ":80").
		SubResource(append([]string{"proxy"}, path...)...).
		Timeout(callTimeout)
}

// post sends a job. It sends it again when the answer is missing: with its id
// it runs once.
func (w *world) post(ctx context.Context, j *job) error {
	var err error
	for range postRetries {
		var code int
		answer := w.call(http.MethodPost, producerName, "v1", "jobs").
			SetHeader(producer.IDHeader, j.id).
			SetHeader(producer.FieldPrefix+"Width", strconv.Itoa(j.width)).
			SetHeader("Content-Type", "image/"+j.of.format).
			Body(j.of.file).Do(ctx).StatusCode(&code)
		if err = answer.Error(); err == nil && (code == http.StatusAccepted || code == http.StatusOK) {
			return nil
		}
		if code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("send job %s: %w", j.id, errors.Join(context.Cause(ctx), err))
		case <-time.After(postPause):
		}
	}
	return fmt.Errorf("send job %s: %w", j.id, err)
}

func (w *world) status(ctx context.Context) (status producer.Status, err error) {
	err = w.read(ctx, &status, producerName, "v1", "status")
	return status, err
}

// state asks for one job.
func (w *world) state(ctx context.Context, id string) (status producer.JobStatus, err error) {
	err = w.read(ctx, &status, producerName, "v1", "jobs", id)
	return status, err
}

func (w *world) results(ctx context.Context) (results []result, err error) {
	err = w.read(ctx, &results, sinkName, "results")
	return results, err
}

func (w *world) result(ctx context.Context, id string) ([]byte, error) {
	body, err := w.call(http.MethodGet, sinkName, "results", id).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("result %s is not in the sink", id)
	}
	return body, err
}

func (w *world) read(ctx context.Context, into any, service string, path ...string) error {
	body, err := w.call(http.MethodGet, service, path...).Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("ask %s: %w", service, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read the answer of %s: %w", service, err)
	}
	return nil
}
