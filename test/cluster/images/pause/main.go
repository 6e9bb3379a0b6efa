// Command pause is the process of every pod's sandbox: it holds the pod's namespaces, reaps, and ends when told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for reaped := true; reaped; {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			reaped = err == nil && pid > 0
		}
	}
}
