//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// submitWord as the first argument makes this program a client that runs in a
// node's box and needs no API server.
const submitWord = "submit-jobs"

// submitter is the command that submits jobs to a URL for a while and prints
// the ids that were acknowledged.
func submitter(url, prefix string, d time.Duration) []string {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return []string{program, submitWord, url, prefix, d.String()}
}

// submitJobs is that command.
func submitJobs(url, prefix, limit string) error {
	d, err := time.ParseDuration(limit)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 5 * time.Second}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for n, end := 0, time.Now().Add(d); time.Now().Before(end); n++ {
		<-ticker.C
		id := prefix + "-" + strconv.Itoa(n)
		answer, err := client.Post(url+"?id="+id, "application/json", bytes.NewReader([]byte(`{"sleep":"1ms"}`)))
		if err != nil {
			return fmt.Errorf("submit %s: %w", id, err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusAccepted {
			return fmt.Errorf("submit %s: want 202, got %s", id, answer.Status)
		}
		fmt.Println(id)
	}
	return nil
}

// apiServerProcess finds the API server of the tests' cluster by its command
// line, which names a file of the cluster's folder.
func apiServerProcess() (int, error) {
	folder := filepath.Dir(env.records)
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(data), "\x00")
		if filepath.Base(args[0]) == "kube-apiserver" && slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, folder) }) {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no kube-apiserver of %s runs here", folder)
}

// programs is the folder of Debian's PostgreSQL.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no PostgreSQL in /usr/lib/postgresql: install Debian's postgresql-15")
	}
	return filepath.Dir(found[len(found)-1]), nil
}
