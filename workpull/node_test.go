package workpull

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/workpull/operator/workpull/internal/wire"
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

func FuzzLookup(f *testing.F) {
	data, err := proto.Marshal(&wire.Lookup{Producer: "p", Companion: "c", Incarnation: "i"})
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(wire.Lookup)
		if proto.Unmarshal(data, m) != nil || m.GetActor() != "" {
			return
		}
		n := &node{endpoints: map[string]*endpoint{}, controllers: map[string]companion{}}
		require.False(t, n.answer(m).GetAlive())
	})
}
