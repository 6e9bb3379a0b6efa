//go:build !linux

package postgres

import "syscall"

// limitSilence has nothing to set here: keepalives have to do.
func limitSilence(string, string, syscall.RawConn) error { return nil }
