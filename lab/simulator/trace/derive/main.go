// Command derive makes the tables of package trace from the recordings of the Azure Public Dataset.
package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const usage = `usage: derive DIRECTORY NAME=RECORDING.csv...

For each recording (columns TIMESTAMP, ContextTokens, GeneratedTokens) writes to DIRECTORY
  NAME-series.csv   requests, prompt tokens and output tokens per ten seconds from the first request on
  NAME-lengths.csv  percentiles of prompt tokens and of output tokens per request`

const binWidth = 10 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "derive:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New(usage)
	}
	for _, argument := range args[1:] {
		name, path, ok := strings.Cut(argument, "=")
		if !ok {
			return fmt.Errorf("argument %q: must be NAME=RECORDING.csv\n%s", argument, usage)
		}
		if err := derive(args[0], name, path); err != nil {
			return fmt.Errorf("deriving %s from %s: %w", name, path, err)
		}
	}
	return nil
}

type request struct {
	at             time.Time
	prompt, output int
}

func derive(directory, name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	requests, err := parse(file)
	if err != nil {
		return err
	}
	if len(requests) == 0 {
		return errors.New("the recording holds no requests")
	}
	if err := write(filepath.Join(directory, name+"-series.csv"), series(requests)); err != nil {
		return err
	}
	return write(filepath.Join(directory, name+"-lengths.csv"), lengths(requests))
}

func parse(from io.Reader) ([]request, error) {
	reader := csv.NewReader(from)
	header, err := reader.Read()
	if err != nil {
		return nil, err
	}
	if want := []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}; !slices.Equal(header, want) {
		return nil, fmt.Errorf("header is %q, want %q", header, want)
	}
	records, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	requests := make([]request, len(records))
	for i, record := range records {
		at, err := time.Parse("2006-01-02 15:04:05.0000000", record[0])
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i+2, err)
		}
		prompt, err := strconv.Atoi(record[1])
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i+2, err)
		}
		output, err := strconv.Atoi(record[2])
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i+2, err)
		}
		requests[i] = request{at, prompt, output}
	}
	slices.SortStableFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
	return requests, nil
}

func series(requests []request) [][]string {
	first, last := requests[0].at, requests[len(requests)-1].at
	type bin struct{ requests, prompt, output int }
	bins := make([]bin, int(last.Sub(first)/binWidth)+1)
	for _, r := range requests {
		b := &bins[int(r.at.Sub(first)/binWidth)]
		b.requests++
		b.prompt += r.prompt
		b.output += r.output
	}
	table := [][]string{{"second", "requests", "promptTokens", "outputTokens"}}
	for i, b := range bins {
		table = append(table, row(i*int(binWidth/time.Second), b.requests, b.prompt, b.output))
	}
	return table
}

func lengths(requests []request) [][]string {
	prompts, outputs := make([]int, len(requests)), make([]int, len(requests))
	for i, r := range requests {
		prompts[i], outputs[i] = r.prompt, r.output
	}
	slices.Sort(prompts)
	slices.Sort(outputs)
	table := [][]string{{"percentile", "promptTokens", "outputTokens"}}
	for percent := range 101 {
		i := percent * (len(requests) - 1) / 100
		table = append(table, row(percent, prompts[i], outputs[i]))
	}
	return table
}

func row(numbers ...int) []string {
	cells := make([]string, len(numbers))
	for i, n := range numbers {
		cells[i] = strconv.Itoa(n)
	}
	return cells
}

func write(path string, table [][]string) error {
	var text strings.Builder
	writer := csv.NewWriter(&text)
	if err := writer.WriteAll(table); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644) //nolint:gosec // The tables are published with the source.
}
