package state

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
)

func TestChoose(t *testing.T) {
	source := func(namespace, name string, count any) Source {
		return Source{Kind: "Tidal", Namespace: namespace, Name: name, Count: count}
	}
	cases := map[string]struct {
		namespaces []v1alpha1.NamespaceName
		sources    []Source
		want       *int32
		reason     string
		message    string
		ignored    []string
	}{
		"nobody":                      {reason: v1alpha1.ReasonNoSource, message: "elasticscaler.io/name: s"},
		"one":                         {sources: []Source{source("ns", "a", int64(3))}, want: new(int32(3))},
		"zero is a count":             {sources: []Source{source("ns", "a", int64(0))}, want: new(int32(0))},
		"a whole number with a point": {sources: []Source{source("ns", "a", float64(4))}, want: new(int32(4))},
		"two": {sources: []Source{source("ns", "b", int64(3)), source("ns", "a", int64(3))}, reason: v1alpha1.ReasonMultipleSources,
			message: "Tidal ns/a, Tidal ns/b all name this scaler"},
		"no count yet":       {sources: []Source{source("ns", "a", nil)}, reason: v1alpha1.ReasonSourceWithoutCount, message: "Tidal ns/a"},
		"below zero":         {sources: []Source{source("ns", "a", int64(-1))}, reason: v1alpha1.ReasonSourceCountInvalid, message: "is -1"},
		"beyond int32":       {sources: []Source{source("ns", "a", int64(math.MaxInt32)+1)}, reason: v1alpha1.ReasonSourceCountInvalid},
		"a part of a number": {sources: []Source{source("ns", "a", 1.5)}, reason: v1alpha1.ReasonSourceCountInvalid},
		"not a number":       {sources: []Source{source("ns", "a", math.NaN())}, reason: v1alpha1.ReasonSourceCountInvalid},
		"a text":             {sources: []Source{source("ns", "a", "3")}, reason: v1alpha1.ReasonSourceCountInvalid, message: "must be a whole number"},
		"of another namespace": {sources: []Source{source("other", "a", int64(3))}, reason: v1alpha1.ReasonSourceNamespaceForbidden,
			message: "sourceNamespaces", ignored: []string{"Tidal other/a"}},
		"of a namespace that is named": {namespaces: []v1alpha1.NamespaceName{"other"}, sources: []Source{source("other", "a", int64(3))}, want: new(int32(3))},
		"one of each":                  {sources: []Source{source("other", "a", int64(9)), source("ns", "b", int64(2))}, want: new(int32(2)), ignored: []string{"Tidal other/a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scaler := &v1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}
			if tc.namespaces != nil {
				scaler.Spec.Trigger.StateTrigger = &v1alpha1.StateTrigger{SourceNamespaces: tc.namespaces}
			}
			got := Choose(scaler, tc.sources)
			if diff := cmp.Diff(tc.want, got.Replicas); diff != "" {
				t.Errorf("replicas (-want +got):\n%s", diff)
			}
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %s: %q, want %s: %q", got.Reason, got.Message, tc.reason, tc.message)
			}
			if diff := cmp.Diff(tc.ignored, got.Ignored); diff != "" {
				t.Errorf("ignored (-want +got):\n%s", diff)
			}
		})
	}
}
