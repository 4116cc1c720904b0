package tides

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
)

func TestWhoWritesTheCount(t *testing.T) {
	label := func(names ...string) func(*v1alpha1.Tidal) {
		return func(tidal *v1alpha1.Tidal) {
			tidal.Labels = map[string]string{}
			for _, name := range names {
				tidal.Labels[name] = "x"
			}
		}
	}
	for name, tc := range map[string]struct {
		rules  []string
		change func(*v1alpha1.Tidal)
		want   bool
	}{
		"one with a rule":                  {rules: []string{"day|0 8 * * *|1"}, want: true},
		"one with a rule that can be used": {rules: []string{"leap|0 0 30 2 *|1", "day|0 8 * * *|1"}, want: true},
		"one without a rule that can be":   {rules: []string{"leap|0 0 30 2 *|1", "zone|CRON_TZ=Nowhere 0 8 * * *|1", "count|0 8 * * *|-1"}},
		"one without rules":                {},
		"one with one label":               {rules: []string{"day|0 8 * * *|1"}, change: label(elasticscalerv1alpha1.LabelScalerName), want: true},
		"one that is bound":                {rules: []string{"day|0 8 * * *|1"}, change: label(elasticscalerv1alpha1.LabelScalerName, elasticscalerv1alpha1.LabelScalerNamespace)},
		"one that is suspended":            {rules: []string{"day|0 8 * * *|1"}, change: func(t *v1alpha1.Tidal) { t.Spec.Suspend = new(true) }},
		"one that was suspended":           {rules: []string{"day|0 8 * * *|1"}, change: func(t *v1alpha1.Tidal) { t.Spec.Suspend = new(false) }, want: true},
		"one that is on its way out":       {rules: []string{"day|0 8 * * *|1"}, change: func(t *v1alpha1.Tidal) { t.DeletionTimestamp = new(metav1.Now()) }},
	} {
		tidal := &v1alpha1.Tidal{Spec: spec(tc.rules...)}
		if tc.change != nil {
			tc.change(tidal)
		}
		if got := Writes(tidal); got != tc.want {
			t.Errorf("%s writes: %t, want %t", name, got, tc.want)
		}
	}
}
