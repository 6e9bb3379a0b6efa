//go:build !failpoints

package failpoint

// Enabled tells whether this was built with the tag failpoints.
const Enabled = false

// Hit does nothing without the tag failpoints.
func Hit(string) {}
