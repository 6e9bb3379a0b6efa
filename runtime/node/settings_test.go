package node_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/runtime/node"
	"github.com/workpull/operator/runtime/podenv"
	"github.com/workpull/operator/runtime/producer"
	"github.com/workpull/operator/runtime/worker"
)

func TestRefusedSettingSaysWhichAndWhatItWanted(t *testing.T) {
	producers := func() any { return new(producer.Settings) }
	workers := func() any { return new(worker.Settings) }
	for _, test := range []struct {
		name     string
		settings func() any
		set      map[string]string
		want     string
	}{
		{"nothing set", producers, map[string]string{podenv.Producer: ""},
			`setting WORKPULL_PRODUCER (--producer) is missing: want a text`},
		{"not a number", producers, map[string]string{podenv.MaxPending: "many"},
			`setting WORKPULL_MAX_PENDING (--max-pending) is "many": want a whole number from 1 to 10000000`},
		{"too small", producers, map[string]string{podenv.MaxPending: "0"},
			`setting WORKPULL_MAX_PENDING (--max-pending) is "0": want a whole number from 1 to 10000000`},
		{"a port too large", producers, map[string]string{podenv.RemotingPort: "70000"},
			`setting WORKPULL_REMOTING_PORT (--remoting-port) is "70000": want a whole number from 1 to 65535`},
		{"not a duration", producers, map[string]string{podenv.RetryInterval: "soon"},
			`setting WORKPULL_RETRY_INTERVAL (--retry-interval) is "soon": want a duration such as 30s or 5m from 10ms to 1m`},
		{"a duration too long", producers, map[string]string{podenv.RetryInterval: "2h"},
			`setting WORKPULL_RETRY_INTERVAL (--retry-interval) is "2h0m0s": want a duration such as 30s or 5m from 10ms to 1m`},
		{"another queue", producers, map[string]string{podenv.Queue: "disk"},
			`setting WORKPULL_QUEUE (--queue) is "disk": want one of memory, embedded, postgres`},
		{"no address", producers, map[string]string{podenv.PodIP: "producer.local"},
			`setting WORKPULL_POD_IP (--pod-ip) is "producer.local": want an IP address of this machine`},
		{"a seed without port", producers, map[string]string{node.Seeds: "10.0.0.1:9001,10.0.0.2"},
			`setting WORKPULL_SEEDS (--seeds) is "10.0.0.2": want addresses such as 10.0.0.7:9001, separated by commas`},
		{"a system name", producers, map[string]string{podenv.System: "a b"},
			`setting WORKPULL_SYSTEM (--system) is "a b": want letters, digits, - and _, with a letter or digit first`},
		{"attached without an address", workers, nil,
			`setting WORKPULL_PRODUCER_HOST (--producer-host) is missing: want a DNS name or an address of the producer`},
		{"window", workers, map[string]string{podenv.FlowControlWindow: "10001"},
			`setting WORKPULL_FLOW_CONTROL_WINDOW (--flow-control-window) is "10001": want a whole number from 1 to 10000`},
		{"membership", workers, map[string]string{podenv.Membership: "member"},
			`setting WORKPULL_MEMBERSHIP (--membership) is "member": want one of Attached, Member`},
		{"drain", workers, map[string]string{podenv.DrainTimeout: "-1s"},
			`setting WORKPULL_DRAIN_TIMEOUT (--drain-timeout) is "-1s": want a duration such as 30s or 5m from 0s to 24h`},
	} {
		t.Run(test.name, func(t *testing.T) {
			given := map[string]string{podenv.Producer: "thumbs"}
			for name, value := range test.set {
				given[name] = value
			}
			err := node.Parse(test.settings(), given)
			require.EqualError(t, err, test.want)
			var refused *node.SettingError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, 2, node.ExitCode(err))
			require.NotContains(t, err.Error(), "\n")
		})
	}
	require.Equal(t, 1, node.ExitCode(errors.New("anything else")))
	require.Equal(t, 0, node.ExitCode(nil))
}

func TestSettingsFromTheOperator(t *testing.T) {
	s := new(worker.Settings)
	require.NoError(t, node.Parse(s, map[string]string{
		podenv.Producer: "thumbs.v1", podenv.PodNamespace: "media", podenv.ProducerHost: "thumbs-producer.media.svc",
		podenv.DrainTimeout: "90s", podenv.Concurrency: "4", podenv.RemotingPort: "9100", podenv.PodIP: "10.1.2.3",
	}))
	require.Equal(t, "workpull-media-thumbs-v1", s.System)
	require.Equal(t, "thumbs-v1", s.Endpoint())
	require.Equal(t, 90*time.Second, s.DrainTimeout)
	require.Equal(t, 4, s.Concurrency)
	require.Equal(t, 50, s.FlowControlWindow)
	require.Equal(t, 9100, s.ProducerPort, "the producer's port is this node's where nothing else is said")
	require.Equal(t, podenv.MembershipAttached, s.Membership)
}

// The tags of the settings cannot refer to the constants that the operator
// uses, so this test does.
func TestTagsMatchPodenv(t *testing.T) {
	contract := []string{
		podenv.System, podenv.Producer, podenv.Pool, podenv.PodName, podenv.PodNamespace, podenv.PodUID, podenv.PodIP,
		podenv.NodeName, podenv.Membership, podenv.ProducerHost, podenv.RemotingPort, podenv.GossipPort, podenv.PeersPort,
		podenv.LinkPort, podenv.IntakePort, podenv.HealthPort, podenv.Concurrency, podenv.FlowControlWindow,
		podenv.DrainTimeout, podenv.MaxPending, podenv.MaxJobBytes, podenv.RetryInterval, podenv.Queue,
		podenv.QueueDir, podenv.QueueURL, podenv.QueueAttempts, podenv.QueueBackoff, podenv.MaxAttempts, podenv.Backoff,
		podenv.BackoffMax, podenv.DeduplicationWindow, podenv.Lease,
	}
	own := []string{node.Seeds, node.LogLevel, node.ProducerPort}
	read := map[string]string{}
	for _, settings := range []any{new(producer.Settings), new(worker.Settings)} {
		for _, s := range node.Describe(settings) {
			require.True(t, strings.HasPrefix(s.Name, "WORKPULL_"), s.Name)
			require.NotEmpty(t, s.Usage, s.Name)
			require.NotEmpty(t, s.Want, s.Name)
			read[s.Name] = s.Default
		}
	}
	for _, name := range append(contract, own...) {
		require.Contains(t, read, name)
		delete(read, name)
	}
	require.Empty(t, read, "settings that the operator does not know of")

	s := new(producer.Settings)
	require.NoError(t, node.Parse(s, map[string]string{podenv.Producer: "p"}))
	require.Equal(t, []int{podenv.DefaultRemotingPort, podenv.DefaultGossipPort, podenv.DefaultPeersPort, podenv.DefaultLinkPort, podenv.DefaultIntakePort, podenv.DefaultHealthPort},
		[]int{s.RemotingPort, s.GossipPort, s.PeersPort, s.LinkPort, s.IntakePort, s.HealthPort})
	require.Equal(t, podenv.QueueMemory, s.Queue)
}
