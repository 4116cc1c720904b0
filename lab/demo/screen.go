package demo

import (
	"fmt"
	"io"
	"strings"
)

// Screen prints the story as plain lines, with colours where they are wanted.
type Screen struct {
	// Out receives the lines.
	Out io.Writer
	// Colour adds ANSI colours.
	Colour bool
}

// ANSI codes for the few kinds of lines that there are.
const (
	bold  = "1"
	red   = "31"
	green = "32"
	cyan  = "36"
	faint = "2"
)

func (s *Screen) paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// print does without the error: that the reader has gone away must not keep the lab from being stopped.
func (s *Screen) print(format string, args ...any) { _, _ = fmt.Fprintf(s.Out, format, args...) }

// Heading begins a part of the story.
func (s *Screen) Heading(format string, args ...any) {
	s.print("\n%s\n", s.paint(bold, "== "+fmt.Sprintf(format, args...)))
}

// Say prints a paragraph.
func (s *Screen) Say(format string, args ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		s.print("%s\n", strings.TrimRight("   "+line, " "))
	}
}

// Line prints a line as it is, to be copied to a shell.
func (s *Screen) Line(text string) { s.print("%s\n", text) }

func (s *Screen) command(format string, args ...any) {
	s.print("   %s\n", s.paint(cyan, "$ "+fmt.Sprintf(format, args...)))
}

func (s *Screen) result(format string, args ...any) {
	s.print("     "+format+"\n", args...)
}

func (s *Screen) holds(text string) { s.print("   %s %s\n", s.paint(green, "ok  "), text) }
func (s *Screen) fails(text, reason string) {
	s.print("   %s %s: %s\n", s.paint(red, "FAIL"), text, reason)
}
func (s *Screen) aside(format string, args ...any) {
	s.print("   %s\n", s.paint(faint, fmt.Sprintf(format, args...)))
}

func (s *Screen) table(lines []string) {
	s.print("\n")
	for i, line := range lines {
		if i == 0 {
			line = s.paint(bold, line)
		}
		s.print("   %s\n", line)
	}
	s.print("\n")
}

// Times prints how long the steps took.
func (s *Screen) Times(took []Took) {
	rows := make([][]string, len(took))
	for i, t := range took {
		rows[i] = []string{t.Step, fmt.Sprintf("%5.1f s", t.Time.Seconds())}
	}
	s.table(renderTable([]string{"STEP", "TIME"}, rows))
}
