package crash

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Event is what a line of the log tells.
type Event string

// Events. Each is written before anything follows from it.
const (
	// Offered: the producer actor is about to hand out a job.
	Offered Event = "offered"
	// Acknowledged: the producer actor was told that a job is stored.
	Acknowledged Event = "stored"
	// Run and Ran: a worker begins a job, and is done with it.
	Run Event = "run"
	Ran Event = "ran"
	// Confirmed: the producer actor was told that a job is confirmed (B10).
	Confirmed Event = "confirmed"
	// Fenced and Unfenced: a writer wrote after another had loaded, and was
	// refused, or was not. The job is what it wrote.
	Fenced   Event = "fenced"
	Unfenced Event = "unfenced"
	// Restored: a backup was opened and loaded.
	Restored Event = "restored"
	// Failed: something went wrong that no kill explains. The job is what.
	Failed Event = "failed"
)

// Line is an event of a life.
type Line struct {
	Life  int
	Event Event
	Job   string
}

// Log is written by one life after the other. Each line is one write, which
// outlives the process as soon as it is made.
type Log struct {
	file *os.File
	life int
}

// OpenLog opens the log for a life.
func OpenLog(name string, life int) (*Log, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Log{f, life}, nil
}

// Write adds a line. It ends the process when that fails, for then nothing can
// be judged.
func (l *Log) Write(event Event, job string) {
	if _, err := fmt.Fprintf(l.file, "%d %s %s\n", l.life, event, job); err != nil {
		fmt.Fprintln(os.Stderr, "the log cannot be written:", err)
		os.Exit(3)
	}
}

// ReadLog returns the lines of all lives, in the order in which they were
// written.
func ReadLog(r io.Reader) ([]Line, error) {
	var lines []Line
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		life, rest, _ := strings.Cut(scan.Text(), " ")
		event, job, ok := strings.Cut(rest, " ")
		n, err := strconv.Atoi(life)
		if err != nil || !ok {
			return nil, fmt.Errorf("line %d of the log: %q", len(lines)+1, scan.Text())
		}
		lines = append(lines, Line{n, Event(event), job})
	}
	return lines, scan.Err()
}
