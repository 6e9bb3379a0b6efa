// Package testport finds ports for tests that have to name a port before they
// listen on it.
//
// The kernel's own choice (port 0) is no good for that: it takes ports from the
// range that it also gives to outgoing connections, and one of these may have
// the port by the time the test listens. The ports here lie below that range,
// and each process has a block of its own.
package testport

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Blocks of ports below the kernel's range, which begins at 32768.
const (
	first  = 10_000
	block  = 256
	blocks = 88
)

var (
	mu   sync.Mutex
	next int
)

// Free returns n ports of 127.0.0.1 on which nobody listens, neither TCP nor
// UDP. A process gets each of its ports again only after all others.
func Free(t testing.TB, n int) []int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	base := first + os.Getpid()%blocks*block
	var ports []int
	for tried := 0; len(ports) < n; tried++ {
		if tried == block {
			t.Fatalf("find a free port: none of the %d from %d on is", block, base)
		}
		port := base + next%block
		next++
		if free(port) == nil {
			ports = append(ports, port)
		}
	}
	return ports
}

func free(port int) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("try %s: %w", address, err)
	}
	defer func() { _ = l.Close() }()
	p, err := net.ListenPacket("udp", address)
	if err != nil {
		return fmt.Errorf("try %s: %w", address, err)
	}
	return p.Close()
}
