package groupspec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// replication is a legal ResourceScalingGroup of type GroupReplication.
func replication(changes ...func(*v1alpha1.ResourceScalingGroup)) *v1alpha1.ResourceScalingGroup {
	rsg := &v1alpha1.ResourceScalingGroup{}
	rsg.Namespace, rsg.Name = "scaling-system", "llm"
	rsg.Spec.TargetResources = []v1alpha1.TargetResource{target("prefill", "production", "llm-prefill"), target("decode", "production", "llm-decode")}
	rsg.Spec.ScalingStrategy = v1alpha1.ScalingStrategy{Type: v1alpha1.GroupReplication, GroupConfig: &v1alpha1.GroupConfig{GroupName: "Prefill-Decode"}}
	for _, change := range changes {
		change(rsg)
	}
	return rsg
}

// inplace is a legal ResourceScalingGroup of type InplaceScaling.
func inplace(changes ...func(*v1alpha1.ResourceScalingGroup)) *v1alpha1.ResourceScalingGroup {
	rsg := replication()
	three := int32(3)
	rsg.Spec.ScalingStrategy = v1alpha1.ScalingStrategy{Type: v1alpha1.InplaceScaling, LeaderFollowerConfig: &v1alpha1.LeaderFollowerConfig{
		Leader:   v1alpha1.Leader{ResourceName: "prefill", Replicas: &three},
		Follower: []v1alpha1.Follower{{ResourceName: "decode", FollowRatio: intstr.FromInt32(2)}},
	}}
	for _, change := range changes {
		change(rsg)
	}
	return rsg
}

func target(name, namespace, deployment string) v1alpha1.TargetResource {
	return v1alpha1.TargetResource{Name: name, ResourceRef: v1alpha1.ResourceRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: deployment}}
}

func role(name string, sub *v1alpha1.Subresource) v1alpha1.TargetResource {
	return v1alpha1.TargetResource{Name: name, ResourceRef: v1alpha1.ResourceRef{
		APIVersion: "workloads.x-k8s.io/v1alpha2", Kind: KindRoleBasedGroup, Name: "serving", Subresource: sub,
	}}
}

func ref(i int, change func(*v1alpha1.ResourceRef)) func(*v1alpha1.ResourceScalingGroup) {
	return func(rsg *v1alpha1.ResourceScalingGroup) { change(&rsg.Spec.TargetResources[i].ResourceRef) }
}

func metric(m v1alpha1.ScaleDownMetric) func(*v1alpha1.ResourceScalingGroup) {
	return func(rsg *v1alpha1.ResourceScalingGroup) {
		rsg.Spec.ScalingStrategy.GroupConfig.ScaleDown = &v1alpha1.ScaleDown{Metric: &m}
	}
}

func lines(list field.ErrorList) []string {
	var all []string
	for _, err := range list {
		all = append(all, err.Error())
	}
	return all
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("a", 234)
	type change = func(*v1alpha1.ResourceScalingGroup)
	follower := func(i int, change func(*v1alpha1.Follower)) change {
		return func(rsg *v1alpha1.ResourceScalingGroup) {
			change(&rsg.Spec.ScalingStrategy.LeaderFollowerConfig.Follower[i])
		}
	}
	cases := map[string]struct {
		rsg      *v1alpha1.ResourceScalingGroup
		errs     []string
		warnings []string
	}{
		"groups of Deployments":   {rsg: replication()},
		"a leader and a follower": {rsg: inplace()},

		"two targets that name one workload": {
			rsg:  replication(ref(1, func(r *v1alpha1.ResourceRef) { r.Name = "llm-prefill" })),
			errs: []string{`spec.targetResources[1].resourceRef: Duplicate value: "Deployment production/llm-prefill": is target "prefill" already: remove one of the two`},
		},
		"the same workload once with the namespace left out": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources = []v1alpha1.TargetResource{target("prefill", "", "llm-prefill"), target("decode", "scaling-system", "llm-prefill")}
			}),
			errs: []string{`spec.targetResources[1].resourceRef: Duplicate value: "Deployment scaling-system/llm-prefill": is target "prefill" already: remove one of the two`},
		},
		"two targets of one name": {
			rsg:  replication(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.TargetResources[1].Name = "prefill" }),
			errs: []string{`spec.targetResources[1].name: Duplicate value: "prefill": must be the name of one target only`},
		},
		"two targets whose clones would have one name": {
			rsg: replication(ref(1, func(r *v1alpha1.ResourceRef) { r.Namespace, r.Name = "staging", "llm-prefill" })),
			errs: []string{`spec.targetResources[1].resourceRef.name: Duplicate value: "llm-prefill": has clones named like "prefill-decode-llm-prefill-1", ` +
				`and so has target "prefill" in namespace production: rename one of the workloads, or put one into another ResourceScalingGroup`},
		},
		"such targets of InplaceScaling have no clones": {
			rsg: inplace(ref(1, func(r *v1alpha1.ResourceRef) { r.Namespace, r.Name = "staging", "llm-prefill" })),
		},
		"a target in the place of another's clone": {
			rsg: replication(ref(1, func(r *v1alpha1.ResourceRef) { r.Namespace, r.Name = "", "prefill-decode-llm-prefill-12" })),
			errs: []string{`spec.targetResources[1].resourceRef.name: Invalid value: "prefill-decode-llm-prefill-12": is the name of the clone of target "prefill" in group 12: ` +
				`change groupName "Prefill-Decode" or rename the workload`},
		},
		"no targets": {
			rsg:  replication(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.TargetResources = nil }),
			errs: []string{`spec.targetResources: Required value: must have at least one entry`},
		},
		"a kind that has no copies": {
			rsg:  replication(ref(0, func(r *v1alpha1.ResourceRef) { r.Kind = "ReplicaSet" })),
			errs: []string{`spec.targetResources[0].resourceRef.kind: Invalid value: "apps/v1 ReplicaSet": must be one of apps/v1 Deployment, apps/v1 StatefulSet, leaderworkerset.x-k8s.io/v1 LeaderWorkerSet, or a role of a RoleBasedGroup`},
		},
		"a StatefulSet whose clones would have a revision label that is too long": {
			rsg:  replication(ref(0, func(r *v1alpha1.ResourceRef) { r.Kind, r.Name = "StatefulSet", strings.Repeat("a", 33) })),
			errs: []string{`which is 53 characters: must be at most 52; shorten groupName "Prefill-Decode" or rename the workload`},
		},
		"a role that runs as another version's kind": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources[0] = role("prefill", &v1alpha1.Subresource{RoleName: "prefill", WorkloadKind: "Deployment", WorkloadAPIVersion: "example.org/v1"})
			}),
			errs: []string{`spec.targetResources[0].resourceRef.subresource.workloadKind: Invalid value: "example.org/v1 Deployment": must be one of apps/v1 Deployment`},
		},
		"references that cannot be": {
			rsg: replication(ref(0, func(r *v1alpha1.ResourceRef) { r.APIVersion, r.Name, r.Namespace = "a/b/c", "LLM", "no.namespace" })),
			errs: []string{
				`spec.targetResources[0].resourceRef.apiVersion: Invalid value: "a/b/c": must be of the form group/version, for example apps/v1`,
				`spec.targetResources[0].resourceRef.name: Invalid value: "LLM": must be the name of an object: a lowercase RFC 1123 subdomain`,
				`spec.targetResources[0].resourceRef.namespace: Invalid value: "no.namespace": must be the name of a namespace`,
			},
		},
		"a role of a Deployment": {
			rsg:  replication(ref(0, func(r *v1alpha1.ResourceRef) { r.Subresource = &v1alpha1.Subresource{RoleName: "prefill"} })),
			errs: []string{`spec.targetResources[0].resourceRef.subresource: Forbidden: must be left out for kind Deployment: only a RoleBasedGroup has roles to choose from`},
		},
		"a RoleBasedGroup without a role": {
			rsg:  replication(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.TargetResources[0] = role("prefill", nil) }),
			errs: []string{`spec.targetResources[0].resourceRef.subresource: Required value: must say which role of the RoleBasedGroup is meant, by roleName`},
		},
		"a role without a name": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources[0] = role("prefill", &v1alpha1.Subresource{})
			}),
			errs: []string{`spec.targetResources[0].resourceRef.subresource.roleName: Required value: must be set, or workloadName where the role's workload has a name of its own`},
		},
		"a RoleBasedGroup of another group": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources[0] = role("prefill", &v1alpha1.Subresource{RoleName: "prefill"})
				rsg.Spec.TargetResources[0].ResourceRef.APIVersion = "apps/v1"
			}),
			errs: []string{`spec.targetResources[0].resourceRef.apiVersion: Invalid value: "apps/v1": must be of group workloads.x-k8s.io for kind RoleBasedGroup`},
		},
		"a role that runs as a Deployment": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources[0] = role("prefill", &v1alpha1.Subresource{RoleName: "prefill", WorkloadKind: "Deployment"})
			}),
		},
		"a role beside the workload that it runs as": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources[0] = role("prefill", &v1alpha1.Subresource{RoleName: "prefill", WorkloadKind: "Deployment"})
				rsg.Spec.TargetResources[1] = target("decode", "scaling-system", "serving-prefill")
			}),
			errs: []string{`spec.targetResources[1].resourceRef: Duplicate value: "Deployment scaling-system/serving-prefill": is target "prefill" already: remove one of the two`},
		},
		"a role with InplaceScaling": {
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources[0] = role("prefill", &v1alpha1.Subresource{RoleName: "prefill"})
			}),
			errs: []string{`spec.targetResources[0].resourceRef.kind: Invalid value: "RoleBasedGroup": must not be a RoleBasedGroup with type InplaceScaling: ` +
				`the RoleBasedGroup's own controller owns the replicas of its roles and puts back what anybody else writes; ` +
				`set the role's replicas in the RoleBasedGroup, or use type GroupReplication`},
		},
		"clones with names that are too long": {
			rsg:  replication(ref(0, func(r *v1alpha1.ResourceRef) { r.Name = long })),
			errs: []string{`which is 254 characters: must be at most 253; shorten groupName "Prefill-Decode" or rename the workload`},
		},
		"a ResourceScalingGroup whose name is no label value": {
			rsg:  replication(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Name = strings.Repeat("a", 64) }),
			errs: []string{`is 64 characters: must be at most 63, since it becomes a label value`},
		},
		"a groupName that makes no object names": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.ScalingStrategy.GroupConfig.GroupName = "a_b" }),
			errs: []string{
				`would be named like "a_b-llm-prefill-9999", which is not legal`, `would be named like "a_b-llm-decode-9999", which is not legal`,
				`spec.scalingStrategy.groupConfig.groupName: Invalid value: "a_b": must be at most 63 letters, digits and '-'`,
			},
		},
		"a name with a dot stands in for groupName": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Name, rsg.Spec.ScalingStrategy.GroupConfig.GroupName = "llm.v2", ""
			}),
			warnings: []string{`spec.scalingStrategy.groupConfig.groupName: is empty, so metadata.name "llm.v2" stands in its place, and no Service name may hold a dot: ` +
				`if Services select the targets, set groupName before the first group is made`},
		},

		"the type written wrong": {
			rsg:  replication(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.ScalingStrategy.Type = "Replication" }),
			errs: []string{`spec.scalingStrategy.type: Unsupported value: "Replication": supported values: "GroupReplication", "InplaceScaling"`},
		},
		"the block of the other type": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.ScalingStrategy.LeaderFollowerConfig, rsg.Spec.ScalingStrategy.GroupConfig = &v1alpha1.LeaderFollowerConfig{}, nil
			}),
			errs: []string{
				`spec.scalingStrategy.leaderFollowerConfig: Forbidden: must be left out when type is GroupReplication: remove it, or use type InplaceScaling`,
				`spec.scalingStrategy.groupConfig: Required value: must be set when type is GroupReplication`,
			},
		},
		"the block of the other type, the other way": {
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.ScalingStrategy.LeaderFollowerConfig, rsg.Spec.ScalingStrategy.GroupConfig = nil, &v1alpha1.GroupConfig{}
			}),
			errs: []string{
				`spec.scalingStrategy.groupConfig: Forbidden: must be left out when type is InplaceScaling: remove it, or use type GroupReplication`,
				`spec.scalingStrategy.leaderFollowerConfig: Required value: must be set when type is InplaceScaling`,
			},
		},
		"more groups than there are ids": {
			rsg: replication(func(rsg *v1alpha1.ResourceScalingGroup) {
				n := int32(10001)
				rsg.Spec.ScalingStrategy.GroupConfig.Replicas = &n
			}),
			errs: []string{`spec.scalingStrategy.groupConfig.replicas: Invalid value: 10001: must be from 0 to 10000`},
		},

		"a rate without window": {
			rsg:  replication(metric(v1alpha1.ScaleDownMetric{Expr: "requests_total", Type: v1alpha1.MetricCounter})),
			errs: []string{`spec.scalingStrategy.groupConfig.scaleDown.metric.window: Required value: must be set for type Counter, for example 2m`},
		},
		"a window that is no duration, and an expression that is none": {
			rsg: replication(metric(v1alpha1.ScaleDownMetric{Expr: "rate(", Type: v1alpha1.MetricHistogram, Window: "1m1h"})),
			errs: []string{
				`spec.scalingStrategy.groupConfig.scaleDown.metric.window: Invalid value: "1m1h": must be a Prometheus duration greater than 0, largest unit first, for example 2m or 1h30m`,
				`spec.scalingStrategy.groupConfig.scaleDown.metric.expr: Invalid value: "rate(": must be a PromQL selector, as the range of a rate is taken of it for type Histogram: 1:6: parse error`,
			},
		},
		"a rate over no time": {
			rsg:  replication(metric(v1alpha1.ScaleDownMetric{Expr: "requests_total", Type: v1alpha1.MetricCounter, Window: "0s"})),
			errs: []string{`Invalid value: "0s": must be a Prometheus duration greater than 0`},
		},
		"the rate of an aggregation": {
			rsg:  replication(metric(v1alpha1.ScaleDownMetric{Expr: "sum(requests_total)", Type: v1alpha1.MetricCounter, Window: "2m"})),
			errs: []string{`must be a PromQL selector, as the range of a rate is taken of it for type Counter: 1:`},
		},
		"an expression that is a number": {
			rsg:  replication(metric(v1alpha1.ScaleDownMetric{Expr: "1"})),
			errs: []string{`must be a PromQL expression with one value per series: 1:`},
		},
		"a window on a Gauge": {
			rsg:      replication(metric(v1alpha1.ScaleDownMetric{Expr: "vllm:num_requests_running", Type: v1alpha1.MetricGauge, Window: "nonsense"})),
			warnings: []string{`spec.scalingStrategy.groupConfig.scaleDown.metric.window: has no effect on a Gauge, whose present values are compared: remove it, or set type to Counter or Histogram to compare rates`},
		},
		"a metric without expression": {
			rsg:      replication(metric(v1alpha1.ScaleDownMetric{})),
			warnings: []string{`spec.scalingStrategy.groupConfig.scaleDown.metric.expr: is not set, so the annotation autoscaling.rsg.metric.values decides which groups go, then the highest group id`},
		},

		"a leader and followers that are no targets": {
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.ScalingStrategy.LeaderFollowerConfig.Leader.ResourceName = "leader"
			},
				follower(0, func(f *v1alpha1.Follower) { f.ResourceName = "worker" })),
			errs: []string{
				`spec.scalingStrategy.leaderFollowerConfig.leader.resourceName: Invalid value: "leader": must be the name of an entry of targetResources: prefill, decode`,
				`spec.scalingStrategy.leaderFollowerConfig.follower[0].resourceName: Invalid value: "worker": must be the name of an entry of targetResources: prefill, decode`,
			},
			warnings: []string{
				`spec.targetResources[0]: target "prefill" is neither leader nor follower, so nothing scales it`,
				`spec.targetResources[1]: target "decode" is neither leader nor follower, so nothing scales it`,
			},
		},
		"a leader that follows itself": {
			rsg:      inplace(follower(0, func(f *v1alpha1.Follower) { f.ResourceName = "prefill" })),
			errs:     []string{`spec.scalingStrategy.leaderFollowerConfig.follower[0].resourceName: Invalid value: "prefill": must be another target than leader.resourceName: the leader does not follow itself`},
			warnings: []string{`spec.targetResources[1]: target "decode" is neither leader nor follower, so nothing scales it`},
		},
		"a follower twice": {
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) {
				c := rsg.Spec.ScalingStrategy.LeaderFollowerConfig
				c.Follower = append(c.Follower, c.Follower[0])
			}),
			errs: []string{`spec.scalingStrategy.leaderFollowerConfig.follower[1].resourceName: Duplicate value: "decode": is a follower already: remove one of the two`},
		},
		"a product beyond int32": {
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) {
				n := int32(2147484)
				rsg.Spec.ScalingStrategy.LeaderFollowerConfig.Leader.Replicas = &n
			}, follower(0, func(f *v1alpha1.Follower) { f.FollowRatio = intstr.FromInt32(1000) })),
			errs: []string{`spec.scalingStrategy.leaderFollowerConfig.follower[0].followRatio: Invalid value: "1000": with leader.replicas 2147484: 2147484 x 1000 is more than a replica count can hold: must be at most 2147483647; lower one of the two`},
		},
		"the largest product": {
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) {
				n := int32(2147483647)
				rsg.Spec.ScalingStrategy.LeaderFollowerConfig.Leader.Replicas = &n
			}, follower(0, func(f *v1alpha1.Follower) { f.FollowRatio = intstr.FromString("1.000") })),
		},
		"a product that is beyond int32 only once it is rounded up": {
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) {
				n := int32(1073741824) // times 2.0 is 2^31
				rsg.Spec.ScalingStrategy.LeaderFollowerConfig.Leader.Replicas = &n
			}, follower(0, func(f *v1alpha1.Follower) { f.FollowRatio = intstr.FromString("2.0") })),
			errs: []string{`1073741824 x 2 is more than a replica count can hold`},
		},
		"a ratio of nothing": {
			rsg:  inplace(follower(0, func(f *v1alpha1.Follower) { f.FollowRatio = intstr.FromString("0.000") })),
			errs: []string{`spec.scalingStrategy.leaderFollowerConfig.follower[0].followRatio: Invalid value: "0.000": must be an integer from 1 to 1000, or a quoted decimal`},
		},
		"no follower": {
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.ScalingStrategy.LeaderFollowerConfig.Follower = nil }),
			warnings: []string{
				`spec.scalingStrategy.leaderFollowerConfig.follower: is empty, so nothing follows the leader`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs, warnings := Validate(tc.rsg)
			got := lines(errs)
			if len(got) != len(tc.errs) {
				t.Fatalf("findings:\n%s\nwant %d that hold:\n%s", strings.Join(got, "\n"), len(tc.errs), strings.Join(tc.errs, "\n"))
			}
			for i, want := range tc.errs {
				if !strings.Contains(got[i], want) {
					t.Errorf("finding %d is\n%s\nwant one that holds\n%s", i, got[i], want)
				}
			}
			if diff := cmp.Diff(tc.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	snapshot := func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Status.Revision = "llm-1" }
	badKind := ref(0, func(r *v1alpha1.ResourceRef) { r.Kind = "ReplicaSet" })
	paused := func(rsg *v1alpha1.ResourceScalingGroup) { yes := true; rsg.Spec.Paused = &yes }
	const anew = `undo it, or delete the ResourceScalingGroup, whose groups go on running, and create it anew`
	cases := map[string]struct {
		old, rsg *v1alpha1.ResourceScalingGroup
		errs     []string
	}{
		"what was wrong before does not stop a pause": {old: replication(badKind), rsg: replication(badKind, paused)},
		"nor does it when its entry moves in the list": {
			old: replication(badKind),
			rsg: replication(badKind, func(rsg *v1alpha1.ResourceScalingGroup) {
				s := rsg.Spec.TargetResources
				s[0], s[1] = s[1], s[0]
			}),
		},
		"what is wrong anew does": {
			old:  replication(badKind),
			rsg:  replication(badKind, ref(1, func(r *v1alpha1.ResourceRef) { r.Kind = "ReplicaSet" })),
			errs: []string{`spec.targetResources[1].resourceRef.kind: Invalid value: "apps/v1 ReplicaSet"`},
		},
		"a bad expression in place of another": {
			old:  replication(metric(v1alpha1.ScaleDownMetric{Expr: "sum("})),
			rsg:  replication(metric(v1alpha1.ScaleDownMetric{Expr: "avg("})),
			errs: []string{`Invalid value: "avg("`},
		},
		"anything may change before the first snapshot": {
			old: replication(),
			rsg: inplace(func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.TargetResources[0].ResourceRef.Name = "other" }),
		},
		"counts, scale-down and pause may change after it": {
			old: replication(snapshot),
			rsg: replication(snapshot, paused, metric(v1alpha1.ScaleDownMetric{Expr: "up"}), func(rsg *v1alpha1.ResourceScalingGroup) {
				n := int32(7)
				rsg.Spec.ScalingStrategy.GroupConfig.Replicas = &n
			}),
		},
		"the type may not": {
			old:  replication(snapshot),
			rsg:  inplace(snapshot),
			errs: []string{`spec.scalingStrategy.type: Invalid value: "InplaceScaling": was GroupReplication and may change only until the first snapshot exists, and ControllerRevision llm-1 does; ` + anew},
		},
		"the groupName may not": {
			old: replication(snapshot),
			rsg: replication(snapshot, func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.ScalingStrategy.GroupConfig.GroupName = "prefill-decode"
			}),
			errs: []string{`spec.scalingStrategy.groupConfig.groupName: Invalid value: "prefill-decode": was Prefill-Decode and may change only until the first snapshot exists, and ControllerRevision llm-1 does; ` + anew},
		},
		"writing out the default groupName is no change": {
			old: replication(snapshot, func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.ScalingStrategy.GroupConfig.GroupName = "" }),
			rsg: replication(snapshot, func(rsg *v1alpha1.ResourceScalingGroup) { rsg.Spec.ScalingStrategy.GroupConfig.GroupName = "llm" }),
		},
		"writing out the default namespace is no change": {
			old: replication(snapshot, ref(0, func(r *v1alpha1.ResourceRef) { r.Namespace = "" })),
			rsg: replication(snapshot, ref(0, func(r *v1alpha1.ResourceRef) { r.Namespace = "scaling-system" })),
		},
		"targets may not": {
			old: replication(snapshot),
			rsg: replication(snapshot, ref(0, func(r *v1alpha1.ResourceRef) { r.Name = "other" }), func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources[1].Name = "worker"
			}),
			errs: []string{`spec.targetResources: Forbidden: "prefill" was Deployment production/llm-prefill, "decode" is gone, "worker" is new: ` +
				`targets may change only until the first snapshot exists, and ControllerRevision llm-1 does; ` + anew},
		},
		"nor may their order, since the first one is special": {
			old: replication(snapshot),
			rsg: replication(snapshot, func(rsg *v1alpha1.ResourceScalingGroup) {
				s := rsg.Spec.TargetResources
				s[0], s[1] = s[1], s[0]
			}),
			errs: []string{`spec.targetResources: Forbidden: the order was prefill, decode: targets may change only`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs, _ := ValidateUpdate(tc.old, tc.rsg)
			got := lines(errs)
			if len(got) != len(tc.errs) {
				t.Fatalf("findings:\n%s\nwant %d", strings.Join(got, "\n"), len(tc.errs))
			}
			for i, want := range tc.errs {
				if !strings.Contains(got[i], want) {
					t.Errorf("finding is\n%s\nwant one that holds\n%s", got[i], want)
				}
			}
		})
	}
}

func TestRequiredRights(t *testing.T) {
	rights := func(rsg *v1alpha1.ResourceScalingGroup) map[string][]string {
		all := map[string][]string{}
		for _, t := range RequiredRights(rsg) {
			for _, r := range t.Rights {
				all[t.Path.String()] = append(all[t.Path.String()], r.String())
			}
		}
		return all
	}
	cases := map[string]struct {
		rsg  *v1alpha1.ResourceScalingGroup
		want map[string][]string
	}{
		"targets beside the object need none": {
			rsg:  replication(ref(0, func(r *v1alpha1.ResourceRef) { r.Namespace = "" }), ref(1, func(r *v1alpha1.ResourceRef) { r.Namespace = "scaling-system" })),
			want: map[string][]string{},
		},
		"targets to copy": {
			rsg: replication(ref(0, func(r *v1alpha1.ResourceRef) { r.Namespace = "" })),
			want: map[string][]string{"spec.targetResources[1].resourceRef": {
				`update deployments.apps/scale "llm-decode" in namespace production`,
				`get deployments.apps "llm-decode" in namespace production`,
				`create deployments.apps in namespace scaling-system`,
			}},
		},
		"targets to scale": {
			rsg:  inplace(ref(0, func(r *v1alpha1.ResourceRef) { r.Namespace = "" })),
			want: map[string][]string{"spec.targetResources[1].resourceRef": {`update deployments.apps/scale "llm-decode" in namespace production`}},
		},
		"a role is asked for as the workload that it runs as": {
			rsg: replication(ref(0, func(r *v1alpha1.ResourceRef) { r.Namespace = "" }), func(rsg *v1alpha1.ResourceScalingGroup) {
				rsg.Spec.TargetResources[1] = role("decode", &v1alpha1.Subresource{RoleName: "decode", WorkloadKind: "LeaderWorkerSet"})
				rsg.Spec.TargetResources[1].ResourceRef.Namespace = "production"
			}),
			want: map[string][]string{"spec.targetResources[1].resourceRef": {
				`update leaderworkersets.leaderworkerset.x-k8s.io/scale "serving-decode" in namespace production`,
				`get leaderworkersets.leaderworkerset.x-k8s.io "serving-decode" in namespace production`,
				`create leaderworkersets.leaderworkerset.x-k8s.io in namespace scaling-system`,
			}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, rights(tc.rsg)); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorkloadOf(t *testing.T) {
	long := strings.Repeat("a", 60)
	cases := map[string]struct {
		ref  v1alpha1.ResourceRef
		want string
	}{
		"a workload":                  {target("t", "", "llm").ResourceRef, "Deployment default/llm"},
		"a role":                      {role("t", &v1alpha1.Subresource{RoleName: "prefill"}).ResourceRef, "StatefulSet default/serving-prefill"},
		"a role with a workload name": {role("t", &v1alpha1.Subresource{RoleName: "prefill", WorkloadName: "x"}).ResourceRef, "StatefulSet default/x"},
		"a role with a long name": {
			v1alpha1.ResourceRef{APIVersion: "workloads.x-k8s.io/v1alpha2", Kind: KindRoleBasedGroup, Name: long, Subresource: &v1alpha1.Subresource{RoleName: "b-c"}},
			"StatefulSet default/" + long + "-b",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := WorkloadOf(tc.ref, "default").String(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestComponentAccount(t *testing.T) {
	cases := map[string]struct{ spec, want string }{
		"no account":               {`template: {spec: {containers: [{name: a}]}}`, ""},
		"somebody's account":       {`template: {spec: {serviceAccountName: engine}}`, ""},
		"an account of ours":       {`template: {spec: {serviceAccountName: pd-orchestrator-tidal}}`, "pd-orchestrator-tidal"},
		"by the old name":          {`template: {spec: {serviceAccount: pd-orchestrator-elasticscaler}}`, "pd-orchestrator-elasticscaler"},
		"in one of two templates":  {`leaderWorkerTemplate: {leaderTemplate: {spec: {}}, workerTemplate: {spec: {serviceAccountName: pd-orchestrator-tidal}}}`, "pd-orchestrator-tidal"},
		"as a value of something":  {`template: {spec: {containers: [{name: a, env: [{name: serviceAccountName, value: pd-orchestrator-tidal}]}]}}`, ""},
		"in an object without one": {``, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte("spec: {"+strings.TrimSpace(tc.spec)+"}"), &obj.Object); err != nil {
				t.Fatal(err)
			}
			if got := ComponentAccount(obj); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// FuzzValidate holds that nothing that a user can write makes the checks fail or differ, and that an object can always
// be written back as it was.
func FuzzValidate(f *testing.F) {
	for _, rsg := range []*v1alpha1.ResourceScalingGroup{replication(), inplace(), replication(metric(v1alpha1.ScaleDownMetric{Expr: "sum(", Type: "Counter", Window: "1m1h"}))} {
		text, err := json.Marshal(rsg)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rsg := &v1alpha1.ResourceScalingGroup{}
		if json.Unmarshal(text, rsg) != nil {
			return
		}
		errs, warnings := Validate(rsg)
		for _, err := range errs {
			if err.Field == "" || err.Error() == "" {
				t.Errorf("finding without a path or words: %v", err)
			}
		}
		again, _ := Validate(rsg)
		if diff := cmp.Diff(lines(errs), lines(again)); diff != "" {
			t.Errorf("a second look differs:\n%s", diff)
		}
		unchanged, still := ValidateUpdate(rsg, rsg.DeepCopy())
		if len(unchanged) > 0 {
			t.Errorf("writing back the same is refused: %v", unchanged)
		}
		if diff := cmp.Diff(warnings, still); diff != "" {
			t.Errorf("warnings differ:\n%s", diff)
		}
		RequiredRights(rsg)
	})
}
