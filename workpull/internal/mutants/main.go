// Command mutants breaks the controllers in one place at a time and checks
// that a transcript or the simulation notices. Each mutant is a text and its
// replacement, applied to a copy that the compiler sees through -overlay; the
// tree is not touched.
//
//	go run ./workpull/internal/mutants            all of them
//	go run ./workpull/internal/mutants -only B4   those whose name or rules contain B4
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
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

const (
	corePackage = "./workpull/internal/core"
	simPackage  = "./workpull/internal/sim"
	// deadline of one test run: a mutant that loops is killed by it.
	deadline = 3 * time.Minute
)

// Outcomes.
const (
	survived   = "SURVIVED"
	uncompiled = "DOES NOT COMPILE"
	misplaced  = "DOES NOT APPLY"
)

func main() {
	only := flag.String("only", "", "only mutants whose name or rules contain this")
	seeds := flag.Int("seeds", 300, "seeds of the simulation")
	parallel := flag.Int("parallel", 2, "how many at once")
	flag.Parse()
	if err := run(*only, *seeds, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, seeds, parallel int) error {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var chosen []mutant
	for _, m := range mutants {
		if strings.Contains(m.rules+" "+m.name, only) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant contains %q", only)
	}
	outcomes := make([]string, len(chosen))
	places := make(chan struct{}, max(1, parallel))
	var group sync.WaitGroup
	for i, m := range chosen {
		group.Go(func() {
			places <- struct{}{}
			outcomes[i] = try(dir, i, m, seeds)
			<-places
		})
	}
	group.Wait()
	return report(chosen, outcomes)
}

func report(chosen []mutant, outcomes []string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "breaks\tmutant\tkilled by")
	alive := 0
	for i, m := range chosen {
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.rules, m.name, outcomes[i])
		switch outcomes[i] {
		case survived, uncompiled, misplaced:
			alive++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("%d mutants, %d killed\n", len(chosen), len(chosen)-alive)
	if alive > 0 {
		return fmt.Errorf("%d mutants were not killed", alive)
	}
	return nil
}

// try applies a mutant and returns what killed it.
func try(dir string, number int, m mutant, seeds int) string {
	source, err := filepath.Abs(filepath.Join("workpull", "internal", "core", m.file))
	if err != nil {
		return misplaced
	}
	text, err := os.ReadFile(source)
	if err != nil || strings.Count(string(text), m.old) != 1 {
		return misplaced
	}
	changed := filepath.Join(dir, fmt.Sprintf("%d.go", number))
	overlay := filepath.Join(dir, fmt.Sprintf("%d.json", number))
	if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		return misplaced
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		return misplaced
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return misplaced
	}
	if killed, by := test(overlay, corePackage); killed {
		return by
	}
	if killed, by := test(overlay, simPackage, "-args", "-seeds", fmt.Sprint(seeds)); killed {
		return by
	}
	return survived
}

// test runs a package with the overlay and names the first test that failed.
func test(overlay, pkg string, args ...string) (killed bool, by string) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	command := append([]string{"test", "-overlay", overlay, "-vet=off", pkg}, args...)
	out, err := exec.CommandContext(ctx, "go", command...).CombinedOutput()
	switch {
	case err == nil:
		return false, ""
	case ctx.Err() != nil:
		return true, filepath.Base(pkg) + ": no end"
	case strings.Contains(string(out), "[build failed]"):
		return true, uncompiled
	}
	return true, filepath.Base(pkg) + ": " + first(string(out))
}

// first is the innermost first failing test, or the first line of a panic.
func first(out string) string {
	name := ""
	for line := range strings.Lines(out) {
		text := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(text, "--- FAIL: "); ok {
			next, _, _ := strings.Cut(rest, " ")
			if name != "" && !strings.HasPrefix(next, name+"/") {
				break
			}
			name = next
		}
		if name == "" && strings.HasPrefix(text, "panic:") {
			return text
		}
	}
	return name
}
