// Package e2e holds the end-to-end tests: the operator, producers and workers
// on a real cluster. They are built with the tag e2e and run by `make e2e`,
// which brings the cluster up and loads the images; see README.md.
package e2e
