package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock reads the machine's monotonic clock, which is the same for all of its
// processes; time.Now's monotonic reading is not.
func clock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux has it since 2.6
	}
	return time.Duration(t.Nano())
}
