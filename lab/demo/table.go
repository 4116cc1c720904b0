package demo

import (
	"strings"
	"unicode/utf8"
)

// renderTable aligns the columns of a table to the left and returns its lines, the header first. A row may be shorter
// than the header; an empty cell shows as "-".
func renderTable(header []string, rows [][]string) []string {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i := range header {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell(row, i)))
		}
	}
	lines := make([]string, 0, len(rows)+1)
	for _, row := range append([][]string{header}, rows...) {
		var line strings.Builder
		for i := range header {
			text := cell(row, i)
			line.WriteString(text)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+columnGap))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// columnGap is the number of blanks between two columns.
const columnGap = 2

func cell(row []string, i int) string {
	if i >= len(row) || row[i] == "" {
		return "-"
	}
	return row[i]
}

// wrap breaks a text at blanks into lines of at most so many characters, but for longer words.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
