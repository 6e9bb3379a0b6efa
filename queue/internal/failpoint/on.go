//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Enabled tells whether this was built with the tag failpoints.
const Enabled = true

// set is the failpoint of the process. It is global because a process has one
// life, and read when it is first asked for.
var set = sync.OnceValue(func() *point {
	name, count, counted := strings.Cut(os.Getenv(Variable), ":")
	p := &point{name: name}
	p.left.Store(1)
	if counted {
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("%s=%s: wanted name:count, the count from 1", Variable, os.Getenv(Variable)))
		}
		p.left.Store(n)
	}
	return p
})

// point is a step and how many passings of it are left.
type point struct {
	name string
	left atomic.Int64
}

// Hit kills the process, as kill -9 would, when this is the step and the passing
// that it was told.
func Hit(name string) {
	if p := set(); p.name != name || p.left.Add(-1) != 0 {
		return
	}
	// It cannot fail, and nothing is done after it.
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {}
}
