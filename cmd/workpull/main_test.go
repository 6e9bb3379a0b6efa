package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/runtime/podenv"
)

func TestBadSettingIsOneLineAndStatusTwo(t *testing.T) {
	for want, test := range map[string]struct {
		arguments   []string
		environment map[string]string
	}{
		"workpull: setting WORKPULL_PRODUCER (--producer) is missing: want a text\n": {
			[]string{"producer"}, nil,
		},
		`workpull: setting WORKPULL_MAX_PENDING (--max-pending) is "-1": want a whole number from 1 to 10000000` + "\n": {
			[]string{"producer"}, map[string]string{podenv.Producer: "p", podenv.MaxPending: "-1"},
		},
		`workpull: setting WORKPULL_INTAKE_PORT (--intake-port) is "http": want a whole number from 0 to 65535` + "\n": {
			[]string{"producer", "--intake-port", "http"}, map[string]string{podenv.Producer: "p", podenv.IntakePort: "8080"},
		},
	} {
		var out, errors bytes.Buffer
		require.Equal(t, 2, run(context.Background(), test.arguments, test.environment, &out, &errors))
		require.Equal(t, want, errors.String())
		require.Empty(t, out.String())
	}
}

func TestUnknownCommandAndFlag(t *testing.T) {
	for _, arguments := range [][]string{{"consumer"}, {"producer", "--colour=red"}, {"producer", "extra"}} {
		var out, errors bytes.Buffer
		require.Equal(t, 1, run(context.Background(), arguments, nil, &out, &errors))
		require.Equal(t, 1, strings.Count(errors.String(), "\n"), errors.String())
		require.Contains(t, errors.String(), "unknown")
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	var out, errors bytes.Buffer
	require.Equal(t, 0, run(context.Background(), []string{"producer", "--help"}, nil, &out, &errors))
	for _, name := range []string{podenv.Producer, podenv.MaxPending, podenv.MaxJobBytes, podenv.PodIP, podenv.Queue} {
		require.Contains(t, out.String(), name)
	}
	require.Contains(t, out.String(), "POST /v1/jobs")
	out.Reset()
	require.Equal(t, 0, run(context.Background(), []string{"version"}, nil, &out, &errors))
	require.Contains(t, out.String(), "go1.")
	require.Empty(t, errors.String())
}
