package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Sizes in pixels.
const (
	panelWidth, panelHeight = 250, 170
	marginLeft, marginTop   = 50, 40
	legendHeight            = 60
	gap                     = 30
)

const (
	kedaColour   = "#c46210"
	oursColour   = "#1f5fa8"
	oracleColour = "#4a7d3a"
)

// draw makes a panel for each trace and start time: every setting is a point,
// with its pod time to the right and its p95 wait beyond the oracle's upwards.
// Lower and further left is better.
func draw(path string, all []comparison) error {
	columns := 0
	for i := range all {
		if all[i].trace.name == all[0].trace.name {
			columns++
		}
	}
	rows := (len(all) + columns - 1) / columns
	width := marginLeft + columns*(panelWidth+gap)
	height := legendHeight + rows*(panelHeight+marginTop+gap)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="#222">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	legend(&b)
	for i := range all {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", marginLeft+i%columns*(panelWidth+gap), legendHeight+marginTop+i/columns*(panelHeight+marginTop+gap))
		panel(&b, &all[i])
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("draw the plot: %w", err)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("draw the plot: %w", err)
	}
	return nil
}

func legend(b *strings.Builder) {
	fmt.Fprintf(b, `<text x="%d" y="18" font-size="13">p95 wait beyond the oracle's (up, seconds) against pod-hours (right): one point for each setting</text>`+"\n", marginLeft)
	for i, entry := range []struct{ colour, text string }{
		{kedaColour, "HPA+KEDA"}, {oursColour, "ours"}, {oracleColour, "the oracle's pod-hours"},
	} {
		x := marginLeft + i*150
		fmt.Fprintf(b, `<circle cx="%d" cy="36" r="4" fill="%s"/><text x="%d" y="40">%s</text>`+"\n", x+4, entry.colour, x+14, entry.text)
	}
	fmt.Fprintf(b, `<text x="%d" y="40">ringed: the default setting</text>`+"\n", marginLeft+480)
}

// panel draws one comparison. Waits are on a scale of log(1 + seconds), so that
// zero has a place.
func panel(b *strings.Builder, c *comparison) {
	left, right, top := c.oracle.podTime.Hours(), 0.0, time.Second
	for _, o := range append(append([]outcome(nil), c.keda...), c.ours...) {
		left, right = min(left, o.podTime.Hours()), max(right, o.podTime.Hours())
		top = max(top, c.excess(o))
	}
	left, right = left*0.95, right*1.02
	x := func(hours float64) float64 { return (hours - left) / (right - left) * panelWidth }
	y := func(d time.Duration) float64 {
		return panelHeight * (1 - math.Log1p(d.Seconds())/math.Log1p(1.1*top.Seconds()))
	}
	fmt.Fprintf(b, `<text x="0" y="-8" font-weight="bold">%s, pods start in %s</text>`+"\n", c.trace.name, short(c.start))
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="none" stroke="#999"/>`+"\n", panelWidth, panelHeight)
	for _, seconds := range []int{0, 1, 3, 10, 30, 100, 300, 1000, 3000} {
		d := time.Duration(seconds) * time.Second
		if d > top {
			break
		}
		fmt.Fprintf(b, `<path d="M0 %.1fH%d" stroke="#ddd"/><text x="-6" y="%.1f" text-anchor="end">%d</text>`+"\n", y(d), panelWidth, y(d)+4, seconds)
	}
	step := niceStep(right - left)
	for hours := math.Ceil(left/step) * step; hours <= right; hours += step {
		fmt.Fprintf(b, `<path d="M%.1f %dv4" stroke="#999"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", x(hours), panelHeight, x(hours), panelHeight+16, hours)
	}
	fmt.Fprintf(b, `<path d="M%.1f 0V%d" stroke="%s" stroke-dasharray="4 3"/>`+"\n", x(c.oracle.podTime.Hours()), panelHeight, oracleColour)
	points := func(outcomes []outcome, colour string) {
		fmt.Fprintf(b, `<g fill="%s" fill-opacity="0.6">`+"\n", colour)
		for i, o := range outcomes {
			ring := ""
			if i == 0 {
				ring = ` stroke="#000" stroke-width="1.5"`
			}
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3"%s/>`+"\n", x(o.podTime.Hours()), y(c.excess(o)), ring)
		}
		b.WriteString("</g>\n")
	}
	points(c.keda, kedaColour)
	points(c.ours, oursColour)
}

// niceStep divides a span into some five parts of a round size.
func niceStep(span float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(span/5)))
	for _, by := range []float64{2, 2.5, 2} { // 1, 2, 5, 10 times
		if span/step > 6 {
			step *= by
		}
	}
	return step
}
