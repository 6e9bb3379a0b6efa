// Command mutants breaks the controllers in one place at a time and checks
// that a transcript or the simulation notices. Each mutant is a text and its
// replacement, applied to a copy that the compiler sees through -overlay; the
// tree is not touched.
//
//	go run ./workpull/internal/mutants             all of them; writes docs/mutants.md
//	go run ./workpull/internal/mutants -check      fails where the list in the tree has other mutants
//	go run ./workpull/internal/mutants -only B4    those whose name or rules contain B4; writes nothing
//	go run ./workpull/internal/mutants -by sim     what the simulation alone notices; writes nothing
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// mutant is one change to one file of workpull/internal/core.
type mutant struct {
	rules string // what it breaks
	name  string
	file  string
	old   string // occurs exactly once in the file
	new   string
}

const list = "docs/mutants.md"

// settings are what the command line says.
type settings struct {
	only, by        string
	seeds, parallel int
	check           bool
}

func main() {
	var s settings
	flag.StringVar(&s.only, "only", "", "only mutants whose name or rules contain this")
	flag.StringVar(&s.by, "by", "", "tests to try: core or sim; empty is core, then sim")
	flag.IntVar(&s.seeds, "seeds", 500, "seeds of the simulation")
	flag.IntVar(&s.parallel, "parallel", runtime.NumCPU(), "how many at once")
	flag.BoolVar(&s.check, "check", false, "compare with the list in the tree instead of writing it")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(s settings) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return fmt.Errorf("make a folder for the mutants: %w", err)
	}
	defer os.RemoveAll(dir)
	chosen := choose(s.only)
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant contains %q", s.only)
	}
	started := time.Now()
	outcomes := tryAll(dir, chosen, s)
	text, alive := render(chosen, outcomes)
	fmt.Print(string(text))
	fmt.Printf("\n%d mutants, %d killed, in %s\n", len(chosen), len(chosen)-len(alive), time.Since(started).Round(time.Second))
	if len(alive) > 0 {
		return fmt.Errorf("not killed:\n  %s", strings.Join(alive, "\n  "))
	}
	if s.only != "" || s.by != "" {
		return nil
	}
	return keep(text, s.check)
}

func choose(only string) []mutant {
	var chosen []mutant
	for _, m := range mutants {
		if strings.Contains(m.rules+" "+m.name, only) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// tryAll returns what killed each.
func tryAll(dir string, chosen []mutant, s settings) []string {
	outcomes := make([]string, len(chosen))
	places := make(chan struct{}, max(1, s.parallel))
	var group sync.WaitGroup
	for i, m := range chosen {
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			outcome, err := try(context.Background(), dir, i, m, s)
			if err != nil {
				outcome = "ERROR: " + err.Error()
			}
			outcomes[i] = outcome
			fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, outcome)
		})
	}
	group.Wait()
	return outcomes
}

// render writes the list, and names those that were not killed.
func render(chosen []mutant, outcomes []string) (text []byte, alive []string) {
	var b bytes.Buffer
	fmt.Fprint(&b, `# Mutants

Each row is one change to the controllers that `+"`make mutants`"+` makes, and the
first test that fails because of it: a transcript under
`+"`workpull/internal/core/testdata`"+`, or the invariant that the simulation found
broken. Written by `+"`make mutants`"+`; do not edit.

| breaks | change | file | killed by |
|---|---|---|---|
`)
	for i, m := range chosen {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.rules, m.name, m.file, outcomes[i])
		if outcomes[i] == survived || strings.HasPrefix(outcomes[i], "ERROR") {
			alive = append(alive, m.name+": "+outcomes[i])
		}
	}
	return b.Bytes(), alive
}

// keep writes the list, or compares it: the same mutants, and all killed. By
// whom first may differ, since a new transcript comes before an older one.
func keep(text []byte, check bool) error {
	if !check {
		if err := os.WriteFile(list, text, 0o644); err != nil {
			return fmt.Errorf("write the list: %w", err)
		}
		return nil
	}
	present, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	if !slices.Equal(withoutKillers(present), withoutKillers(text)) {
		return fmt.Errorf("%s lists other mutants: run make mutants", list)
	}
	return nil
}

// withoutKillers is the list without its last column.
func withoutKillers(text []byte) []string {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if cells := strings.Split(line, " | "); len(cells) > 1 {
			lines[i] = strings.Join(cells[:len(cells)-1], " | ")
		}
	}
	return lines
}
