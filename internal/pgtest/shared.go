package pgtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the server of the package under test: one for all of its tests,
// since each takes seconds to make.
var shared struct {
	sync.Mutex
	server *Server
	failed error
}

// Main runs the tests of a package and ends the server that they shared.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	shared.server.remove(func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
		code = 1
	})
	return code
}

// Shared is the server of the package, which is started for the first who asks.
// TestMain has to be Main.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.failed == nil {
		shared.server, shared.failed = create(t, "", nil)
	}
	if shared.failed != nil {
		t.Fatalf("start PostgreSQL: %v", shared.failed)
	}
	return shared.server
}
