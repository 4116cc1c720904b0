// Package docs tests the documentation against the code: reasons, metrics and links.
package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pd-orchestrator/pd-orchestrator/internal/telemetry"
)

// root is the root of the repository.
const root = "../.."

// kinds are those whose conditions a package of api defines, by its folder.
var kinds = map[string][]string{
	"autoscaling":   {"ResourceScalingGroup"},
	"elasticscaler": {"ElasticScaler"},
	"tidal":         {"Tidal"},
	"ome":           {"AutoscalerPolicy", "InferenceService"},
}

// Every reason that an object can show is in the index, for a kind that shows it, and nothing else is.
func TestTheIndexOfReasonsIsComplete(t *testing.T) {
	t.Parallel()
	index := reasonIndex(t)
	known := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(root, "api", "*", "v*", "conditions.go"))
	if err != nil || len(files) != len(kinds) {
		t.Fatalf("there are the files %v of conditions (%v), want one for each of %v", files, err, kinds)
	}
	for _, file := range files {
		group := filepath.Base(filepath.Dir(filepath.Dir(file)))
		reasons := constantsIn(t, file, "Reason")
		if len(reasons) == 0 {
			t.Errorf("%s defines no reason", file)
		}
		for _, reason := range reasons {
			known[reason] = true
			of := index[reason]
			if !slices.ContainsFunc(of, func(kind string) bool { return kind == "all" || slices.Contains(kinds[group], kind) }) {
				t.Errorf("docs/troubleshooting.md does not explain reason %s for one of %v; it has it for %v", reason, kinds[group], of)
			}
		}
	}
	for reason := range index {
		if !known[reason] {
			t.Errorf("docs/troubleshooting.md explains reason %s, which nothing defines", reason)
		}
	}
}

// reasonIndex returns the kinds that docs/troubleshooting.md explains a reason for.
func reasonIndex(t *testing.T) map[string][]string {
	t.Helper()
	index := map[string][]string{}
	for _, cells := range rowsOf(t, "troubleshooting.md", "Reasons", "A ResourceScalingGroup makes no new groups") {
		for _, reason := range reasonName.FindAllStringSubmatch(cells[1], -1) {
			for kind := range strings.SplitSeq(cells[2], ",") {
				index[reason[1]] = append(index[reason[1]], strings.TrimSpace(kind))
			}
		}
	}
	return index
}

// rowsOf returns the cells of the tables of a page from one heading to another. What is before the first bar is the cell 0.
func rowsOf(t *testing.T, page, from, to string) [][]string {
	t.Helper()
	section, _, ends := strings.Cut(read(t, filepath.Join(root, "docs", page)), "\n## "+to+"\n")
	_, section, begins := strings.Cut(section, "\n## "+from+"\n")
	if !ends || !begins {
		t.Fatalf("docs/%s has lost the headings %q and %q", page, from, to)
	}
	var rows [][]string
	for line := range strings.SplitSeq(section, "\n") {
		if cells := strings.Split(line, "|"); len(cells) >= 4 {
			rows = append(rows, cells)
		}
	}
	return rows
}

// The events of a ResourceScalingGroup have names of their own; those of the other kinds are named like reasons.
func TestTheEventsOfAResourceScalingGroupAreExplained(t *testing.T) {
	t.Parallel()
	var explained []string
	for _, cells := range rowsOf(t, "resourcescalinggroup.md", "Events", "When something is not as expected") {
		for _, event := range reasonName.FindAllStringSubmatch(cells[1], -1) {
			explained = append(explained, event[1])
		}
	}
	events := constantsIn(t, filepath.Join(root, "api", "autoscaling", "v1alpha1", "conditions.go"), "Event")
	slices.Sort(events)
	slices.Sort(explained)
	if len(events) == 0 || !slices.Equal(events, explained) {
		t.Errorf("docs/resourcescalinggroup.md explains the events %v, want %v", explained, events)
	}
}

// constantsIn returns the values of a file's constants whose names begin with the prefix.
func constantsIn(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if !strings.HasPrefix(name.Name, prefix) {
				continue
			}
			literal, ok := spec.Values[i].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: the value of %s is no literal", file, name.Name)
				continue
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return false
	})
	return values
}

// registered collects the names of metrics instead of registering them.
type registered map[string]bool

func (r registered) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		c.Describe(descs)
	}()
	for desc := range descs {
		// A description does not give its name but as text.
		r[strings.Split(desc.String(), `"`)[1]] = true
	}
	return nil
}

func (r registered) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = r.Register(c)
	}
}

func (registered) Unregister(prometheus.Collector) bool { return false }

// Every metric that a page names is one that a component has.
func TestMetricsInTheDocumentationExist(t *testing.T) {
	t.Parallel()
	has := registered{}
	for _, register := range []func() error{
		func() error { _, err := telemetry.New(has); return err },
		func() error { _, err := telemetry.NewElasticScaler(has); return err },
		func() error { _, err := telemetry.NewTidal(has); return err },
		func() error { _, err := telemetry.NewAutoscalerPolicy(has); return err },
	} {
		if err := register(); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for _, page := range pages(t) {
		for _, name := range metricName.FindAllString(read(t, page), -1) {
			seen++
			base := seriesSuffix.ReplaceAllString(name, "")
			if !has[name] && !has[base] {
				t.Errorf("%s names metric %s, which no component has", page, name)
			}
		}
	}
	if seen == 0 {
		t.Error("no page names a metric, so this test looks in the wrong places")
	}
}

// published is where the repository is read on the web.
const published = "https://github.com/pd-orchestrator/pd-orchestrator/blob/main/"

// Every link to a file of the repository leads to one, and every anchor to a heading.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, page := range pages(t) {
		for _, link := range links(read(t, page)) {
			seen++
			if err := follow(page, link.target); err != nil {
				t.Errorf("%s:%d: the link %q %v", page, link.line, link.target, err)
			}
		}
	}
	// Alerts lead to what is to be done.
	const alerts = "charts/pd-orchestrator/files/alerts.yaml"
	for _, target := range regexp.MustCompile(regexp.QuoteMeta(published)+`\S+`).FindAllString(read(t, filepath.Join(root, alerts)), -1) {
		seen++
		if err := follow(filepath.Join(root, "README.md"), target); err != nil {
			t.Errorf("%s: the link %q %v", alerts, target, err)
		}
	}
	if seen < 100 {
		t.Errorf("only %d links were found", seen)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	page := filepath.Join(root, "README.md")
	for target, leads := range map[string]bool{
		"docs/lab.md": true, "docs/lab.md#use-it-from-go": true, "docs/": true, "#try-it": true,
		published + "docs/lab.md#use-it-from-go": true, "https://example.com/anything#at-all": true,
		"docs/labs.md": false, "docs/lab.md#use-it-from-c": false, "#nowhere": false, published + "docs/labs.md": false,
	} {
		if err := follow(page, target); (err == nil) != leads {
			t.Errorf("following %s: %v, want that it leads somewhere: %t", target, err, leads)
		}
	}
}

// follow reports where a link of a page leads nowhere. What is elsewhere on the web is not asked for.
func follow(page, target string) error {
	if in, ok := strings.CutPrefix(target, published); ok {
		page, target = filepath.Join(root, "README.md"), in
	}
	address, err := url.Parse(target)
	if err != nil || address.Scheme != "" {
		return err
	}
	file := page
	if address.Path != "" {
		file = filepath.Join(filepath.Dir(page), filepath.FromSlash(address.Path))
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("leads to no file: %w", err)
	}
	if address.Fragment == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("leads to no page: %w", err)
	}
	if there := anchors(string(text)); !slices.Contains(there, address.Fragment) {
		return fmt.Errorf("leads to none of the headings %v", there)
	}
	return nil
}

type link struct {
	target string
	line   int
}

// prose returns the lines of a page, with those that are code emptied.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
			lines[i] = ""
		case fenced, strings.HasPrefix(line, "    ") && (i == 0 || lines[i-1] == ""):
			lines[i] = ""
		}
	}
	return lines
}

var (
	linkText   = regexp.MustCompile(`\]\(([^()\s]+)\)|^\[[^\]]+\]:\s+(\S+)`)
	inlineCode = regexp.MustCompile("`[^`]*`")

	headingText   = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*$`)
	linkInHeading = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	metricName    = regexp.MustCompile(`\bpdo_[a-z_]+[a-z]`)
	seriesSuffix  = regexp.MustCompile(`_(bucket|count|sum)$`)
	reasonName    = regexp.MustCompile("`([A-Za-z]+)`")
)

// links returns what a page links to, outside of code.
func links(text string) []link {
	var found []link
	for i, line := range prose(text) {
		for _, m := range linkText.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
			found = append(found, link{target: m[1] + m[2], line: i + 1})
		}
	}
	return found
}

// anchors returns the anchors of a page's headings as GitHub makes them: lower case, without punctuation, hyphens for spaces,
// and a number behind those that come again.
func anchors(text string) []string {
	var found []string
	times := map[string]int{}
	for _, line := range prose(text) {
		m := headingText.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		heading := linkInHeading.ReplaceAllString(m[1], "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, heading)
		times[anchor]++
		if n := times[anchor]; n > 1 {
			anchor += "-" + strconv.Itoa(n-1)
		}
		found = append(found, anchor)
	}
	return found
}

// pages returns the Markdown files of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"):
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
