package node_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/runtime/node"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// S38: readiness follows the worker's registration, liveness does not.
func TestHealth(t *testing.T) {
	var ready atomic.Bool
	health, err := node.ServeHealth(&node.Settings{HealthPort: 0}, node.NewRegistry(), func(context.Context) error {
		if ready.Load() {
			return nil
		}
		return errors.New("0 of 1 endpoints are registered")
	}, quiet())
	require.NoError(t, err)
	defer health.Close()
	base := "http://" + health.Addr()

	code, body := get(t, base+"/readyz")
	require.Equal(t, 503, code)
	require.Equal(t, "0 of 1 endpoints are registered\n", body)
	code, _ = get(t, base+"/healthz")
	require.Equal(t, 200, code)
	ready.Store(true)
	code, _ = get(t, base+"/readyz")
	require.Equal(t, 200, code)

	response, err := http.Get(base + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	problems, err := promlint.New(response.Body).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}
