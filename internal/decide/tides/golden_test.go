package tides

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// golden is the list of firings of one expression in one zone, made by testdata/firings.py.
type golden struct {
	zone, cron string
	from, to   int64
	firings    []int64
}

// readGolden returns the lists and the line that says which zone database they were made with.
func readGolden(t *testing.T) (string, []golden) {
	t.Helper()
	file, err := os.Open("testdata/firings.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	lines.Scan()
	version := lines.Text()
	var all []golden
	for lines.Scan() {
		head := strings.Split(lines.Text(), "\t")
		g := golden{zone: head[0], cron: head[1], from: number(head[2]), to: number(head[3])}
		lines.Scan()
		for i, run := range strings.Fields(lines.Text()) {
			if i == 0 {
				g.firings = append(g.firings, number(run))
				continue
			}
			distance, times, repeated := strings.Cut(run, "*")
			n := int64(1)
			if repeated {
				n = number(times)
			}
			for range n {
				g.firings = append(g.firings, g.firings[len(g.firings)-1]+number(distance))
			}
		}
		all = append(all, g)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return version, all
}

// toolchainZone reads a zone from the database in the Go toolchain, which is the one that is compiled into programs. Those
// of systems list the transitions of many years, and this one leaves all that follow a rule to package time.
func toolchainZone(t *testing.T, name string) *time.Location {
	t.Helper()
	archive, err := zip.OpenReader(toolchainDatabase(t))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the Go toolchain has no zone database of its own: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	file, err := archive.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func toolchainDatabase(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("looking for the Go toolchain: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")
}

func TestFiringsOfTenYearsEqualTheReference(t *testing.T) {
	t.Run("zones of the system, or else compiled in", func(t *testing.T) { equalReference(t, false) })
	t.Run("zones of the toolchain", func(t *testing.T) { equalReference(t, true) })
}

func equalReference(t *testing.T, toolchain bool) {
	t.Helper()
	if toolchain {
		if _, err := os.Stat(toolchainDatabase(t)); err != nil {
			t.Skipf("the Go toolchain has no zone database of its own: %v", err)
		}
	}
	version, all := readGolden(t)
	byZone := map[string][]golden{}
	total := 0
	for _, g := range all {
		byZone[g.zone] = append(byZone[g.zone], g)
		total += len(g.firings)
	}
	t.Logf("%d firings in %d zones, made with %s", total, len(byZone), version)
	if len(byZone) < 30 {
		t.Errorf("only %d zones", len(byZone))
	}
	for zone, lists := range byZone {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			for _, g := range lists {
				s := *must(t, "CRON_TZ="+g.zone+" "+g.cron)
				if toolchain {
					s.zone = toolchainZone(t, zone)
				}
				forwards := make([]int64, 0, len(g.firings))
				for m := s.next(g.from - 1); m < g.to; m = s.next(m) {
					forwards = append(forwards, m)
				}
				compare(t, g, "forwards", version, forwards)
				backwards := make([]int64, 0, len(g.firings))
				for m := s.previous(g.to - 1); m >= g.from; m = s.previous(m - 1) {
					backwards = append(backwards, m)
				}
				slices.Reverse(backwards)
				compare(t, g, "backwards", version, backwards)
			}
		})
	}
}

// compare reports the first difference.
func compare(t *testing.T, g golden, direction, version string, got []int64) {
	t.Helper()
	show := func(list []int64, i int) string {
		if i < len(list) {
			return time.Unix(list[i], 0).UTC().Format(time.RFC3339)
		}
		return "none"
	}
	for i := range max(len(got), len(g.firings)) {
		if i >= len(got) || i >= len(g.firings) || got[i] != g.firings[i] {
			t.Errorf("%s %q %s: firing %d of %d is %s, the reference (%s) has %s of %d",
				g.zone, g.cron, direction, i, len(got), show(got, i), version, show(g.firings, i), len(g.firings))
			return
		}
	}
}
