// Package failpoint kills the process at a named step, so that tests find out
// what a crash between two steps leaves behind. Without the build tag
// failpoints a Hit does nothing and costs nothing.
package failpoint

// Variable names the environment variable that sets the failpoint of a process
// that was built with the tag: the name and the passing at which it is killed,
// as in "pebble-before-write:3". Without a count it is the first.
const Variable = "WORKPULL_FAILPOINT"
