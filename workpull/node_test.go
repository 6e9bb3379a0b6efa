package workpull

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeerLostMatchesHosts(t *testing.T) {
	for _, c := range []struct {
		lost peerLost
		host string
		want bool
	}{
		{peerLost{host: "10.0.0.1", port: 9000}, "10.0.0.1:9000", true},
		{peerLost{host: "10.0.0.1", port: 9000}, "10.0.0.1:9001", false},
		{peerLost{host: "10.0.0.1"}, "10.0.0.1:9001", true},
		{peerLost{host: "10.0.0.1"}, "10.0.0.11:9001", false},
		{peerLost{host: "fd00::1", port: 9000}, "fd00::1:9000", true}, // as GoAkt writes it
		{peerLost{host: "fd00::1", port: 9000}, "[fd00::1]:9000", true},
		{peerLost{host: "10.0.0.1"}, "", false},
	} {
		require.Equal(t, c.want, c.lost.matches(c.host), "%+v %s", c.lost, c.host)
	}
}
