package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"text/tabwriter"
)

// row is one line of the table.
type row struct {
	Measure string `json:"measure"`
	// Value is the median of the runs, in Unit.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Bar is what is to be reached, null where the value is only reported.
	Bar    *float64 `json:"bar"`
	Better string   `json:"better"` // higher or lower
	Runs   int      `json:"runs"`
	// Spread is the highest run less the lowest, in Unit.
	Spread float64 `json:"spread"`
}

func summarise(m measure, values []float64) row {
	middle, spread := median(values)
	r := row{Measure: m.name, Value: middle, Unit: m.unit, Better: m.better, Runs: len(values), Spread: spread}
	if m.bar != 0 {
		r.Bar = &m.bar
	}
	return r
}

// met tells whether the median reaches the bar.
func (r *row) met() bool {
	if r.Better == lower {
		return r.Value <= *r.Bar
	}
	return r.Value >= *r.Bar
}

// verdict is the bar and whether it is met, as shown.
func (r *row) verdict() (bar, met string) {
	if r.Bar == nil {
		return "", ""
	}
	bar = "≥ " + figure(*r.Bar)
	if r.Better == lower {
		bar = "≤ " + figure(*r.Bar)
	}
	if r.met() {
		return bar, "met"
	}
	return bar, "not met"
}

func report(to io.Writer, rows []row, notes []string) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "measure (%d CPUs, %s, %s/%s)\tmedian\tspread\tunit\truns\tbar\t\n", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, r := range rows {
		bar, met := r.verdict()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.Measure, figure(r.Value), figure(r.Spread), r.Unit, r.Runs, bar, met)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(to, note); err != nil {
			return fmt.Errorf("print the notes: %w", err)
		}
	}
	return nil
}

// figure shows large values whole and small ones with three digits.
func figure(v float64) string {
	switch size := math.Abs(v); {
	case size >= 100 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}

func write(path string, rows []row) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the rows: %w", err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := json.NewEncoder(f)
	for _, r := range rows {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
