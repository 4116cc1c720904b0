package view

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
)

// PlotLine is one line of a plot.
type PlotLine struct {
	// Name stands in the legend.
	Name string
	// Times and Values are the points, by ascending time. A value that is no finite number is a gap.
	Times  []time.Time
	Values []float64
	// Steps draws it as steps: a count holds until the next one.
	Steps bool
}

// Plot is lines over a stretch of time.
type Plot struct {
	Title    string
	From, To time.Time
	Lines    []PlotLine
}

// The size of a plot, and the room around it for numbers.
const (
	plotWidth, plotHeight = 640, 180
	plotLeft, plotRight   = 48, 8
	plotTop, plotBottom   = 10, 24
)

// Empty reports whether there is nothing to draw.
func (p Plot) Empty() bool {
	return !slices.ContainsFunc(p.Lines, func(l PlotLine) bool { return len(l.Values) > 0 })
}

// top is the upper end of the vertical axis: a round number, so that its half is one too.
func (p Plot) top() float64 {
	most := 0.0
	for _, l := range p.Lines {
		for _, v := range l.Values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				most = max(most, v)
			}
		}
	}
	if most <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, factor := range []float64{1, 2, 4, 5, 10} {
		if rounded := factor * unit; rounded >= most && !math.IsInf(rounded, 0) {
			return rounded
		}
	}
	// At the ends of what a float64 holds nothing rounder is left.
	return most
}

// SVG draws the plot. Colours are those of the page's style: the classes line0, line1 and so on.
func (p Plot) SVG() template.HTML {
	var b strings.Builder
	top := p.top()
	x := func(t time.Time) float64 {
		return plotLeft + float64(plotWidth-plotLeft-plotRight)*float64(t.Sub(p.From))/float64(max(1, p.To.Sub(p.From)))
	}
	y := func(v float64) float64 {
		return plotHeight - plotBottom - float64(plotHeight-plotTop-plotBottom)*(max(0, v)/top)
	}
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, plotHeight, template.HTMLEscapeString(p.Title))
	for _, v := range []float64{0, top / 2, top} {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="axis" x="%d" y="%.1f" text-anchor="end">%g</text>`,
			plotLeft, plotWidth-plotRight, y(v), y(v), plotLeft-6, y(v)+4, v)
	}
	for i, anchor := range []string{"start", "middle", "end"} {
		t := p.From.Add(p.To.Sub(p.From) * time.Duration(i) / 2)
		fmt.Fprintf(&b, `<text class="axis" x="%.1f" y="%d" text-anchor="%s">%s</text>`, x(t), plotHeight-6, anchor, t.UTC().Format("15:04:05"))
	}
	for i, l := range p.Lines {
		if d := path(l, x, y); d != "" {
			fmt.Fprintf(&b, `<path class="line line%d" d="%s"><title>%s</title></path>`, i%6, d, template.HTMLEscapeString(l.Name))
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // All text in it is escaped above, and numbers are formatted here.
}

// path is the line in SVG's path language.
func path(l PlotLine, x func(time.Time) float64, y func(float64) float64) string {
	var b strings.Builder
	drawing := false
	for i, v := range l.Values {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			drawing = false
			continue
		case !drawing:
			fmt.Fprintf(&b, "M%.1f %.1f", x(l.Times[i]), y(v))
			drawing = true
		case l.Steps:
			fmt.Fprintf(&b, "H%.1fV%.1f", x(l.Times[i]), y(v))
		default:
			fmt.Fprintf(&b, "L%.1f %.1f", x(l.Times[i]), y(v))
		}
	}
	return b.String()
}
