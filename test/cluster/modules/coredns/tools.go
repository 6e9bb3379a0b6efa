//go:build tools

// Package coredns pins the coredns binary of the test cluster.
package coredns

import _ "github.com/coredns/coredns"
