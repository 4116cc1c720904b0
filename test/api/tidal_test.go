package api_test

import (
	"fmt"
	"strings"
	"testing"
)

const tidal = `
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: varied, namespace: ai-inference}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm, namespace: ai-inference}
  triggers:
    times:
      rules:
      - {name: morning, cron: "CRON_TZ=Asia/Shanghai 0 9 * * 1-5", replicas: 5}
`

// oneRule is a patch that replaces the rules by one.
func oneRule(cron string) string {
	return fmt.Sprintf(`{spec: {triggers: {times: {rules: [{name: r, cron: %q, replicas: 1}]}}}}`, cron)
}

func TestTidalRefused(t *testing.T) {
	const (
		cron   = "spec.triggers.times.rules[0].cron"
		fields = "cron must have five fields"
		values = "cron must have values within their range"
	)
	refuseAll(t, tidal, []variation{
		{"no spec", `{spec: null}`, []string{"spec: Required value"}},
		{"no target", `{spec: {targetRef: null}}`, []string{"spec.targetRef: Required value"}},
		{"target without apiVersion", `{spec: {targetRef: {apiVersion: null}}}`, []string{"spec.targetRef.apiVersion: Required value"}},
		{"target without kind", `{spec: {targetRef: {kind: null}}}`, []string{"spec.targetRef.kind: Required value"}},
		{"target without name", `{spec: {targetRef: {name: null}}}`, []string{"spec.targetRef.name: Required value"}},
		{"target without namespace", `{spec: {targetRef: {namespace: null}}}`, []string{"spec.targetRef.namespace: Required value"}},
		{"target with empty name", `{spec: {targetRef: {name: ""}}}`, []string{"spec.targetRef.name", "at least 1 chars long"}},
		{"target is a DaemonSet", `{spec: {targetRef: {kind: DaemonSet}}}`, []string{"spec.targetRef.kind", "one pod on each node"}},
		{"target is an ElasticScaler", `{spec: {targetRef: {apiVersion: elasticscaler.io/v1alpha1, kind: ElasticScaler}}}`,
			[]string{"spec.targetRef.kind", "must be that of the workload", "set the labels"}},
		{"no triggers", `{spec: {triggers: null}}`, []string{"spec.triggers: Required value"}},
		{"no times", `{spec: {triggers: {times: null}}}`, []string{"spec.triggers.times: Required value"}},
		{"no rules", `{spec: {triggers: {times: {rules: null}}}}`, []string{"spec.triggers.times.rules: Required value"}},
		{"empty rules", `{spec: {triggers: {times: {rules: []}}}}`, []string{"spec.triggers.times.rules", "at least 1 items"}},
		{"101 rules", `{spec: {triggers: {times: {rules: ` + manyRules(101) + `}}}}`, []string{"spec.triggers.times.rules", "at most 100 items"}},
		{"two rules of one name", `{spec: {triggers: {times: {rules: [{name: a, cron: "0 9 * * *", replicas: 1}, {name: a, cron: "0 8 * * *", replicas: 2}]}}}}`,
			[]string{"spec.triggers.times.rules[1]", "Duplicate value", `"name":"a"`}},
		{"rule without name", `{spec: {triggers: {times: {rules: [{cron: "0 9 * * *", replicas: 1}]}}}}`, []string{"spec.triggers.times.rules[0].name: Required value"}},
		{"rule without cron", `{spec: {triggers: {times: {rules: [{name: a, replicas: 1}]}}}}`, []string{cron + ": Required value"}},
		{"rule without replicas", `{spec: {triggers: {times: {rules: [{name: a, cron: "0 9 * * *"}]}}}}`, []string{"spec.triggers.times.rules[0].replicas: Required value"}},
		{"negative replicas", `{spec: {triggers: {times: {rules: [{name: a, cron: "0 9 * * *", replicas: -1}]}}}}`,
			[]string{"spec.triggers.times.rules[0].replicas", "greater than or equal to 0"}},
		{"zone without a blank", oneRule("CRON_TZ=UTC"), []string{cron, fields, "for example: CRON_TZ=Asia/Shanghai 0 9 * * 1-5"}},
		{"zone left empty", oneRule("CRON_TZ="), []string{cron, fields}},
		{"zone empty, and a blank", oneRule("CRON_TZ= "), []string{cron, fields}},
		{"zone empty before five fields", oneRule("CRON_TZ= 0 9 * * 1-5"), []string{cron, fields}},
		{"zone empty before six fields", oneRule("CRON_TZ= 0 50 16 * * *"), []string{cron, fields}},
		{"zones in zones", oneRule("TZ=TZ=TZ="), []string{cron, fields}},
		{"a tab after the zone", oneRule("CRON_TZ=UTC\t0 9 * * *"), []string{cron, fields}},
		{"the zone of the machine", oneRule("CRON_TZ=Local 0 9 * * *"), []string{cron, "must name a time zone"}},
		{"512 stars", oneRule(strings.Repeat("*", 512)), []string{cron, fields}},
		{"513 stars", oneRule(strings.Repeat("*", 513)), []string{cron, "512"}},
		{"four fields", oneRule("0 9 * *"), []string{cron, fields}},
		{"seven fields", oneRule("0 0 0 9 * * *"), []string{cron, fields}},
		{"empty", oneRule(""), []string{cron}},
		{"words", oneRule("every day at nine o'clock"), []string{cron, fields}},
		{"@every", oneRule("@every 2h"), []string{cron, "must not use @every", "no fixed moment"}},
		{"@every after a zone", oneRule("CRON_TZ=UTC @every 2h"), []string{cron, "must not use @every"}},
		{"unknown descriptor", oneRule("@reboot"), []string{cron, values, "@daily"}},
		{"minute 60", oneRule("60 9 * * *"), []string{cron, values}},
		{"hour 24", oneRule("0 24 * * *"), []string{cron, values}},
		{"day 32", oneRule("0 9 32 * *"), []string{cron, values}},
		{"month 13", oneRule("0 9 * 13 *"), []string{cron, values}},
		{"Sunday as 7", oneRule("0 9 * * 7"), []string{cron, values, "0 is Sunday"}},
		{"last day as L", oneRule("0 9 L * *"), []string{cron, values}},
		{"step of zero", oneRule("*/0 9 * * *"), []string{cron, values}},
		{"second 60", oneRule("60 0 9 * * *"), []string{cron, values}},
	})
}

// TestTidalAccepted holds what the original CRD takes and a parser can read, and the forms beyond it.
func TestTidalAccepted(t *testing.T) {
	var variations []variation
	for _, cron := range []string{
		"CRON_TZ=Asia/Shanghai 0 9 * * 1-5",
		"CRON_TZ=Asia/Shanghai 0 0 9 * * 1-5",
		"CRON_TZ=America/Argentina/Buenos_Aires 30 8 1,15 * *",
		"CRON_TZ=Etc/GMT+8 0 9 * * *",
		"CRON_TZ=UTC   0  9  *  *  *  ",
		"TZ=Europe/Dublin 0 9 * * MON-FRI",
		"TZ=UTC 0 50 16 * * *",
		"0 9 * * *",
		"0 0 9 * * *",
		"*/15 9-17 * JAN-mar,Dec Mon,wed,FRI",
		"0/15 * ? * ?",
		"0 09 01 02 *",
		"0 0 29 2 *",
		"@daily",
		"@Hourly",
		"CRON_TZ=Pacific/Apia @midnight",
	} {
		variations = append(variations, variation{name: cron, patch: oneRule(cron)})
	}
	acceptAll(t, tidal, append(variations,
		variation{name: "100 rules", patch: `{spec: {triggers: {times: {rules: ` + manyRules(100) + `}}}}`},
		variation{name: "to zero, with a description", patch: `{spec: {triggers: {times: {rules: [{name: "夜", cron: "CRON_TZ=UTC 0 22 * * *", replicas: 0, description: off at night}]}}}}`},
		variation{name: "a group", patch: `{spec: {targetRef: {apiVersion: autoscaling.openfuyao.com/v1alpha1, kind: ResourceScalingGroup}}}`},
		variation{name: "suspended", patch: `{spec: {suspend: true}}`},
	))
}

func manyRules(n int) string {
	rules := make([]string, n)
	for i := range rules {
		rules[i] = fmt.Sprintf(`{name: rule-%d, cron: "%d %d * * *", replicas: %d}`, i, i%60, i/60, i)
	}
	return "[" + strings.Join(rules, ", ") + "]"
}

func manySettings(n int) string {
	settings := make([]string, n)
	for i := range settings {
		settings[i] = fmt.Sprintf(`setting-%d: %d`, i, i)
	}
	return "{" + strings.Join(settings, ", ") + "}"
}
