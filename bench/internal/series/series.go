package series

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Series is a number of rounds, each with one run of every experiment.
type Series struct {
	Runs        int
	Profiles    string   // folder, if any
	Arguments   []string // of each run: the program's own flags
	Experiments []Experiment

	rounds []map[string]float64 // value by measure
	said   map[string][]string  // notes of the last run, by experiment
}

// Run plays the rounds. A run that fails costs its own values only.
func (s *Series) Run(ctx context.Context) error {
	s.said = map[string][]string{}
	var errs []error
	for round := 1; round <= s.Runs; round++ {
		values := map[string]float64{}
		for i := range s.Experiments {
			e := &s.Experiments[i]
			o, err := s.once(ctx, e, round)
			if err == nil && len(o.Values) != e.measured() {
				err = fmt.Errorf("gave %d values, wanted %d", len(o.Values), e.measured())
			}
			if err != nil {
				err = fmt.Errorf("%s, run %d: %w", e.Name, round, err)
				fmt.Fprintln(os.Stderr, err)
				errs = append(errs, err)
				if ctx.Err() != nil {
					return errors.Join(errs...)
				}
				continue
			}
			s.said[e.Name] = o.Notes
			e.enter(values, o.Values)
			fmt.Fprintf(os.Stderr, "run %d of %d, %s: %s %s\n", round, s.Runs, e.Name, figure(o.Values[0]), e.Measures[0].Unit)
		}
		s.rounds = append(s.rounds, values)
	}
	return errors.Join(errs...)
}

// Rows gives the wanted measures that have values.
func (s *Series) Rows(wanted *regexp.Regexp) []Row {
	var rows []Row
	for _, e := range s.Experiments {
		for _, m := range e.Measures {
			if !wanted.MatchString(m.Name) {
				continue
			}
			var values []float64
			for _, round := range s.rounds {
				if v, ok := round[m.Name]; ok {
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

// Notes are the runs' remarks, in the table's order.
func (s *Series) Notes() []string {
	var notes []string
	for _, e := range s.Experiments {
		for _, note := range s.said[e.Name] {
			notes = append(notes, e.Name+": "+note)
		}
	}
	return notes
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Slug makes a file name of a measure's.
func Slug(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
}
