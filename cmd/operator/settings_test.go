package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestSettingsFromFlags(t *testing.T) {
	s, err := parseSettings([]string{
		"--producer-image=example.com/workpull:1", "--image-pull-policy=Never",
		"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:9", "--leader-elect",
		"--watch-namespaces=a, b",
	}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "example.com/workpull:1", s.image.Name)
	require.Equal(t, corev1.PullNever, s.image.PullPolicy)
	require.Equal(t, []string{"a", "b"}, s.namespaces)
	require.True(t, s.leaderElect)
}

func TestBadFlagsAreNamedWithWhatTheyWant(t *testing.T) {
	tests := map[string]struct {
		args []string
		want []string
	}{
		"no image":      {nil, []string{"--producer-image", "required"}},
		"pull policy":   {[]string{"--producer-image=x", "--image-pull-policy=Sometimes"}, []string{"--image-pull-policy", "Sometimes", "IfNotPresent"}},
		"address":       {[]string{"--producer-image=x", "--metrics-bind-address=8080"}, []string{"--metrics-bind-address", "8080", ":port"}},
		"namespace":     {[]string{"--producer-image=x", "--watch-namespaces=A"}, []string{"--watch-namespaces", `"A"`}},
		"unknown flag":  {[]string{"--speed=high"}, []string{"speed"}},
		"stray word":    {[]string{"--producer-image=x", "start"}, []string{`"start"`, "flags only"}},
		"not a boolean": {[]string{"--producer-image=x", "--leader-elect=perhaps"}, []string{"leader-elect", "perhaps"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseSettings(tt.args, io.Discard)
			require.Error(t, err)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}
