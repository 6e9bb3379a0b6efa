// Command thumbnailer is a worker: each job is a JPEG or PNG file, of which it
// makes a thumbnail that it sends to a sink.
//
// A job's header field "width" (Workpull-Header-Width) is the width of its
// thumbnail in pixels. The environment has the rest:
//
//	SINK_URL           where results go, by PUT to <SINK_URL>/results/<job id>
//	THUMBNAIL_WIDTH    the width for jobs that name none (64)
//	MIN_JOB_DURATION   how long a job takes at least, such as 200ms (0s)
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/workpull/operator/examples/thumbnailer/thumbnail"
	"github.com/workpull/operator/runtime/worker"
)

const (
	sendTimeout = 5 * time.Second
	maxWidth    = 4096
)

func main() {
	t, err := configure(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "thumbnailer:", err)
		os.Exit(2)
	}
	worker.Main(t.do)
}

// thumbnailer does jobs.
type thumbnailer struct {
	sink    *url.URL
	width   int
	minimum time.Duration
	client  *http.Client
	name    string
}

func configure(get func(string) string) (*thumbnailer, error) {
	t := &thumbnailer{width: 64, client: &http.Client{Timeout: sendTimeout}, name: get("WORKPULL_POD_NAME")}
	sink, err := url.Parse(get("SINK_URL"))
	if err != nil || sink.Scheme != "http" || sink.Host == "" {
		return nil, fmt.Errorf("SINK_URL is %q: want a URL such as http://thumbnail-sink", get("SINK_URL"))
	}
	t.sink = sink
	if text := get("THUMBNAIL_WIDTH"); text != "" {
		if t.width, err = parseWidth(text); err != nil {
			return nil, fmt.Errorf("THUMBNAIL_WIDTH is %q: %w", text, err)
		}
	}
	if text := get("MIN_JOB_DURATION"); text != "" {
		if t.minimum, err = time.ParseDuration(text); err != nil || t.minimum < 0 {
			return nil, fmt.Errorf("MIN_JOB_DURATION is %q: want a duration such as 200ms", text)
		}
	}
	return t, nil
}

func parseWidth(text string) (int, error) {
	width, err := strconv.Atoi(text)
	if err != nil || width < 1 || width > maxWidth {
		return 0, fmt.Errorf("want a number of pixels from 1 to %d", maxWidth)
	}
	return width, nil
}

// do is the handler. Sending the same result twice is harmless: a job that is
// given out again after a death replaces it.
func (t *thumbnailer) do(ctx context.Context, job *worker.Job) error {
	atLeast := time.NewTimer(t.minimum)
	defer atLeast.Stop()
	width := t.width
	if text, ok := job.Header["width"]; ok {
		var err error
		if width, err = parseWidth(text); err != nil {
			return fmt.Errorf("header field width is %q: %w", text, err)
		}
	}
	small, format, err := thumbnail.Make(job.Body, width)
	if err != nil {
		return err
	}
	select {
	case <-atLeast.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return t.send(ctx, job, small, "image/"+format)
}

func (t *thumbnailer) send(ctx context.Context, job *worker.Job, result []byte, kind string) error {
	to := t.sink.JoinPath("results", url.PathEscape(job.ID))
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, to.String(), bytes.NewReader(result))
	if err != nil {
		return fmt.Errorf("send the result: %w", err)
	}
	request.Header.Set("Content-Type", kind)
	request.Header.Set("Worker", t.name)
	request.Header.Set("Attempt", strconv.Itoa(job.Attempt))
	response, err := t.client.Do(request)
	if err != nil {
		return fmt.Errorf("send the result: %w", err)
	}
	_, drained := io.Copy(io.Discard, io.LimitReader(response.Body, 1<<10))
	if err := errors.Join(drained, response.Body.Close()); err != nil {
		return fmt.Errorf("send the result: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("send the result: the sink answered %s", response.Status)
	}
	return nil
}
