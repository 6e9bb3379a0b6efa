package main

import (
	"bytes"
	"context"
	"image"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/runtime/worker"
)

func TestResultGoesToTheSink(t *testing.T) {
	var path, attempt string
	var body []byte
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, attempt = r.URL.EscapedPath(), r.Header.Get("Attempt")
		body, _ = io.ReadAll(r.Body)
		if r.URL.Path == "/results/refused" {
			w.WriteHeader(http.StatusInsufficientStorage)
		}
	}))
	defer sink.Close()
	thumbnailer, err := configure(func(name string) string {
		return map[string]string{"SINK_URL": sink.URL, "MIN_JOB_DURATION": "20ms"}[name]
	})
	require.NoError(t, err)
	file, err := os.ReadFile(filepath.Join(goroot(t), "src/image/testdata/video-001.png"))
	require.NoError(t, err)

	begun := time.Now()
	job := &worker.Job{ID: "a/b 1", Attempt: 2, Body: file, Header: map[string]string{"width": "30"}}
	require.NoError(t, thumbnailer.do(context.Background(), job))
	require.GreaterOrEqual(t, time.Since(begun), 20*time.Millisecond)
	require.Equal(t, "/results/a%2Fb%201", path)
	require.Equal(t, "2", attempt)
	picture, _, err := image.Decode(bytes.NewReader(body))
	require.NoError(t, err)
	require.Equal(t, 30, picture.Bounds().Dx())

	job.ID = "refused"
	require.ErrorContains(t, thumbnailer.do(context.Background(), job), "the sink answered 507")
	job.Header["width"] = "0"
	require.ErrorContains(t, thumbnailer.do(context.Background(), job), `header field width is "0"`)
}

func TestConfigureRefuses(t *testing.T) {
	for want, set := range map[string]map[string]string{
		`SINK_URL is "": want a URL`:                              {},
		`SINK_URL is "ftp://x": want a URL`:                       {"SINK_URL": "ftp://x"},
		`THUMBNAIL_WIDTH is "5000": want a number`:                {"SINK_URL": "http://x", "THUMBNAIL_WIDTH": "5000"},
		`MIN_JOB_DURATION is "soon": want a duration such as 200`: {"SINK_URL": "http://x", "MIN_JOB_DURATION": "soon"},
	} {
		_, err := configure(func(name string) string { return set[name] })
		require.ErrorContains(t, err, want)
	}
}

// goroot is the folder of Go, with pictures among its test data.
func goroot(t *testing.T) string {
	t.Helper()
	folder, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(folder))
}
