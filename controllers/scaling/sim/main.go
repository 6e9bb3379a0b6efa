// Command sim plays traces of jobs in virtual time under three scalers: this
// operator's Decide, KEDA with a HorizontalPodAutoscaler, and an oracle that
// knows the future. It prints what each made of them.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	rows := flag.String("out", "", "write the rows of the table to this `file`, one JSON object a line")
	plot := flag.String("plot", "", "draw the figures into this SVG `file`")
	flag.Parse()
	if err := run(*rows, *plot); err != nil {
		fmt.Fprintln(os.Stderr, "sim-scaling:", err)
		os.Exit(1)
	}
}

func run(rowsFile, plotFile string) error {
	var all []comparison
	for _, t := range traces() {
		for _, start := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
			all = append(all, compare(&t, start))
		}
	}
	c := churnOf(100_000)
	rows := rowsOf(all, c)
	report(os.Stdout, all, c, rows)
	if rowsFile != "" {
		if err := write(rowsFile, rows); err != nil {
			return err
		}
	}
	if plotFile != "" {
		return draw(plotFile, all)
	}
	return nil
}
