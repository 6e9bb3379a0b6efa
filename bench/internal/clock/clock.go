// Package clock reads what the kernel counts.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic reads the machine's monotonic clock, which is the same for all of
// its processes; time.Now's monotonic reading is not.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux has it since 2.6
	}
	return time.Duration(t.Nano())
}

// Processor is the processor time that this process has used.
func Processor() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // of this process it is always known
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
