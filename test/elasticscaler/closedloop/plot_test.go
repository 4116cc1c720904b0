package closedloop

import (
	"fmt"
	"strings"
)

const (
	plotWidth, panelHeight = 900, 160
	marginLeft, marginTop  = 60, 40
)

// plot draws the load, the replicas and the queue over time, one below the other, as SVG.
func plot(name string, moments []moment) string {
	var b strings.Builder
	panels := []struct {
		title string
		value func(moment) float64
	}{
		{"requests that arrive per second", func(m moment) float64 { return m.load }},
		{"replicas", func(m moment) float64 { return m.replicas }},
		{"requests in the service", func(m moment) float64 { return m.queue }},
	}
	height := marginTop + len(panels)*(panelHeight+40)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", plotWidth+marginLeft+20, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="20" font-size="15">%s under a recorded stream</text>`+"\n", marginLeft, name)
	end := 1.0
	if len(moments) > 0 {
		end = moments[len(moments)-1].at.Seconds()
	}
	for i, p := range panels {
		top := float64(marginTop + i*(panelHeight+40))
		most := 1.0
		for _, m := range moments {
			most = max(most, p.value(m))
		}
		fmt.Fprintf(&b, `<text x="%d" y="%.0f">%s (up to %.0f)</text>`+"\n", marginLeft, top+12, p.title, most)
		fmt.Fprintf(&b, `<rect x="%d" y="%.0f" width="%d" height="%d" fill="none" stroke="#bbb"/>`+"\n", marginLeft, top+16, plotWidth, panelHeight)
		b.WriteString(`<polyline fill="none" stroke="#1f5fa8" stroke-width="1.5" points="`)
		last := -1.0
		for _, m := range moments {
			x, y := marginLeft+m.at.Seconds()/end*plotWidth, top+16+panelHeight*(1-p.value(m)/most)
			if last >= 0 {
				fmt.Fprintf(&b, "%.1f,%.1f ", x, last)
			}
			fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
			last = y
		}
		b.WriteString(`"/>` + "\n")
		step := ""
		for _, m := range moments {
			if m.step == step {
				continue
			}
			step = m.step
			x := marginLeft + m.at.Seconds()/end*plotWidth
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f" stroke="#c33" stroke-dasharray="3"/>`+"\n", x, x, top+16, top+16+panelHeight)
			if i == len(panels)-1 {
				fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" fill="#c33" font-size="10">%s</text>`+"\n", x+2, top+panelHeight+30, step)
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
