package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// runLimit is how long one run may take before it counts as hung.
const runLimit = 3 * time.Minute

// series is a number of rounds, each with one run of every experiment.
type series struct {
	runs        int
	profiles    string // folder, if any
	seed        uint64
	experiments []experiment
	rounds      []map[string]float64 // value by measure
	said        map[string][]string  // notes of the last run, by experiment
}

// outcome is what a run says on its standard output.
type outcome struct {
	Values []float64 `json:"values"`
	Notes  []string  `json:"notes,omitempty"`
}

// run plays the rounds. A run that fails costs its own values only.
func (s *series) run(ctx context.Context) error {
	s.said = map[string][]string{}
	var errs []error
	for round := 1; round <= s.runs; round++ {
		values := map[string]float64{}
		for _, e := range s.experiments {
			o, err := s.once(ctx, e, round)
			if err == nil && len(o.Values) != e.measured() {
				err = fmt.Errorf("gave %d values, wanted %d", len(o.Values), e.measured())
			}
			if err != nil {
				err = fmt.Errorf("%s, run %d: %w", e.name, round, err)
				fmt.Fprintln(os.Stderr, err)
				errs = append(errs, err)
				if ctx.Err() != nil {
					return errors.Join(errs...)
				}
				continue
			}
			s.said[e.name] = o.Notes
			e.enter(values, o.Values)
			fmt.Fprintf(os.Stderr, "run %d of %d, %s: %s %s\n", round, s.runs, e.name, figure(o.Values[0]), e.measures[0].unit)
		}
		s.rounds = append(s.rounds, values)
	}
	return errors.Join(errs...)
}

// measured is how many values a run gives.
func (e *experiment) measured() int {
	n := 0
	for _, m := range e.measures {
		if m.of == "" {
			n++
		}
	}
	return n
}

// enter puts a run's values, and the percentages that follow from them, into
// those of its round.
func (e *experiment) enter(round map[string]float64, values []float64) {
	next := 0
	for _, m := range e.measures {
		if m.of == "" {
			round[m.name] = values[next]
			next++
		} else if whole, ok := round[m.of]; ok {
			round[m.name] = 100 * values[0] / whole
		}
	}
}

// once runs an experiment in a process of its own.
func (s *series) once(ctx context.Context, e experiment, round int) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	args := []string{onceRole, "-seed", strconv.FormatUint(s.seed, 10), "-experiment", e.name}
	if s.profiles != "" {
		args = append(args, "-profile", filepath.Join(s.profiles, fmt.Sprintf("%s.%d", slug(e.name), round)))
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, os.Stderr, orphaned
	if err := cmd.Run(); err != nil {
		return o, errors.Join(err, ctx.Err())
	}
	return o, json.Unmarshal(out.Bytes(), &o)
}

// runOnce is that process.
func runOnce(ctx context.Context, e extent, args []string) error {
	flags := flag.NewFlagSet(onceRole, flag.ContinueOnError)
	name := flags.String("experiment", "", "name of the experiment")
	seed := flags.Uint64("seed", 1, "seed of the arrivals")
	profile := flags.String("profile", "", "beginning of the profiles' names")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, x := range experiments(e, *seed) {
		if x.name != *name {
			continue
		}
		b := &bench{profile: *profile}
		values, err := x.once(ctx, b)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(outcome{Values: values, Notes: b.notes})
	}
	return fmt.Errorf("no experiment %q", *name)
}

// rows gives the wanted measures that have values.
func (s *series) rows(wanted *regexp.Regexp) []row {
	var rows []row
	for _, e := range s.experiments {
		for _, m := range e.measures {
			if !wanted.MatchString(m.name) {
				continue
			}
			var values []float64
			for _, round := range s.rounds {
				if v, ok := round[m.name]; ok {
					values = append(values, v)
				}
			}
			if len(values) > 0 {
				rows = append(rows, summarise(m, values))
			}
		}
	}
	return rows
}

// notes are the runs' remarks, in the table's order.
func (s *series) notes() []string {
	var notes []string
	for _, e := range s.experiments {
		for _, note := range s.said[e.name] {
			notes = append(notes, e.name+": "+note)
		}
	}
	return notes
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// slug makes a file name of a measure's.
func slug(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
}
