package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// survived is the outcome of a mutant that no test noticed.
const survived = "SURVIVED"

// deadline of one test run: a mutant that loops is killed by it.
const deadline = 5 * time.Minute

// suite is a package whose tests are to notice.
type suite struct {
	name, pkg string
	args      []string
}

// try applies a mutant and returns what killed it.
func try(ctx context.Context, dir string, number int, m mutant, s settings) (string, error) {
	overlay, err := apply(dir, number, m)
	if err != nil {
		return "", err
	}
	suites := []suite{
		{"core", "./workpull/internal/core", []string{"-test.timeout=2m"}},
		{"sim", "./workpull/internal/sim", []string{"-test.timeout=4m", "-test.run=TestSeeds", "-seeds", fmt.Sprint(s.seeds), "-minimise=0"}},
	}
	for _, suite := range suites {
		if s.by != "" && s.by != suite.name {
			continue
		}
		by, err := suite.test(ctx, filepath.Join(dir, fmt.Sprintf("%d.%s", number, suite.name)), overlay)
		if err != nil || by != "" {
			return by, err
		}
	}
	return survived, nil
}

// apply writes the changed file and the overlay that puts it in place.
func apply(dir string, number int, m mutant) (overlay string, err error) {
	source, err := filepath.Abs(filepath.Join("workpull", "internal", "core", m.file))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", m.file, err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return "", fmt.Errorf("read what is to be changed: %w", err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("the text to be changed occurs %d times in %s, wanted once", n, m.file)
	}
	changed := filepath.Join(dir, fmt.Sprintf("%d.go", number))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		return "", fmt.Errorf("write the changed file: %w", err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		return "", fmt.Errorf("encode the overlay: %w", err)
	}
	overlay = filepath.Join(dir, fmt.Sprintf("%d.json", number))
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}

// test builds and runs the suite with the overlay and names what failed first;
// nothing did when by is empty.
func (s suite) test(ctx context.Context, binary, overlay string) (by string, err error) {
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-ldflags=-s -w", "-o", binary, s.pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	defer os.Remove(binary)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	test := exec.CommandContext(ctx, binary, s.args...)
	test.Dir = filepath.FromSlash(s.pkg) // as go test does
	out, err := test.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil || strings.Contains(string(out), "panic: test timed out"):
		return s.name + ": it never ends", nil
	case !errors.As(err, &failed):
		return "", fmt.Errorf("run the tests of %s: %w", s.pkg, err)
	}
	return s.name + ": " + first(string(out)), nil
}

// first is the first failing test with what it says of the invariant that
// broke, or the first line of a panic.
func first(out string) string {
	name, invariant := "", ""
	for line := range strings.Lines(out) {
		text := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(text, "--- FAIL: "); ok {
			next, _, _ := strings.Cut(rest, " ")
			if name == "" || strings.HasPrefix(next, name+"/") {
				name = next
			}
		}
		if _, rest, ok := strings.Cut(text, "broken invariant: "); ok && invariant == "" {
			invariant = ", " + rest
		}
		if rest, ok := strings.CutPrefix(text, "panic: "); ok && name == "" {
			rest, _, _ = strings.Cut(rest, " [recovered")
			return rest
		}
	}
	return name + invariant
}
