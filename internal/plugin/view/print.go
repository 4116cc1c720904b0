package view

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Style colours text where the output is a terminal.
type Style struct {
	// Colour switches colours on.
	Colour bool
}

func (s Style) paint(code, text string) string {
	if !s.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold is for titles.
func (s Style) Bold(text string) string { return s.paint("1", text) }

// Good is for what is as it should be.
func (s Style) Good(text string) string { return s.paint("32", text) }

// Bad is for what somebody would want to mend.
func (s Style) Bad(text string) string { return s.paint("31", text) }

// printer writes lines and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// table writes a table below a title.
func (p *printer) table(t Table) {
	if p.err == nil {
		p.err = t.Print(p.w, "  ")
	}
}

// Print writes the table in columns, three blanks apart, as kubectl does.
func (t Table) Print(w io.Writer, indent string) error {
	out := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		if _, err := fmt.Fprintln(out, indent+strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return out.Flush()
}

// oneLine keeps a cell in its row.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\t", " ", "\r", " ").Replace(s) }
