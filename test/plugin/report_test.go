package plugin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
)

// TestReportInABrowser: the page shows the trees, plots and troubles in a real browser, loads nothing, and needs no script.
func TestReportInABrowser(t *testing.T) {
	t.Parallel()
	browser := chromium(t)
	w := newWorld(t)
	server := w.Server(faulty.Options{})
	server.Answer(faulty.Scalar("20"))
	w.apply(deployment("llm", 1))
	w.apply(group("pair", "llm", 2, ""))
	w.apply(deployment("web", 1))
	w.apply(scaler("web", queue(server.URL()), deploymentKind))
	w.apply(`
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: "office"}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: gone, namespace: NAMESPACE}
  triggers: {times: {rules: [{name: "a<b>c", cron: "0 9 * * *", replicas: 2}]}}
`)
	w.shows(0, words("explain esc/web"), "MetricAboveTarget")
	file := filepath.Join(t.TempDir(), "report.html")
	testkit.Eventually(t, soon, "a report with plots", func(ctx context.Context) error {
		r := w.runIn(ctx, "--kubeconfig", kubeconfig, "-n", w.Namespace, "report", "--prometheus", env.Lab.PrometheusURL(), "--since", "5m", "--file", file)
		if err := r.check(0); err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err == nil && !strings.Contains(string(text), `aria-label="Replicas"`) {
			err = errors.New("there is no plot of replicas yet")
		}
		return err
	})
	// Served, since Chromium may not look into temporary folders.
	page := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(file))))
	defer page.Close()

	allocated, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox)...)
	defer cancel()
	tab, cancel := chromedp.NewContext(allocated)
	defer cancel()
	if err := chromedp.Do(tab, chromedp.EmulateViewport(1000, 800), chromedp.Navigate(page.URL+"/report.html")); err != nil {
		t.Fatal(err)
	}
	seen, err := chromedp.Run(tab, chromedp.Evaluate[shown](`(() => {
		const lines = [...document.querySelectorAll("svg path.line")], root = document.documentElement;
		return {
			title: document.title, text: document.body.innerText, scripts: document.scripts.length,
			overflow: root.scrollWidth > root.clientWidth, plotted: lines.length,
			visible: lines.filter(l => l.getTotalLength() > 0 && getComputedStyle(l).stroke != "none").length,
			loaded: performance.getEntriesByType("resource").map(e => e.name),
		};
	})()`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "Scaling in namespace " + w.Namespace; seen.Title != want {
		t.Errorf("the title is %q, want %q", seen.Title, want)
	}
	for _, want := range []string{
		"Who scales what", "resourcescalinggroup/pair", "What comes next", "a<b>c", "group 1", "pair-llm-1", "Last decision", "queue", "TargetNotFound", "It wants 2 groups",
	} {
		if !strings.Contains(seen.Text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if seen.Overflow {
		t.Error("the page is wider than its window")
	}
	// Groups in three states; replicas current, desired, least, most; value and target; a proposal; the Tidal has none.
	if seen.Plotted < 8 || seen.Visible == 0 {
		t.Errorf("%d lines are plotted, %d of them visible; want at least 8", seen.Plotted, seen.Visible)
	}
	if seen.Scripts != 0 || len(seen.Loaded) != 0 {
		t.Errorf("the page has %d scripts, and loads %v", seen.Scripts, seen.Loaded)
	}
	if t.Failed() {
		t.Logf("the page shows:\n%s", seen.Text)
	}
}

// TestReportOfOneObject: the page is about the object that is named, and no other.
func TestReportOfOneObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"first", "second"} {
		w.apply(deployment(name, 1))
		w.apply(group("of-"+name, name, 2, ""))
	}
	r := w.shows(0, words("report rsg/of-first"), "<title>Scaling of ResourceScalingGroup "+w.Namespace+"/of-first</title>", "of-first-first-1", "It wants 2 groups; 2 are complete and 2 are ready.",
		"a scale-down would take")
	if strings.Contains(r.stdout, "second") {
		t.Errorf("the page has another object too:\n%s", r.stdout)
	}
	if err := w.run("report", "rsg/nobody").check(1, "not found"); err != nil {
		t.Error(err)
	}
}

// shown is what the browser makes of the page.
type shown struct {
	Title    string   `json:"title"`
	Text     string   `json:"text"`
	Scripts  int      `json:"scripts"`
	Overflow bool     `json:"overflow"`
	Plotted  int      `json:"plotted"`
	Visible  int      `json:"visible"`
	Loaded   []string `json:"loaded"`
}

// chromium is the browser. Where there is none the test is left out, but for CI, which has one.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no Chromium, which CI must have")
	}
	t.Skip("there is no Chromium here to look at the page with: install the package chromium")
	return ""
}
