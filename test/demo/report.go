package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// report writes what happens: on a terminal with a table that is drawn over
// itself, elsewhere in plain lines.
type report struct {
	to       io.Writer
	terminal bool
	begun    time.Time

	mu    sync.Mutex
	drawn int // lines of the table that stands at the end
	last  time.Time
}

// plainInterval is the time between two tables in plain lines.
const plainInterval = 5 * time.Second

func newReport(file *os.File) *report {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &report{to: file, terminal: terminal, begun: time.Now()}
}

// say writes a line above the table.
func (r *report) say(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wipe()
	fmt.Fprintf(r.to, "%6.1fs  %s\n", time.Since(r.begun).Seconds(), fmt.Sprintf(format, arguments...))
}

// step says what begins; the function that it returns says how long it took.
func (r *report) step(what string) (done func()) {
	begun := time.Now()
	r.say("%s …", what)
	return func() { r.say("%s: %.1f s", what, time.Since(begun).Seconds()) }
}

// table draws lines in the place of those drawn before.
func (r *report) table(lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.terminal {
		if time.Since(r.last) < plainInterval {
			return
		}
		r.last = time.Now()
	}
	r.wipe()
	for _, line := range lines {
		fmt.Fprintln(r.to, "         "+strings.TrimRight(line, " "))
	}
	if r.terminal {
		r.drawn = len(lines)
	}
}

// keep leaves the table where it stands.
func (r *report) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drawn = 0
}

func (r *report) wipe() {
	if r.drawn > 0 {
		fmt.Fprintf(r.to, "\x1b[%dA\x1b[J", r.drawn)
		r.drawn = 0
	}
}
