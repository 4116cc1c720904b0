package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const recording = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:00:25.0000000,300,30
2023-11-16 18:00:00.5000000,100,10
2023-11-16 18:00:10.4999999,200,20
`

func TestDerive(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "recording.csv")
	if err := os.WriteFile(path, []byte(recording), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{directory, "short=" + path}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"short-series.csv":  "second,requests,promptTokens,outputTokens\n0,2,300,30\n10,0,0,0\n20,1,300,30\n",
		"short-lengths.csv": "percentile,promptTokens,outputTokens\n0,100,10\n",
	} {
		got, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s, error %v:\n%s\nwant it to begin with\n%s", name, err, got, want)
		}
	}
}

func TestDeriveRefuses(t *testing.T) {
	directory := t.TempDir()
	for name, tt := range map[string]struct{ recording, want string }{
		"other columns": {recording: "A,B,C\n", want: "header"},
		"no requests":   {recording: "TIMESTAMP,ContextTokens,GeneratedTokens\n", want: "no requests"},
		"bad time":      {recording: "TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,1\n", want: "row 2"},
		"bad number":    {recording: "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:25.0000000,1,many\n", want: "row 2"},
	} {
		path := filepath.Join(directory, "recording.csv")
		if err := os.WriteFile(path, []byte(tt.recording), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run([]string{directory, "bad=" + path}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
	if err := run([]string{directory}); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Errorf("without a recording: error %v", err)
	}
}
