package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// Deadlines of the waits, generous: a machine may be busy with a build. What is usual is in the README.
const (
	switchLimit = 30 * time.Second
	apiLimit    = 4 * time.Minute
	nodeLimit   = 4 * time.Minute
	dnsLimit    = 4 * time.Minute
	downLimit   = time.Minute
)

// poll is the time between two looks.
const poll = 100 * time.Millisecond

// TimeoutError says what did not come about in time, and what its processes logged last.
type TimeoutError struct {
	What  string
	Limit time.Duration
	Last  error
	Logs  string
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s: not within %s: %v%s", e.What, e.Limit, e.Last, e.Logs)
}

func (e *TimeoutError) Unwrap() error { return e.Last }

// wait looks until done returns nil. When limit has passed, the ends of the logs become part of the error.
func (c *Cluster) wait(ctx context.Context, what string, limit time.Duration, logs []string, done func(context.Context) error) error {
	start := c.now()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var last error
	for {
		err := done(limited)
		if err == nil {
			c.timed(what, start)
			return nil
		}
		if limited.Err() == nil || last == nil {
			last = err // what is said when the time has run out tells less
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil { // it ends the limited one too
				return fmt.Errorf("wait for %s: %w", what, ctx.Err())
			}
			return &TimeoutError{what, limit, last, tails(logs)}
		case <-tick.C:
		}
	}
}

// tails renders the last lines of each log that has any.
func tails(logs []string) string {
	const lines = 15
	var out strings.Builder
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil || len(data) == 0 {
			continue
		}
		all := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
		fmt.Fprintf(&out, "\n--- the end of %s:", log)
		for _, line := range all[max(0, len(all)-lines):] {
			fmt.Fprintf(&out, "\n%.400s", line)
		}
	}
	return out.String()
}
