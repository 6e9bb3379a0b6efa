package series

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

	"github.com/workpull/operator/bench/internal/stats"
)

// Row is one line of the table.
type Row struct {
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

func summarise(m Measure, values []float64) Row {
	middle, spread := stats.Median(values)
	r := Row{Measure: m.Name, Value: middle, Unit: m.Unit, Better: m.Better, Runs: len(values), Spread: spread}
	if m.Bar != 0 {
		r.Bar = &m.Bar
	}
	return r
}

// met tells whether the median reaches the bar.
func (r *Row) met() bool {
	if r.Better == Lower {
		return r.Value <= *r.Bar
	}
	return r.Value >= *r.Bar
}

// verdict is the bar and whether it is met, as shown.
func (r *Row) verdict() (bar, met string) {
	if r.Bar == nil {
		return "", ""
	}
	bar = "≥ " + figure(*r.Bar)
	if r.Better == Lower {
		bar = "≤ " + figure(*r.Bar)
	}
	if r.met() {
		return bar, "met"
	}
	return bar, "not met"
}

func report(to io.Writer, rows []Row, notes []string) error {
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

func write(path string, rows []Row) (err error) {
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
