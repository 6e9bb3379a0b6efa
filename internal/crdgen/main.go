// Command crdgen makes the CRDs that controller-gen wrote small enough for
// client-side apply: it strips the descriptions below a pod template, which
// are 570 KB of each, and keeps all others.
//
//	go run ./internal/crdgen config/crd/bases
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the folder with the CRDs, got %d", len(args))
	}
	files, err := filepath.Glob(filepath.Join(args[0], "*.yaml"))
	if err != nil {
		return fmt.Errorf("list the CRDs in %s: %w", args[0], err)
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRD in %s", args[0])
	}
	for _, file := range files {
		if err := rewrite(file); err != nil {
			return err
		}
	}
	return nil
}

func rewrite(file string) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	after, err := Strip(before)
	if err != nil {
		return fmt.Errorf("strip %s: %w", file, err)
	}
	if err := os.WriteFile(file, after, 0o644); err != nil {
		return fmt.Errorf("write CRD: %w", err)
	}
	return nil
}
