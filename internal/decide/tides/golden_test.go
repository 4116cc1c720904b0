package tides

import (
	"bufio"
	"compress/gzip"
	"os"
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

func TestFiringsOfTenYearsEqualTheReference(t *testing.T) {
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
				s := must(t, "CRON_TZ="+g.zone+" "+g.cron)
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
