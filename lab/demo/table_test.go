package demo

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRenderTable(t *testing.T) {
	t.Parallel()
	header := []string{"GROUP", "PHASE"}
	for name, tc := range map[string]struct {
		rows [][]string
		want []string
	}{
		"no rows leave the header":                  {nil, []string{"GROUP  PHASE"}},
		"columns are as wide as their widest cell":  {[][]string{{"0", "AtZero"}, {"10000000", "Ready"}}, []string{"GROUP     PHASE", "0         AtZero", "10000000  Ready"}},
		"an empty or missing cell is a dash":        {[][]string{{"", "Ready"}, {"1"}}, []string{"GROUP  PHASE", "-      Ready", "1      -"}},
		"width is counted in characters, not bytes": {[][]string{{"größer", "x"}, {"kleine", "y"}}, []string{"GROUP   PHASE", "größer  x", "kleine  y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, renderTable(header, tc.rows)); diff != "" {
				t.Errorf("unexpected lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a short text stays whole":            {"one two", []string{"one two"}},
		"lines break at blanks":               {"one two three four", []string{"one two", "three four"}},
		"a word that is too long stays whole": {"a supercalifragilistic b", []string{"a", "supercalifragilistic", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, wrap(tc.text, 10)); diff != "" {
				t.Errorf("unexpected lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroupTable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		view view
		want []string
	}{
		"workloads that nobody has taken have neither id nor phase": {
			view: view{
				deployments: []appsv1.Deployment{deployment("llm-prefill", prefill, "", 1, 1), deployment("llm-decode", decode, "", 2, 1)},
				services:    []corev1.Service{service("llm-prefill", "", prefill)},
				pods:        []corev1.Pod{pod("a", ""), pod("b", "")},
				values:      map[int32]float64{unmanaged: 0},
			},
			want: []string{
				"GROUP  PHASE  PREFILL  DECODE  PODS  SERVICES  RUNNING  SCALE-DOWN",
				"-      -      1/1      1/2     2     1         0.00     -",
			},
		},
		"a group that is gone shows with those that are there": {
			view: view{
				rsg: status([]phased{{0, phaseAtZero}, {1, phaseReady}}, &scaleDown{Level: "Metric", Victims: []int32{0, 2}}),
				deployments: []appsv1.Deployment{
					deployment("llm-prefill", prefill, "0", 0, 0), deployment("prefill-decode-llm-prefill-1", prefill, "1", 1, 1),
				},
				// The user's own Service carries no labels of ours.
				services: []corev1.Service{service("llm-prefill", "", prefill), service("llm-prefill-prefill-decode-1", "1", prefill)},
				pods:     []corev1.Pod{pod("a", "1")},
				values:   map[int32]float64{0: 1, 1: 20.0 / 3},
			},
			want: []string{
				"GROUP  PHASE   PREFILL  DECODE  PODS  SERVICES  RUNNING  SCALE-DOWN",
				"0      AtZero  0/0      -       0     1         -        removed, by Metric",
				"1      Ready   1/1      -       1     1         6.67     -",
				"2      gone    -        -       0     0         -        removed, by Metric",
			},
		},
		"a victim is marked while it is being removed, and no value shows while Prometheus is down": {
			view: view{
				rsg:         status([]phased{{3, "Removing"}}, &scaleDown{Level: "GroupID", Victims: []int32{3}, Pending: []int32{3}}),
				deployments: []appsv1.Deployment{deployment("prefill-decode-llm-prefill-3", prefill, "3", 1, 0)},
				noMetrics:   errors.New("connection refused"),
			},
			want: []string{
				"GROUP  PHASE     PREFILL  DECODE  PODS  SERVICES  RUNNING    SCALE-DOWN",
				"3      Removing  0/1      -       0     0         no answer  victim, by GroupID",
			},
		},
		"a victim of an earlier choice that is back bears no mark": {
			view: view{
				rsg:         status([]phased{{1, phaseReady}}, &scaleDown{Level: "Metric", Victims: []int32{1}}),
				deployments: []appsv1.Deployment{deployment("prefill-decode-llm-prefill-1", prefill, "1", 1, 1)},
			},
			want: []string{
				"GROUP  PHASE  PREFILL  DECODE  PODS  SERVICES  RUNNING  SCALE-DOWN",
				"1      Ready  1/1      -       0     0         -        -",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, renderTable(tc.view.table())); diff != "" {
				t.Errorf("unexpected lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScreenColours(t *testing.T) {
	t.Parallel()
	for _, colour := range []bool{true, false} {
		var out bytes.Buffer
		screen := &Screen{Out: &out, Colour: colour}
		screen.Heading("Step %d", 1)
		screen.command("kubectl get %s", "rsg")
		screen.holds("it does")
		screen.fails("it does not", "why")
		screen.Times([]Took{{Step: "1 workloads", Time: 1500 * time.Millisecond}})
		if got := strings.Contains(out.String(), "\x1b["); got != colour {
			t.Errorf("with Colour %v there are escape sequences: %v", colour, got)
		}
		for _, want := range []string{"Step 1", "$ kubectl get rsg", "ok", "FAIL", "why", "1.5 s"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("with Colour %v %q is missing in:\n%s", colour, want, out.String())
			}
		}
	}
}

type phased struct {
	id    int32
	phase string
}

func status(groups []phased, record *scaleDown) *scalingGroup {
	s := &scalingGroup{}
	for _, g := range groups {
		s.Status.Groups = append(s.Status.Groups, groupPhase{ID: g.id, Phase: g.phase})
	}
	s.Status.LastScaleDown = record
	return s
}

// marks are the labels of an object of a group, those of the user for the empty id.
func marks(id, component string) map[string]string {
	labels := map[string]string{labelComponent: component}
	if id != "" {
		labels[labelName], labels[labelGroupID] = rsgName, id
	}
	return labels
}

func deployment(name, component, id string, desired, available int32) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: marks(id, component)}}
	d.Spec.Replicas = &desired
	d.Spec.Template.Labels = marks("", component)
	d.Status.AvailableReplicas = available
	return d
}

func service(name, id, component string) corev1.Service {
	s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: marks(id, component)}}
	s.Spec.Selector = map[string]string{labelComponent: component}
	return s
}

func pod(name, id string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: marks(id, prefill)}}
}
