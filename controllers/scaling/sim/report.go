package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"
)

// row is one line of .bench/scaling.jsonl, in the form of the other benchmarks.
type row struct {
	Measure string   `json:"measure"`
	Value   float64  `json:"value"`
	Unit    string   `json:"unit"`
	Bar     *float64 `json:"bar"`
	Better  string   `json:"better"`
	// Runs is 1 and Spread 0: the same seed gives the same figures.
	Runs   int     `json:"runs"`
	Spread float64 `json:"spread"`
}

func newRow(measure string, value float64, unit string, bar ...float64) row {
	r := row{Measure: measure, Value: value, Unit: unit, Better: "lower", Runs: 1}
	if len(bar) > 0 {
		r.Bar = &bar[0]
	}
	return r
}

func (r *row) met() bool { return r.Bar == nil || r.Value <= *r.Bar }

func rowsOf(all []comparison, c churn) []row {
	var rows []row
	for i := range all {
		c := &all[i]
		name := fmt.Sprintf("%s, pods start in %s: ", c.trace.name, short(c.start))
		rows = append(rows,
			newRow(name+"p95 wait beyond the oracle's", c.excess(c.within).Seconds(), "s", c.bar().Seconds()),
			newRow(name+"pod time", c.within.podTime.Hours(), "pod-hours", c.best.podTime.Hours()),
			newRow(name+"jobs interrupted", float64(c.within.interrupted), "jobs", 0),
			newRow(name+"jobs interrupted by the best HPA+KEDA", float64(c.best.interrupted), "jobs"),
		)
	}
	return append(rows, newRow(fmt.Sprintf("%d victims, snapshots %s old: jobs interrupted", c.victims, short(c.age)), float64(c.interrupted), "jobs", 0))
}

func report(to io.Writer, all []comparison, c churn, rows []row) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "trace\tstart\tscaler\tp50\tp95\tp99\tbeyond oracle\tbar\t\tpod-hours\tinterrupted\tsetting\t")
	for i := range all {
		c := &all[i]
		line := func(who string, o outcome, bar, met string) {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f\t%d\t%s\t\n", c.trace.name, short(c.start), who,
				tenth(o.p50), tenth(o.p95), tenth(o.p99), hundredth(c.excess(o)), bar, met, o.podTime.Hours(), o.interrupted, o.setting)
		}
		verdict := "met"
		if !c.affordable || c.excess(c.within) > c.bar() {
			verdict = "not met"
		}
		line("oracle", c.oracle, "", "")
		line("best HPA+KEDA", c.best, "", "")
		line("ours, no dearer", c.within, "≤ "+hundredth(c.bar()), verdict)
		line("HPA+KEDA, no dearer than that", c.cheaperKeda, "", "")
		line("HPA+KEDA, default", c.keda[0], "", "")
		line("ours, default", c.ours[0], "", "")
	}
	_ = w.Flush()
	for _, t := range traces() {
		fmt.Fprintf(to, "%s: %d jobs, %s\n", t.name, len(t.jobs), t.what)
	}
	fmt.Fprintf(to, "settings: %d of HPA+KEDA, %d of ours; at most %d pods of one slot\n", len(kedaGrid()), len(oursGrid()), most)
	fmt.Fprintf(to, "victims: %d deleted by snapshots %s old among %d jobs; %d more held a job by then and were released; %d jobs interrupted\n",
		c.victims, short(c.age), c.jobs, c.refused, c.interrupted)
	met, bars := 0, 0
	for i := range rows {
		if rows[i].Bar != nil {
			bars++
			if rows[i].met() {
				met++
			}
		}
	}
	fmt.Fprintf(to, "bars: %d of %d met\n", met, bars)
}

func tenth(d time.Duration) string     { return fmt.Sprintf("%.1f s", d.Seconds()) }
func hundredth(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

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
