package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// suite is where the queues' suite tests itself, with queues that break it: its
// subtests say nothing of a queue.
const suite = "queue/queuetest"

// subtest is one of the suite's that is named after its rules.
var subtest = regexp.MustCompile(`/((?:rule_|B)\d+_[^/]*)$`)

// queues runs the queues' tests that name a rule, and adds them. A test that
// runs the suite gives way to the suite's subtests.
func queues(named tests, passed map[string]bool) error {
	found, err := scan("queue")
	if err != nil {
		return err
	}
	var functions []string
	for _, list := range found {
		for _, test := range list {
			_, function, _ := strings.Cut(test, " ")
			functions = append(functions, function)
		}
	}
	slices.Sort(functions)
	only := "^(" + strings.Join(slices.Compact(functions), "|") + ")$"
	ran, err := results("-run", only, "./queue/...")
	if err != nil {
		return err
	}
	maps.Copy(passed, ran)
	runs := map[string]bool{} // tests that run the suite
	for test := range ran {
		m := subtest.FindStringSubmatch(test)
		if m == nil || strings.HasPrefix(test, suite+" ") {
			continue
		}
		for _, rule := range namesIn(strings.ReplaceAll(m[1], "_", " ")) {
			named.note(rule, test)
		}
		runs[top(test)] = true
	}
	for rule, list := range found {
		for _, test := range list {
			if !runs[test] {
				named.note(rule, test)
			}
		}
	}
	return nil
}

// top is the test that a subtest belongs to.
func top(test string) string {
	pkg, name, _ := strings.Cut(test, " ")
	function, _, _ := strings.Cut(name, "/")
	return pkg + " " + function
}
