package series

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestPercentagesAreOfTheSameRound(t *testing.T) {
	four := Experiment{Name: "four", Measures: []Measure{{Name: "four", Unit: "jobs/s", Better: Higher, Bar: 100}}}
	many := Experiment{Name: "many", Measures: []Measure{
		{Name: "many", Unit: "jobs/s", Better: Higher},
		{Name: "share", Unit: "%", Better: Higher, Bar: 60, Of: "four"},
	}}
	s := Series{Experiments: []Experiment{four, many}}
	for _, rates := range [][2]float64{{100, 90}, {200, 100}, {50, 40}} { // the machine drifts
		round := map[string]float64{}
		four.enter(round, rates[:1])
		many.enter(round, rates[1:])
		s.rounds = append(s.rounds, round)
	}
	failed := map[string]float64{} // a round without its whole has no percentage
	many.enter(failed, []float64{1000})
	s.rounds = append(s.rounds, failed)

	rows := s.Rows(regexp.MustCompile("four|share"))
	if len(rows) != 2 {
		t.Fatalf("rows %+v, want two", rows)
	}
	if r := rows[0]; r.Value != 100 || r.Spread != 150 || r.Runs != 3 || !r.met() {
		t.Errorf("four: %+v, want a median of 100 and a spread of 150 in 3 runs, met", r)
	}
	if r := rows[1]; r.Value != 80 || r.Spread != 40 || r.Runs != 3 || *r.Bar != 60 {
		t.Errorf("share: %+v, want a median of 80%% and a spread of 40 in 3 runs", r)
	}
}

func TestTheTableShowsTheBarAndWhetherItIsMet(t *testing.T) {
	rows := []Row{
		summarise(Measure{Name: "rate", Unit: "jobs/s", Better: Higher, Bar: 275_000}, []float64{275_000}),
		summarise(Measure{Name: "slow", Unit: "jobs/s", Better: Higher, Bar: 275_000}, []float64{274_999}),
		summarise(Measure{Name: "wait", Unit: "ms", Better: Lower, Bar: 5}, []float64{5}),
		summarise(Measure{Name: "long", Unit: "ms", Better: Lower, Bar: 5}, []float64{5.01}),
		summarise(Measure{Name: "size", Unit: "B/job", Better: Lower}, []float64{1527.4}),
	}
	var table strings.Builder
	if err := report(&table, rows, []string{"size: a remark"}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(table.String()), "\n")[1:]
	for i, want := range []string{
		"rate 275000 0 jobs/s 1 ≥ 275000 met",
		"slow 274999 0 jobs/s 1 ≥ 275000 not met",
		"wait 5.00 0 ms 1 ≤ 5.00 met",
		"long 5.01 0 ms 1 ≤ 5.00 not met",
		"size 1527 0 B/job 1",
		"size: a remark",
	} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}

func TestRowsAreWrittenAsLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".bench", "workpull.jsonl")
	rows := []Row{
		summarise(Measure{Name: "a", Unit: "ms", Better: Lower, Bar: 5}, []float64{3, 9, 4}),
		summarise(Measure{Name: "b", Unit: "B/job", Better: Lower}, []float64{1}),
	}
	if err := write(path, rows); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []map[string]any
	for scan := bufio.NewScanner(f); scan.Scan(); {
		line := map[string]any{}
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	want := map[string]any{"measure": "a", "value": 4.0, "unit": "ms", "bar": 5.0, "better": "lower", "runs": 3.0, "spread": 6.0}
	for key, value := range want {
		if lines[0][key] != value {
			t.Errorf("%s is %v, want %v", key, lines[0][key], value)
		}
	}
	if bar, there := lines[1]["bar"]; !there || bar != nil {
		t.Errorf("bar is %v, want null where there is none", bar)
	}
}

func TestSlug(t *testing.T) {
	if got, want := Slug("Wait, p99 (8 workers)"), "wait-p99-8-workers"; got != want {
		t.Errorf("slug %q, want %q", got, want)
	}
}
