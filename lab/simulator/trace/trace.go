// Package trace holds what two recorded hours of requests to production LLM services looked like: requests and tokens per
// ten seconds, and how long prompts and answers were. See README.md for the source and its licence.
package trace

import (
	"embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

//go:embed *.csv
var files embed.FS

// Bin sums up the requests that arrived in one interval.
type Bin struct {
	Requests     int
	PromptTokens int
	OutputTokens int
}

// Trace is a recorded stream of requests.
type Trace struct {
	// BinSeconds is the length of a bin.
	BinSeconds float64
	// Bins follow each other without gaps; quiet intervals are bins without requests.
	Bins []Bin
	// PromptQuantiles and OutputQuantiles are the 0th, 1st, ... 100th percentile of tokens per request, ascending.
	PromptQuantiles, OutputQuantiles []float64
}

// Names of the traces that the package holds.
const (
	Conversation = "conversation"
	Code         = "code"
)

// Names returns the names that Load takes.
func Names() []string { return []string{Conversation, Code} }

// load reads each embedded trace once; the values are shared, so callers must not change them.
var load = map[string]func() (*Trace, error){
	Conversation: sync.OnceValues(func() (*Trace, error) { return read(Conversation) }),
	Code:         sync.OnceValues(func() (*Trace, error) { return read(Code) }),
}

// Load returns the trace of a name, which the caller must not change. A name that is not one of Names is an error.
func Load(name string) (*Trace, error) {
	f, ok := load[name]
	if !ok {
		return nil, fmt.Errorf("trace %q: must be one of %q", name, Names())
	}
	return f()
}

func read(name string) (*Trace, error) {
	series, err := readTable(name+"-series.csv", []string{"second", "requests", "promptTokens", "outputTokens"})
	if err != nil {
		return nil, err
	}
	lengths, err := readTable(name+"-lengths.csv", []string{"percentile", "promptTokens", "outputTokens"})
	if err != nil {
		return nil, err
	}
	if len(series) < 2 || len(lengths) < 2 {
		return nil, fmt.Errorf("trace %s: has too few rows", name)
	}
	t := &Trace{BinSeconds: float64(series[1][0] - series[0][0])}
	for _, row := range series {
		t.Bins = append(t.Bins, Bin{Requests: row[1], PromptTokens: row[2], OutputTokens: row[3]})
	}
	for _, row := range lengths {
		t.PromptQuantiles = append(t.PromptQuantiles, float64(row[1]))
		t.OutputQuantiles = append(t.OutputQuantiles, float64(row[2]))
	}
	return t, nil
}

func readTable(name string, header []string) ([][]int, error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading trace: %w", err)
	}
	defer func() { _ = file.Close() }()
	reader := csv.NewReader(file)
	got, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("reading trace %s: %w", name, err)
	}
	if !slices.Equal(got, header) {
		return nil, fmt.Errorf("reading trace %s: header is %q, want %q", name, got, header)
	}
	records, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading trace %s: %w", name, err)
	}
	table := make([][]int, len(records))
	for i, record := range records {
		for _, cell := range record {
			number, err := strconv.Atoi(cell)
			if err != nil {
				return nil, fmt.Errorf("reading trace %s, row %d: %w", name, i+2, err)
			}
			table[i] = append(table[i], number)
		}
	}
	return table, nil
}
