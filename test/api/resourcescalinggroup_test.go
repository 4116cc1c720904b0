package api_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const replicatedGroup = `
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: varied, namespace: scaling-system}
spec:
  targetResources:
  - {name: prefill, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: llm-prefill}}
  - {name: decode, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: llm-decode}}
  scalingStrategy:
    type: GroupReplication
    groupConfig: {groupName: pd, replicas: 2, scaleDown: {metric: {expr: "vllm:num_requests_running"}}}
`

const followingGroup = `
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: varied, namespace: scaling-system}
spec:
  targetResources:
  - {name: leader, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: leader}}
  - {name: worker, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: worker}}
  scalingStrategy:
    type: InplaceScaling
    leaderFollowerConfig:
      leader: {resourceName: leader, replicas: 3}
      follower:
      - {resourceName: worker, followRatio: 2}
`

// targets is a patch that replaces the targets.
func targets(list string) string { return `{spec: {targetResources: [` + list + `]}}` }

// metric is a patch of scaleDown.metric.
func metric(fields string) string {
	return `{spec: {scalingStrategy: {groupConfig: {scaleDown: {metric: ` + fields + `}}}}}`
}

// ratio is a patch of the follower's ratio.
func ratio(value string) string {
	return `{spec: {scalingStrategy: {leaderFollowerConfig: {follower: [{resourceName: worker, followRatio: ` + value + `}]}}}}`
}

func TestResourceScalingGroupRefused(t *testing.T) {
	const (
		target   = "spec.targetResources[0]"
		group    = "spec.scalingStrategy.groupConfig"
		decode   = `{name: decode, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: llm-decode}}`
		fraction = "followRatio must be an integer from 1 to 1000, or a quoted decimal above 0"
	)
	refuseAll(t, replicatedGroup, []variation{
		{"no targets", `{spec: {targetResources: null}}`, []string{"spec.targetResources: Required value"}},
		{"empty targets", targets(``), []string{"spec.targetResources", "at least 1 items"}},
		{"33 targets", targets(manyTargets(33)), []string{"spec.targetResources", "at most 32 items"}},
		{"target without name", targets(`{resourceRef: {apiVersion: apps/v1, kind: Deployment, name: a}}`), []string{target + ".name: Required value"}},
		{"target name that is no ConfigMap key", targets(`{name: "a/b", resourceRef: {apiVersion: apps/v1, kind: Deployment, name: a}}`),
			[]string{target + ".name", "must be a key of a ConfigMap"}},
		{"target name of dots", targets(`{name: "..a", resourceRef: {apiVersion: apps/v1, kind: Deployment, name: a}}`), []string{target + ".name", "must be a key of a ConfigMap"}},
		{"two targets of one name", targets(`{name: decode, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: a}}, ` + decode),
			[]string{"spec.targetResources[1]", "Duplicate value"}},
		{"one workload twice", targets(`{name: a, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: llm-decode}}, ` + decode),
			[]string{"spec.targetResources", "must name each workload once"}},
		{"one workload twice, kind in lower case", targets(`{name: a, resourceRef: {apiVersion: apps/v1, kind: deployment, name: llm-decode}}, ` + decode),
			[]string{"spec.targetResources", "must name each workload once"}},
		{"clones of one name", targets(`{name: a, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: llm-decode, namespace: other}}, ` + decode),
			[]string{"spec.targetResources", "their clones would have the same name"}},
		{"no resourceRef", targets(`{name: a}`), []string{target + ".resourceRef: Required value"}},
		{"reference without apiVersion", targets(`{name: a, resourceRef: {kind: Deployment, name: a}}`), []string{target + ".resourceRef.apiVersion: Required value"}},
		{"reference without kind", targets(`{name: a, resourceRef: {apiVersion: apps/v1, name: a}}`), []string{target + ".resourceRef.kind: Required value"}},
		{"reference without name", targets(`{name: a, resourceRef: {apiVersion: apps/v1, kind: Deployment}}`), []string{target + ".resourceRef.name: Required value"}},
		{"a DaemonSet", targets(`{name: a, resourceRef: {apiVersion: apps/v1, kind: DaemonSet, name: a}}`),
			[]string{target + ".resourceRef.kind", "must be a workload with a replica count"}},
		{"a role group without role", targets(`{name: a, resourceRef: {apiVersion: workloads.x-k8s.io/v1alpha1, kind: RoleBasedGroup, name: a}}`),
			[]string{target + ".resourceRef.subresource", "must be set when kind is RoleBasedGroup"}},
		{"a role of a Deployment", targets(`{name: a, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: a, subresource: {type: RoleBasedGroup, roleName: r}}}`),
			[]string{target + ".resourceRef.subresource", "must be left out unless kind is RoleBasedGroup"}},
		{"a role without name", targets(`{name: a, resourceRef: {apiVersion: workloads.x-k8s.io/v1alpha1, kind: RoleBasedGroup, name: a, subresource: {type: RoleBasedGroup}}}`),
			[]string{target + ".resourceRef.subresource.roleName", "must be set"}},
		{"a role of unknown type", targets(`{name: a, resourceRef: {apiVersion: workloads.x-k8s.io/v1alpha1, kind: RoleBasedGroup, name: a, subresource: {type: JobSet, roleName: r}}}`),
			[]string{target + ".resourceRef.subresource.type", `supported values: "RoleBasedGroup"`}},
		{"a role of unknown workload kind", targets(`{name: a, resourceRef: {apiVersion: workloads.x-k8s.io/v1alpha1, kind: RoleBasedGroup, name: a, subresource: {type: RoleBasedGroup, roleName: r, workloadKind: ReplicaSet}}}`),
			[]string{target + ".resourceRef.subresource.workloadKind", `supported values: "StatefulSet", "Deployment", "LeaderWorkerSet"`}},
		{"no strategy", `{spec: {scalingStrategy: null}}`, []string{"spec.scalingStrategy: Required value"}},
		{"no type", `{spec: {scalingStrategy: {type: null}}}`, []string{"spec.scalingStrategy.type: Required value"}},
		{"unknown type", `{spec: {scalingStrategy: {type: Replication}}}`,
			[]string{"spec.scalingStrategy.type", `supported values: "GroupReplication", "InplaceScaling"`}},
		{"type without its block", `{spec: {scalingStrategy: {groupConfig: null}}}`, []string{group, "must be set when type is GroupReplication"}},
		{"type with the other block", `{spec: {scalingStrategy: {leaderFollowerConfig: {leader: {resourceName: prefill}}}}}`,
			[]string{"spec.scalingStrategy.leaderFollowerConfig", "must not be set when type is GroupReplication"}},
		{"negative groups", `{spec: {scalingStrategy: {groupConfig: {replicas: -1}}}}`, []string{group + ".replicas", "greater than or equal to 0"}},
		{"too many groups", `{spec: {scalingStrategy: {groupConfig: {replicas: 10001}}}}`, []string{group + ".replicas", "less than or equal to 10000"}},
		{"group name with an underscore", `{spec: {scalingStrategy: {groupConfig: {groupName: p_d}}}}`, []string{group + ".groupName", "must be letters, digits and '-'"}},
		{"group name that ends in a dash", `{spec: {scalingStrategy: {groupConfig: {groupName: pd-}}}}`, []string{group + ".groupName", "begin and end with a letter or digit"}},
		{"empty group name", `{spec: {scalingStrategy: {groupConfig: {groupName: ""}}}}`, []string{group + ".groupName", "at least 1 chars long"}},
		//nolint:misspell // The document warns of this very spelling.
		{"misspelt metric type", metric(`{type: guage}`), []string{group + ".scaleDown.metric.type", `supported values: "Counter", "Gauge", "Histogram"`}},
		{"unknown aggregator", metric(`{aggregator: p99}`), []string{group + ".scaleDown.metric.aggregator", `supported values: "sum", "avg", "max", "min"`}},
		{"empty expression", metric(`{expr: ""}`), []string{group + ".scaleDown.metric.expr", "at least 1 chars long"}},
		{"Counter without window", metric(`{type: Counter}`), []string{group + ".scaleDown.metric.window", "must be set for type Counter or Histogram"}},
		{"Histogram with empty window", metric(`{type: Histogram, window: ""}`), []string{group + ".scaleDown.metric.window", "must be set for type Counter or Histogram"}},
		{"window without unit", metric(`{type: Counter, window: "120"}`), []string{group + ".scaleDown.metric.window", "must be a Prometheus duration"}},
		{"window of zero", metric(`{type: Counter, window: 0s}`), []string{group + ".scaleDown.metric.window", "greater than 0"}},
		{"unknown order", `{spec: {scalingStrategy: {groupConfig: {scaleDown: {order: asc}}}}}`, []string{group + ".scaleDown.order", `supported values: "ascending", "descending"`}},
		{"long name", `{metadata: {name: ` + strings.Repeat("a", 64) + `}}`, []string{"metadata.name must be at most 63 characters"}},
	})
	const config = "spec.scalingStrategy.leaderFollowerConfig"
	refuseAll(t, followingGroup, []variation{
		{"type without its block", `{spec: {scalingStrategy: {leaderFollowerConfig: null}}}`, []string{config, "must be set when type is InplaceScaling"}},
		{"type with the other block", `{spec: {scalingStrategy: {groupConfig: {replicas: 1}}}}`, []string{"spec.scalingStrategy.groupConfig", "must not be set when type is InplaceScaling"}},
		{"no leader", `{spec: {scalingStrategy: {leaderFollowerConfig: {leader: null}}}}`, []string{config + ".leader: Required value"}},
		{"leader without name", `{spec: {scalingStrategy: {leaderFollowerConfig: {leader: {resourceName: null}}}}}`, []string{config + ".leader.resourceName: Required value"}},
		{"leader that is no target", `{spec: {scalingStrategy: {leaderFollowerConfig: {leader: {resourceName: boss}}}}}`,
			[]string{config + ".leader.resourceName", "must be the name of an entry of targetResources"}},
		{"negative leader", `{spec: {scalingStrategy: {leaderFollowerConfig: {leader: {replicas: -1}}}}}`, []string{config + ".leader.replicas", "greater than or equal to 0"}},
		{"empty followers", `{spec: {scalingStrategy: {leaderFollowerConfig: {follower: []}}}}`, []string{config + ".follower", "at least 1 items"}},
		{"follower that is no target", `{spec: {scalingStrategy: {leaderFollowerConfig: {follower: [{resourceName: nobody, followRatio: 1}]}}}}`,
			[]string{config + ".follower", "must be the name of an entry of targetResources"}},
		{"follower that leads", `{spec: {scalingStrategy: {leaderFollowerConfig: {follower: [{resourceName: leader, followRatio: 1}]}}}}`,
			[]string{config + ".follower", "must be another target than leader.resourceName"}},
		{"follower twice", `{spec: {scalingStrategy: {leaderFollowerConfig: {follower: [{resourceName: worker, followRatio: 1}, {resourceName: worker, followRatio: 2}]}}}}`,
			[]string{config + ".follower[1]", "Duplicate value"}},
		{"follower without ratio", `{spec: {scalingStrategy: {leaderFollowerConfig: {follower: [{resourceName: worker}]}}}}`, []string{config + ".follower[0].followRatio: Required value"}},
		{"ratio of zero", ratio(`0`), []string{config + ".follower[0].followRatio", fraction}},
		{"negative ratio", ratio(`-1`), []string{config + ".follower[0].followRatio", fraction}},
		{"ratio of 1001", ratio(`1001`), []string{config + ".follower[0].followRatio", fraction}},
		{"decimal ratio of zero", ratio(`"0.000"`), []string{config + ".follower[0].followRatio", fraction}},
		{"decimal ratio above 1000", ratio(`"1000.5"`), []string{config + ".follower[0].followRatio", fraction}},
		{"ratio with four decimals", ratio(`"0.0001"`), []string{config + ".follower[0].followRatio"}},
		{"ratio in words", ratio(`"half"`), []string{config + ".follower[0].followRatio", fraction}},
		{"ratio without quotes", ratio(`0.5`), []string{config + ".follower[0].followRatio"}},
	})
}

func TestResourceScalingGroupAccepted(t *testing.T) {
	acceptAll(t, replicatedGroup, []variation{
		{"no spec, as the original CRD allows", `{spec: null}`, nil},
		{"no group name", `{spec: {scalingStrategy: {groupConfig: {groupName: null}}}}`, nil},
		{"no replicas", `{spec: {scalingStrategy: {groupConfig: {replicas: null}}}}`, nil},
		{"no groups", `{spec: {scalingStrategy: {groupConfig: {replicas: 0}}}}`, nil},
		{"capitals in the group name", `{spec: {scalingStrategy: {groupConfig: {groupName: Prefill-Decode}}}}`, nil},
		{"no scaleDown", `{spec: {scalingStrategy: {groupConfig: {scaleDown: null}}}}`, nil},
		{"empty metric", `{spec: {scalingStrategy: {groupConfig: {scaleDown: {metric: {expr: null}}}}}}`, nil},
		{"window of a Gauge is tolerated", metric(`{type: Gauge, window: 2m, aggregator: avg}`), nil},
		{"Counter", metric(`{type: Counter, window: 1h30m, aggregator: sum}`), nil},
		{"Histogram", metric(`{type: Histogram, window: 500ms, aggregator: max}`), nil},
		{"largest first", `{spec: {scalingStrategy: {groupConfig: {scaleDown: {order: descending}}}}}`, nil},
		{"rewriting references, paused", `{spec: {paused: true, scalingStrategy: {groupConfig: {rewriteServiceReferences: true}}}}`, nil},
		{"chart sample: LeaderWorkerSets, no replicas", `{spec: {targetResources: [{name: prefill, resourceRef: {apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: prefill}}, {name: decode, resourceRef: {apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: decode}}], scalingStrategy: {groupConfig: {replicas: null, scaleDown: {metric: {type: Gauge, window: 2m, aggregator: avg}, order: ascending}}}}}`, nil},
		{"32 targets", targets(manyTargets(32)), nil},
		{"two roles of one group", targets(`{name: a, resourceRef: {apiVersion: workloads.x-k8s.io/v1alpha1, kind: RoleBasedGroup, name: g, subresource: {type: RoleBasedGroup, roleName: prefill}}}, {name: b, resourceRef: {apiVersion: workloads.x-k8s.io/v1alpha1, kind: RoleBasedGroup, name: g, subresource: {type: RoleBasedGroup, roleName: decode, workloadKind: LeaderWorkerSet, workloadApiVersion: leaderworkerset.x-k8s.io/v1, workloadName: g-decode-x}}}`), nil},
		{"a Deployment and a StatefulSet of one name", targets(`{name: a, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: x}}, {name: b, resourceRef: {apiVersion: apps/v1, kind: StatefulSet, name: x}}`), nil},
		{"target names with every sign", targets(`{name: "Pre_fill-1.x", resourceRef: {apiVersion: apps/v1, kind: Deployment, name: x}}`), nil},
	})
	acceptAll(t, followingGroup, []variation{
		{"leader without a count", `{spec: {scalingStrategy: {leaderFollowerConfig: {leader: {replicas: null}}}}}`, nil},
		{"leader at zero", `{spec: {scalingStrategy: {leaderFollowerConfig: {leader: {replicas: 0}}}}}`, nil},
		{"no followers", `{spec: {scalingStrategy: {leaderFollowerConfig: {follower: null}}}}`, nil},
		{"largest ratio", ratio(`1000`), nil},
		{"largest decimal ratio", ratio(`"1000.000"`), nil},
		{"smallest decimal ratio", ratio(`"0.001"`), nil},
		{"integer as a string", ratio(`"2"`), nil},
		{"workloads of one name in two namespaces", `{spec: {targetResources: [{name: leader, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: x, namespace: a}}, {name: worker, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: x, namespace: b}}]}}`, nil},
	})
}

// TestScaleSubresource reads and writes the number of groups the way an autoscaler does.
func TestScaleSubresource(t *testing.T) {
	ctx := t.Context()
	groups := client.Resource(resources["ResourceScalingGroup"]).Namespace("scaling-system")
	object := vary(t, replicatedGroup, `{metadata: {name: scaled}, spec: {scalingStrategy: {groupConfig: {replicas: null}}}}`)
	if _, err := create(ctx, object, false); err != nil {
		t.Fatal(err)
	}

	checkScale(t, "scaled", "", map[string]int64{"spec": 1})

	status := `{"status":{"currentReplicas":0,"selector":"rsg.io/scale-unit=scaled"}}`
	if _, err := groups.Patch(ctx, "scaled", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatalf("writing the status: %v", err)
	}
	scale := checkScale(t, "scaled", "rsg.io/scale-unit=scaled", map[string]int64{"spec": 1, "status": 0})

	if err := unstructured.SetNestedField(scale.Object, int64(4), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if _, err := groups.Update(ctx, scale, metav1.UpdateOptions{}, "scale"); err != nil {
		t.Fatalf("writing the scale: %v", err)
	}
	checkScale(t, "scaled", "rsg.io/scale-unit=scaled", map[string]int64{"spec": 4, "status": 0})

	if _, err := groups.Update(ctx, scale, metav1.UpdateOptions{}, "scale"); !apierrors.IsConflict(err) {
		t.Errorf("a write with an old resourceVersion gives %v, want a conflict", err)
	}
	if err := unstructured.SetNestedField(scale.Object, int64(10001), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	scale.SetResourceVersion("")
	if _, err := groups.Update(ctx, scale, metav1.UpdateOptions{}, "scale"); !apierrors.IsInvalid(err) {
		t.Errorf("10001 groups through the scale subresource give %v, want Invalid", err)
	}
}

func checkScale(t *testing.T, name, selector string, replicas map[string]int64) *unstructured.Unstructured {
	t.Helper()
	scale, err := client.Resource(resources["ResourceScalingGroup"]).Namespace("scaling-system").Get(t.Context(), name, metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatalf("reading the scale: %v", err)
	}
	for part, want := range replicas {
		if got, _, _ := unstructured.NestedInt64(scale.Object, part, "replicas"); got != want {
			t.Errorf("%s.replicas of the scale is %d, want %d", part, got, want)
		}
	}
	if got, _, _ := unstructured.NestedString(scale.Object, "status", "selector"); got != selector {
		t.Errorf("status.selector of the scale is %q, want %q", got, selector)
	}
	return scale
}

func manyTargets(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{name: t%d, resourceRef: {apiVersion: apps/v1, kind: Deployment, name: d%d}}`, i, i)
	}
	return strings.Join(list, ", ")
}
