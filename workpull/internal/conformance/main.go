// Command conformance writes docs/conformance.md: for each rule of the pattern
// the tests that name it, and whether they passed. It runs the tests itself.
//
//	go run ./workpull/internal/conformance          writes the table
//	go run ./workpull/internal/conformance -check   fails where the table in the tree is another one
//
// A test names a rule in a comment, a failure message or a transcript's
// heading: "rule 47", "rules 1, 73", "B4". The subtests of queue/queuetest name
// theirs as each queue runs them. A rule that no test names, or of which a test
// fails, is an error in either mode. Of the queues' tests only those run that
// name a rule.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const table = "docs/conformance.md"

func main() {
	check := flag.Bool("check", false, "compare with the table in the tree instead of writing it")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	named, err := scan("workpull")
	if err != nil {
		return err
	}
	passed, err := results("./workpull/...")
	if err != nil {
		return err
	}
	if err := queues(named, passed); err != nil {
		return err
	}
	text, err := render(named, passed)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(table, text, 0o644)
	}
	present, err := os.ReadFile(table)
	if err != nil {
		return err
	}
	if !bytes.Equal(present, text) {
		return fmt.Errorf("%s is out of date: run make conformance", table)
	}
	return nil
}

var (
	// mention is "rule 47", "rules 1, 73 and 89", "rules 22-24".
	mention   = regexp.MustCompile(`\brules?((?:[ ,]|and|to|-|–)*\d+)+`)
	numbers   = regexp.MustCompile(`(\d+)(?:\s*(?:-|–|to)\s*(\d+))?`)
	extension = regexp.MustCompile(`\bB(\d+)\b`)
	function  = regexp.MustCompile(`^func (Test\w+|Example\w*|Fuzz\w+)\(`)
)

// namesIn returns the rules that a text names.
func namesIn(text string) []string {
	var out []string
	for _, m := range mention.FindAllString(text, -1) {
		for _, n := range numbers.FindAllStringSubmatch(m, -1) {
			var from, to int
			_, _ = fmt.Sscan(n[1], &from)
			to = from
			if n[2] != "" {
				_, _ = fmt.Sscan(n[2], &to)
			}
			for i := from; i <= to && i <= from+100; i++ {
				out = append(out, fmt.Sprint(i))
			}
		}
	}
	return append(out, extension.FindAllString(text, -1)...)
}

// tests are those that name a rule, as package/Test names, by rule.
type tests map[string][]string

func (t tests) note(rule, test string) {
	if !slices.Contains(t[rule], test) {
		t[rule] = append(t[rule], test)
	}
}

// scan finds the tests below a folder.
func scan(root string) (tests, error) {
	named := tests{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case strings.HasSuffix(path, "_test.go"):
			return scanGo(path, named.note)
		case strings.Contains(path, "/testdata/") && strings.HasSuffix(path, ".txt"):
			return scanTranscript(path, named.note)
		}
		return nil
	})
	return named, err
}

// scanTranscript reads the headings of a transcript.
func scanTranscript(path string, note func(rule, test string)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	pkg, inner, _ := strings.Cut(path, "/testdata/")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			for _, r := range namesIn(line) {
				note(r, pkg+" TestTranscripts/"+strings.TrimSuffix(inner, ".txt"))
			}
		}
	}
	return nil
}

// scanGo reads the functions of a test file with the comments before them.
func scanGo(path string, note func(rule, test string)) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	pkg, test := filepath.Dir(path), ""
	var above []string
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		line := scanner.Text()
		if m := function.FindStringSubmatch(line); m != nil {
			test = m[1]
			for _, r := range above {
				note(r, pkg+" "+test)
			}
		}
		switch {
		case strings.HasPrefix(line, "//"):
			above = append(above, namesIn(line)...)
			continue
		case line == "}":
			test = ""
		}
		above = nil
		if test != "" {
			for _, r := range namesIn(line) {
				note(r, pkg+" "+test)
			}
		}
	}
	return scanner.Err()
}

// results runs the tests and tells which passed. Those that were skipped are
// not among them.
func results(arguments ...string) (map[string]bool, error) {
	command := exec.Command("go", append([]string{"test", "-json"}, arguments...)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("run the tests: %w", err)
	}
	passed := map[string]bool{}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for decoder.More() {
		var e struct{ Action, Package, Test string }
		if err := decoder.Decode(&e); err != nil {
			return nil, fmt.Errorf("read the tests' results: %w", err)
		}
		if e.Test == "" || e.Action != "pass" && e.Action != "fail" {
			continue
		}
		_, pkg, _ := strings.Cut(e.Package, "operator/")
		passed[pkg+" "+e.Test] = e.Action == "pass"
	}
	return passed, nil
}

func render(named tests, passed map[string]bool) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Conformance\n\nThe rules of the work-pulling pattern, and the tests that hold them. Written by\n`make conformance`, which runs the tests.\n\n| rule | what | test | result |\n|---|---|---|---|\n")
	var wrong []error
	for _, r := range rules {
		tests := named[r.name]
		if len(tests) == 0 {
			wrong = append(wrong, fmt.Errorf("rule %s (%s): no test names it", r.name, r.what))
			continue
		}
		slices.Sort(tests)
		for _, test := range tests {
			if ok, ran := passed[test]; !ran || !ok {
				wrong = append(wrong, fmt.Errorf("rule %s: %s did not pass", r.name, test))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | passed |\n", r.name, r.what, strings.Join(tests, "<br>"))
	}
	return b.Bytes(), errors.Join(wrong...)
}
