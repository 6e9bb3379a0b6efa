package testport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/internal/testport"
)

func TestFreePortsAreFreeAndDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		for _, port := range testport.Free(t, 3) {
			require.False(t, seen[port])
			seen[port] = true
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
		}
	}
}
