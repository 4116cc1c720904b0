package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab"
)

const (
	group = "autoscaling.openfuyao.com"
	// denied begins what the API server says for the webhook.
	denied = `admission webhook "` + configuration + `" denied the request: ResourceScalingGroup.autoscaling.openfuyao.com "llm" is invalid: `
)

// replication is a manifest of type GroupReplication, inplace one of type InplaceScaling. Words in it are replaced to
// make it wrong.
const (
	replication = `
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: llm}
spec:
  targetResources:
  - name: prefill
    resourceRef: {apiVersion: apps/v1, kind: Deployment, name: llm-prefill}
  - name: decode
    resourceRef: {apiVersion: apps/v1, kind: Deployment, name: llm-decode}
  scalingStrategy:
    type: GroupReplication
    groupConfig:
      groupName: Prefill-Decode
      replicas: 1
      scaleDown:
        metric: {expr: "vllm:num_requests_running", type: Gauge, aggregator: avg}
        order: ascending
`
	inplace = `
apiVersion: autoscaling.openfuyao.com/v1alpha1
kind: ResourceScalingGroup
metadata: {name: llm}
spec:
  targetResources:
  - name: scheduler
    resourceRef: {apiVersion: apps/v1, kind: Deployment, name: scheduler}
  - name: worker
    resourceRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  - name: sidecar
    resourceRef: {apiVersion: apps/v1, kind: Deployment, name: sidecar}
  scalingStrategy:
    type: InplaceScaling
    leaderFollowerConfig:
      leader: {resourceName: scheduler, replicas: 3}
      follower:
      - {resourceName: worker, followRatio: 2}
      - {resourceName: sidecar, followRatio: 1}
`
)

// manifest reads a manifest into a namespace, with pairs of words replaced.
func manifest(t *testing.T, namespace, text string, replace ...string) *unstructured.Unstructured {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("the manifest has no %q to replace", replace[i])
		}
	}
	u := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(text)), &u.Object))
	u.SetNamespace(namespace)
	return u
}

// TestRefusals holds every refusal, with its message.
func TestRefusals(t *testing.T) {
	ns := namespaces(t, "refusals")[0]
	const (
		decodeRef = `{apiVersion: apps/v1, kind: Deployment, name: llm-decode}`
		role      = `{apiVersion: workloads.x-k8s.io/v1alpha2, kind: RoleBasedGroup, name: serving, subresource: {type: RoleBasedGroup, roleName: decode}}`
		gauge     = `{expr: "vllm:num_requests_running", type: Gauge, aggregator: avg}`
	)
	cases := map[string]struct {
		text    string
		replace []string
		want    []string
	}{
		// Duplicate targets.
		"a workload twice": {
			replication, []string{"llm-decode", "llm-prefill"},
			[]string{`spec.targetResources: Invalid value`, `targetResources must name each workload once; remove the entry that repeats another's resourceRef`},
		},
		"a workload twice, once with its namespace": {
			inplace, []string{"name: worker}", "name: scheduler, namespace: " + ns + "}"},
			[]string{denied, `spec.targetResources[1].resourceRef: Duplicate value: "Deployment ` + ns + `/scheduler": is target "scheduler" already: remove one of the two`},
		},
		"a role and the workload that it runs as": {
			replication, []string{"kind: Deployment, name: llm-prefill", "kind: StatefulSet, name: serving-decode", decodeRef, role},
			[]string{denied, `spec.targetResources[1].resourceRef: Duplicate value: "StatefulSet ` + ns + `/serving-decode": is target "prefill" already: remove one of the two`},
		},
		"a target name twice": {
			replication, []string{"name: decode", "name: prefill"},
			[]string{duplicate("spec.targetResources[1]", `{"name":"prefill"}`)},
		},

		// Illegal references.
		"no targets": {
			inplace[:strings.Index(inplace, "  targetResources:")] + "  targetResources: []\n" + inplace[strings.Index(inplace, "  scalingStrategy:"):], nil,
			[]string{`spec.targetResources: Invalid value: 0: spec.targetResources in body should have at least 1 items`},
		},
		"a kind without replicas": {
			replication, []string{"kind: Deployment, name: llm-decode", "kind: DaemonSet, name: llm-decode"},
			[]string{`spec.targetResources[1].resourceRef.kind: Invalid value`, `kind must be a workload with a replica count: Deployment, StatefulSet, LeaderWorkerSet or RoleBasedGroup`},
		},
		"a ResourceScalingGroup as a target": {
			replication, []string{decodeRef, `{apiVersion: autoscaling.openfuyao.com/v1alpha1, kind: ResourceScalingGroup, name: other}`},
			[]string{`kind must be a workload with a replica count`},
		},
		"a kind that nobody knows": {
			replication, []string{"kind: Deployment, name: llm-decode", "kind: ReplicaSet, name: llm-decode"},
			[]string{denied, `spec.targetResources[1].resourceRef.kind: Invalid value: "apps/v1 ReplicaSet": must be one of apps/v1 Deployment, apps/v1 StatefulSet, leaderworkerset.x-k8s.io/v1 LeaderWorkerSet, or a role of a RoleBasedGroup`},
		},
		"a version that is none": {
			replication, []string{"{apiVersion: apps/v1, kind: Deployment, name: llm-decode}", "{apiVersion: apps/v1/x, kind: Deployment, name: llm-decode}"},
			[]string{denied, `spec.targetResources[1].resourceRef.apiVersion: Invalid value: "apps/v1/x": must be of the form group/version, for example apps/v1`},
		},
		"a name that no object can have": {
			replication, []string{"name: llm-decode", "name: LLM_decode"},
			[]string{denied, `spec.targetResources[1].resourceRef.name: Invalid value: "LLM_decode": must be the name of an object`},
		},
		"a namespace that cannot be": {
			replication, []string{"name: llm-decode", "name: llm-decode, namespace: a.b"},
			[]string{denied, `spec.targetResources[1].resourceRef.namespace: Invalid value: "a.b": must be the name of a namespace`},
		},

		// Roles.
		"a RoleBasedGroup without a role": {
			replication, []string{decodeRef, `{apiVersion: workloads.x-k8s.io/v1alpha2, kind: RoleBasedGroup, name: serving}`},
			[]string{`spec.targetResources[1].resourceRef.subresource: Invalid value`, `subresource must be set when kind is RoleBasedGroup, to say which role is meant`},
		},
		"a role without a name": {
			replication, []string{decodeRef, strings.Replace(role, ", roleName: decode", "", 1)},
			[]string{`spec.targetResources[1].resourceRef.subresource.roleName: Invalid value`, `roleName must be set, or workloadName where the workload of the role has a name of its own`},
		},
		"a role of a Deployment": {
			replication, []string{"name: llm-decode", "name: llm-decode, subresource: {type: RoleBasedGroup, roleName: decode}"},
			[]string{`spec.targetResources[1].resourceRef.subresource: Invalid value`, `subresource must be left out unless kind is RoleBasedGroup`},
		},
		"a RoleBasedGroup of another group": {
			replication, []string{decodeRef, strings.Replace(role, "workloads.x-k8s.io/v1alpha2", "apps/v1", 1)},
			[]string{denied, `spec.targetResources[1].resourceRef.apiVersion: Invalid value: "apps/v1": must be of group workloads.x-k8s.io for kind RoleBasedGroup`},
		},
		"a role that is scaled in place": {
			inplace, []string{"{apiVersion: apps/v1, kind: Deployment, name: worker}", role},
			[]string{denied, `spec.targetResources[1].resourceRef.kind: Invalid value: "RoleBasedGroup": must not be a RoleBasedGroup with type InplaceScaling: ` +
				`the RoleBasedGroup's own controller owns the replicas of its roles and puts back what anybody else writes`},
		},

		// Strategy and its block.
		"a type that is none": {
			replication, []string{"type: GroupReplication", "type: Replication"},
			[]string{`spec.scalingStrategy.type: Unsupported value: "Replication": supported values: "GroupReplication", "InplaceScaling"`},
		},
		"groups without groupConfig": {
			inplace, []string{"type: InplaceScaling", "type: GroupReplication"},
			[]string{`groupConfig must be set when type is GroupReplication`, `leaderFollowerConfig must not be set when type is GroupReplication: remove it, or use type InplaceScaling`},
		},
		"followers without leaderFollowerConfig": {
			replication, []string{"type: GroupReplication", "type: InplaceScaling"},
			[]string{`leaderFollowerConfig must be set when type is InplaceScaling`, `groupConfig must not be set when type is InplaceScaling: remove it, or use type GroupReplication`},
		},
		"fewer groups than none": {
			replication, []string{"replicas: 1", "replicas: -1"},
			[]string{`spec.scalingStrategy.groupConfig.replicas: Invalid value: -1`, `should be greater than or equal to 0`},
		},

		// Scale-down by metric.
		//nolint:misspell // The document warns of this very spelling.
		"a metric type written wrong": {
			replication, []string{"type: Gauge", "type: guage"},
			[]string{`spec.scalingStrategy.groupConfig.scaleDown.metric.type: Unsupported value: "guage": supported values: "Counter", "Gauge", "Histogram"`},
		},
		"an aggregator that is none": {
			replication, []string{"aggregator: avg", "aggregator: median"},
			[]string{`spec.scalingStrategy.groupConfig.scaleDown.metric.aggregator: Unsupported value: "median": supported values: "sum", "avg", "max", "min"`},
		},
		"an order that is none": {
			replication, []string{"order: ascending", "order: up"},
			[]string{`spec.scalingStrategy.groupConfig.scaleDown.order: Unsupported value: "up": supported values: "ascending", "descending"`},
		},
		"a Counter without window": {
			replication, []string{"type: Gauge", "type: Counter"},
			[]string{`spec.scalingStrategy.groupConfig.scaleDown.metric.window: Invalid value`, `window must be set for type Counter or Histogram, for example 2m`},
		},
		"a Histogram with a window that is none": {
			replication, []string{"type: Gauge", "type: Histogram, window: soon"},
			[]string{`window must be a Prometheus duration greater than 0, for example 2m or 1h30m`},
		},
		"a window with its units in the wrong order": {
			replication, []string{"type: Gauge", "type: Counter, window: 30m1h"},
			[]string{denied, `spec.scalingStrategy.groupConfig.scaleDown.metric.window: Invalid value: "30m1h": must be a Prometheus duration greater than 0, largest unit first, for example 2m or 1h30m`},
		},
		"an expression that is no PromQL": {
			replication, []string{gauge, `{expr: "sum(vllm:num_requests_running"}`},
			[]string{denied, `spec.scalingStrategy.groupConfig.scaleDown.metric.expr: Invalid value: "sum(vllm:num_requests_running": must be a PromQL expression with one value per series: 1:`, `unclosed left parenthesis`},
		},
		"a rate of what has none": {
			replication, []string{gauge, `{expr: "sum(requests_total)", type: Counter, window: 2m}`},
			[]string{denied, `must be a PromQL selector, as the range of a rate is taken of it for type Counter: 1:`},
		},

		// Leader and followers.
		"a leader that is no target": {
			inplace, []string{"leader: {resourceName: scheduler", "leader: {resourceName: boss"},
			[]string{`spec.scalingStrategy.leaderFollowerConfig.leader.resourceName: Invalid value`, `leader.resourceName must be the name of an entry of targetResources`},
		},
		"a follower that is no target": {
			inplace, []string{"- {resourceName: worker", "- {resourceName: helper"},
			[]string{`spec.scalingStrategy.leaderFollowerConfig.follower: Invalid value`, `follower[].resourceName must be the name of an entry of targetResources`},
		},
		"a leader that follows itself": {
			inplace, []string{"- {resourceName: worker", "- {resourceName: scheduler"},
			[]string{`follower[].resourceName must be another target than leader.resourceName`},
		},
		"a follower twice": {
			inplace, []string{"- {resourceName: sidecar", "- {resourceName: worker"},
			[]string{duplicate("spec.scalingStrategy.leaderFollowerConfig.follower[1]", `{"resourceName":"worker"}`)},
		},
		"a ratio of nothing": {
			inplace, []string{"followRatio: 2", "followRatio: 0"},
			[]string{`followRatio must be an integer from 1 to 1000, or a quoted decimal above 0 and at most 1000 with at most three decimals, for example "0.5"`},
		},
		"a product that no count can hold": {
			inplace, []string{"replicas: 3", "replicas: 2147483647"},
			[]string{denied, `spec.scalingStrategy.leaderFollowerConfig.follower[0].followRatio: Invalid value: "2": with leader.replicas 2147483647: 2147483647 x 2 is more than a replica count can hold: must be at most 2147483647; lower one of the two`},
		},

		// Names.
		"a name with capitals, as the document has it": {
			replication, []string{"metadata: {name: llm}", "metadata: {name: llm-Prefill-Decode-group}"},
			[]string{`metadata.name: Invalid value: "llm-Prefill-Decode-group": a lowercase RFC 1123 subdomain`},
		},
		"a name that is no label value": {
			replication, []string{"metadata: {name: llm}", "metadata: {name: " + strings.Repeat("a", 64) + "}"},
			[]string{`metadata.name must be at most 63 characters, since it becomes a label value`},
		},
		"a groupName that is part of no name": {
			replication, []string{"groupName: Prefill-Decode", "groupName: prefill_decode"},
			[]string{`groupName must be letters, digits and '-', and begin and end with a letter or digit, since it becomes part of object names`},
		},
		"clones with names that are too long": {
			replication, []string{"kind: Deployment, name: llm-decode", "kind: StatefulSet, name: " + strings.Repeat("a", 33)},
			[]string{denied, `spec.targetResources[1].resourceRef.name: Invalid value: "` + strings.Repeat("a", 33) + `"`,
				`which is 53 characters: must be at most 52; shorten groupName "Prefill-Decode" or rename the workload`},
		},
		"two targets with clones of one name": {
			replication, []string{"name: llm-decode", "name: llm-prefill, namespace: elsewhere"},
			[]string{`targetResources must not hold two workloads of one kind and name in different namespaces, since their clones would have the same name; put one of them into another ResourceScalingGroup`},
		},
		"a target where a clone is to be": {
			replication, []string{"name: llm-decode", "name: prefill-decode-llm-prefill-7"},
			[]string{denied, `is the name of the clone of target "prefill" in group 7: change groupName "Prefill-Decode" or rename the workload`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			obj := manifest(t, ns, tc.text, tc.replace...)
			refused(t, suite.admin.Create(t.Context(), obj.DeepCopy()), tc.want...)
			refused(t, suite.admin.Create(t.Context(), obj.DeepCopy(), client.DryRunAll), tc.want...)
		})
	}
}

// TestAllFindingsComeInOneAnswer, each with the field's path, for machines too.
func TestAllFindingsComeInOneAnswer(t *testing.T) {
	ns := namespaces(t, "findings")[0]
	err := suite.admin.Create(t.Context(), manifest(t, ns, replication,
		"kind: Deployment, name: llm-prefill", "kind: ReplicaSet, name: llm-prefill",
		"name: llm-decode", "name: LLM",
		`{expr: "vllm:num_requests_running", type: Gauge, aggregator: avg}`, `{expr: "sum(", type: Counter, window: 1m1h}`,
	))
	paths := []string{
		"spec.targetResources[0].resourceRef.kind", "spec.targetResources[1].resourceRef.name",
		"spec.scalingStrategy.groupConfig.scaleDown.metric.window", "spec.scalingStrategy.groupConfig.scaleDown.metric.expr",
	}
	refused(t, err, paths...)
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid || status.Status().Details == nil {
		t.Fatalf("the refusal is %#v, want one of reason Invalid with details", err)
	}
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		causes = append(causes, cause.Field)
	}
	if got, want := strings.Join(causes, "\n"), strings.Join(paths, "\n"); got != want {
		t.Errorf("causes are of\n%s\nwant\n%s", got, want)
	}
}

// warnings collects what the API server warns of.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func TestWarnings(t *testing.T) {
	cases := map[string]struct {
		text    string
		replace []string
		want    string
	}{
		"the document's example": {replication, nil, ""},
		"a metric without an expression": {
			replication, []string{`expr: "vllm:num_requests_running", `, ""},
			`spec.scalingStrategy.groupConfig.scaleDown.metric.expr: is not set, so the annotation autoscaling.rsg.metric.values decides which groups go, then the highest group id`,
		},
		"a window on a Gauge": {
			replication, []string{"type: Gauge", "type: Gauge, window: anything"},
			`spec.scalingStrategy.groupConfig.scaleDown.metric.window: has no effect on a Gauge`,
		},
		"a target without a part": {
			inplace, []string{"      - {resourceName: sidecar, followRatio: 1}\n", ""},
			`spec.targetResources[2]: target "sidecar" is neither leader nor follower, so nothing scales it`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := namespaces(t, "warnings")[0]
			config := rest.CopyConfig(suite.lab.AdminConfig())
			got := &warnings{}
			config.WarningHandler = got
			c, err := newClient(config)
			must(t, err)
			must(t, c.Create(t.Context(), manifest(t, ns, tc.text, tc.replace...)))
			all := strings.Join(got.all, "\n")
			if tc.want == "" && all != "" || !strings.Contains(all, tc.want) {
				t.Errorf("warnings are %q, want %q", all, tc.want)
			}
		})
	}
}

func TestATargetHasOneManagerOfAStrategy(t *testing.T) {
	names := namespaces(t, "first", "second")
	first := manifest(t, names[0], replication)
	must(t, suite.admin.Create(t.Context(), first.DeepCopy()))
	// The webhook looks for others in its cache.
	second := manifest(t, names[1], replication, "name: llm-decode", "name: llm-decode, namespace: "+names[0], "metadata: {name: llm}", "metadata: {name: another}")
	words := []string{
		`spec.targetResources[1].resourceRef: Invalid value: "Deployment ` + names[0] + `/llm-decode": is managed by ResourceScalingGroup ` + names[0] + `/llm of type GroupReplication already: remove it from one of the two`,
	}
	testkit.Eventually(t, 10*time.Second, "the second one to be refused", func(ctx context.Context) error {
		err := suite.admin.Create(ctx, second.DeepCopy(), client.DryRunAll)
		if err == nil {
			return errors.New("it was accepted")
		}
		return nil
	})
	refused(t, suite.admin.Create(t.Context(), second.DeepCopy()), words...)

	// Of the other strategy there may be one.
	must(t, suite.admin.Create(t.Context(), manifest(t, names[0], inplace, "name: scheduler}", "name: llm-prefill}", "metadata: {name: llm}", "metadata: {name: inplace}")))

	// Its place is free at once.
	must(t, suite.admin.Delete(t.Context(), first.DeepCopy()))
	must(t, suite.admin.Create(t.Context(), second.DeepCopy()))
}

func TestWhatGroupsAreFoundByIsHeldOnceASnapshotExists(t *testing.T) {
	ns := namespaces(t, "identity")[0]
	obj := manifest(t, ns, replication)
	must(t, suite.admin.Create(t.Context(), obj.DeepCopy()))
	change := func(path string) error {
		return suite.admin.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(path)))
	}
	// Nothing was copied yet: the workloads do not exist.
	must(t, change(`{"spec":{"scalingStrategy":{"groupConfig":{"groupName":"other"}}}}`))
	must(t, change(`{"spec":{"scalingStrategy":{"groupConfig":{"groupName":"Prefill-Decode"}}}}`))

	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "llm-prefill").Obj()))
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "llm-decode").Obj()))
	live := &v1alpha1.ResourceScalingGroup{}
	testkit.Eventually(t, 30*time.Second, "a snapshot", func(ctx context.Context) error {
		if err := suite.admin.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
			return err
		}
		if live.Status.Revision == "" {
			return fmt.Errorf("status.revision is empty: %v", live.Status.Conditions)
		}
		return nil
	})
	held := "may change only until the first snapshot exists, and ControllerRevision " + live.Status.Revision + " does; " +
		"undo it, or delete the ResourceScalingGroup, whose groups go on running, and create it anew"
	refused(t, change(`{"spec":{"scalingStrategy":{"groupConfig":{"groupName":"other"}}}}`),
		`spec.scalingStrategy.groupConfig.groupName: Invalid value: "other": was Prefill-Decode and `+held)
	refused(t, change(`{"spec":{"targetResources":[{"name":"prefill","resourceRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"llm-prefill"}}]}}`),
		`spec.targetResources: Forbidden: "decode" is gone: targets `+held)
	must(t, change(`{"spec":{"paused":true,"scalingStrategy":{"groupConfig":{"replicas":2}}}}`))
}

// TestTheWriterMustHaveTheRightsThatTheControllerLends is the access rule, with real users.
func TestTheWriterMustHaveTheRightsThatTheControllerLends(t *testing.T) {
	names := namespaces(t, "dev", "prod")
	dev, prod := names[0], names[1]
	alice, bob := "alice-"+dev, "bob-"+dev
	writer := []rbacv1.PolicyRule{
		right(group, "resourcescalinggroups", "get", "create", "update", "patch", "delete"),
		right(group, "resourcescalinggroups/scale", "get", "update", "patch"),
	}
	for _, name := range []string{alice, bob} {
		grant(t, person(name), dev, writer...)
	}
	as := user(t, alice)
	elsewhere := func(workload string) *unstructured.Unstructured {
		return manifest(t, dev, replication, "name: llm-decode", "name: "+workload+", namespace: "+prod)
	}
	needs := func(user string, rights ...string) string {
		return `spec.targetResources[1].resourceRef: Forbidden: is in another namespace, where user "` + user + `" must be allowed to: ` +
			strings.Join(rights, ", ") + `; ask for that right, or put the ResourceScalingGroup beside its target`
	}
	scale := `update deployments.apps/scale "llm-decode" in namespace ` + prod
	get := `get deployments.apps "llm-decode" in namespace ` + prod
	create := `create deployments.apps in namespace ` + dev

	missing := as.Create(t.Context(), elsewhere("llm-decode"))
	refused(t, missing, needs(alice, scale, get, create))

	// The answer is the same where the workload exists, runs as an account of ours, and has a manager already.
	base := testkit.MakeDeployment(prod, "llm-decode").Obj()
	base.Spec.Template.Spec.ServiceAccountName = account
	must(t, suite.admin.Create(t.Context(), base))
	owner := manifest(t, prod, replication, "name: llm-prefill}", "name: prod-prefill}", "metadata: {name: llm}", "metadata: {name: owner}")
	must(t, suite.admin.Create(t.Context(), owner))
	time.Sleep(time.Second) // for the webhook's cache to know the manager
	if there := as.Create(t.Context(), elsewhere("llm-decode")); there == nil || there.Error() != missing.Error() {
		t.Errorf("the answer tells whether the target exists:\n%v\nbefore it did:\n%v", there, missing)
	}
	must(t, suite.admin.Delete(t.Context(), owner))

	// Each right is asked for.
	grant(t, person(alice), prod, right("apps", "deployments/scale", "update"))
	refused(t, eventually(t, func() error { return as.Create(t.Context(), elsewhere("llm-decode"), client.DryRunAll) }, scale), needs(alice, get, create))
	grant(t, person(alice), dev, right("apps", "deployments", "create"))
	refused(t, eventually(t, func() error { return as.Create(t.Context(), elsewhere("llm-decode"), client.DryRunAll) }, create), needs(alice, get))
	grant(t, person(alice), prod, right("apps", "deployments", "get"))
	testkit.Eventually(t, 10*time.Second, "alice to be admitted", func(ctx context.Context) error { return as.Create(ctx, elsewhere("llm-decode")) })

	// Every change of the spec asks its own writer.
	other := user(t, bob)
	obj := elsewhere("llm-decode")
	patch := func(c client.Client, text string) error {
		return c.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	refused(t, patch(other, `{"spec":{"scalingStrategy":{"groupConfig":{"replicas":2}}}}`), needs(bob, scale, get, create))
	refused(t, patch(other, `{"spec":{"paused":true}}`), needs(bob, scale, get, create))
	must(t, patch(as, `{"spec":{"paused":true}}`))

	// Neither metadata, nor the scale subresource, nor deletion is a change of the spec by this rule.
	must(t, patch(other, `{"metadata":{"labels":{"team":"b"}}}`))
	rsg := &v1alpha1.ResourceScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: dev, Name: "llm"}}
	must(t, other.SubResource("scale").Update(t.Context(), rsg, client.WithSubResourceBody(&autoscalingv1.Scale{
		ObjectMeta: rsg.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: 3},
	})))
	must(t, other.Delete(t.Context(), rsg))

	// To scale in place takes the scale subresource only, and a ServiceAccount, as of a GitOps tool, is a writer too.
	robot := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: dev, Name: "deployer"}}
	must(t, suite.admin.Create(t.Context(), robot))
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: dev, Name: "deployer"}
	grant(t, subject, dev, writer...)
	config, err := suite.lab.ServiceAccountConfig(t.Context(), dev, "deployer")
	must(t, err)
	machine, err := newClient(config)
	must(t, err)
	follows := manifest(t, dev, inplace, "name: worker}", "name: llm-decode, namespace: "+prod+"}")
	follows.SetName("follows")
	refused(t, machine.Create(t.Context(), follows.DeepCopy()), needs("system:serviceaccount:"+dev+":deployer", scale))
	grant(t, subject, prod, right("apps", "deployments/scale", "update"))
	testkit.Eventually(t, 10*time.Second, "the ServiceAccount to be admitted", func(ctx context.Context) error {
		return machine.Create(ctx, follows.DeepCopy())
	})
}

// eventually repeats a request until its refusal no longer holds the word, since rights are cached for a moment.
func eventually(t *testing.T, request func() error, gone string) error {
	t.Helper()
	var last error
	testkit.Eventually(t, 10*time.Second, "the refusal to be about less than "+gone, func(context.Context) error {
		if last = request(); last != nil && strings.Contains(last.Error(), gone) {
			return last
		}
		return nil
	})
	return last
}

func TestWhatIsAdmittedInAnotherNamespaceIsActedOn(t *testing.T) {
	names := namespaces(t, "groups", "bases")
	for _, name := range []string{"llm-prefill", "llm-decode"} {
		must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(names[1], name).Obj()))
	}
	must(t, suite.admin.Create(t.Context(), manifest(t, names[0], replication,
		"name: llm-prefill", "name: llm-prefill, namespace: "+names[1], "name: llm-decode", "name: llm-decode, namespace: "+names[1], "replicas: 1", "replicas: 2")))
	testkit.Eventually(t, 30*time.Second, "a clone", func(ctx context.Context) error {
		return suite.admin.Get(ctx, types.NamespacedName{Namespace: names[0], Name: "prefill-decode-llm-decode-1"}, &appsv1.Deployment{})
	})
}

func TestAWorkloadThatRunsAsOneOfOurComponentsIsNotCopiedToThem(t *testing.T) {
	ns := namespaces(t, "accounts")[0]
	base := testkit.MakeDeployment(ns, "llm-decode").Obj()
	base.Spec.Template.Spec.ServiceAccountName = account
	must(t, suite.admin.Create(t.Context(), base))
	inOurs := manifest(t, lab.ProductNamespace, replication, "name: llm-decode", "name: llm-decode, namespace: "+ns)
	refused(t, suite.admin.Create(t.Context(), inOurs),
		denied+`spec.targetResources[1].resourceRef: Forbidden: Deployment `+ns+`/llm-decode runs as ServiceAccount `+account+
			`, and a copy of it in namespace scaling-system would hold the rights of that component: `+
			`put the ResourceScalingGroup into another namespace, or give the workload a ServiceAccount of its own`)
	must(t, suite.admin.Create(t.Context(), manifest(t, ns, replication)))
}

func TestDryRunLeavesNothing(t *testing.T) {
	ns := namespaces(t, "dry")[0]
	obj := manifest(t, ns, replication, "name: llm-decode", "name: not-there")
	must(t, suite.admin.Create(t.Context(), obj.DeepCopy(), client.DryRunAll))
	if err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run the object is there: %v", err)
	}
	// What was only tried does not stand in anybody's way.
	second := obj.DeepCopy()
	second.SetName("second")
	must(t, suite.admin.Create(t.Context(), second))
}

func TestServerSideApply(t *testing.T) {
	ns := namespaces(t, "apply")[0]
	apply := func(obj *unstructured.Unstructured, opts ...client.ApplyOption) error {
		return suite.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), append(opts, client.FieldOwner("kubectl"))...)
	}
	bad := []string{"kind: Deployment, name: llm-decode", "kind: ReplicaSet, name: llm-decode"}
	refused(t, apply(manifest(t, ns, replication, bad...)), denied, "spec.targetResources[1].resourceRef.kind")
	must(t, apply(manifest(t, ns, replication)))
	refused(t, apply(manifest(t, ns, replication, bad...)), denied, "spec.targetResources[1].resourceRef.kind")
	must(t, apply(manifest(t, ns, replication, "replicas: 1", "replicas: 2")))
	must(t, apply(manifest(t, ns, replication, "replicas: 1", "replicas: 3"), client.DryRunAll))
}

// serving returns the authority that the API server trusts for the webhook, and the certificate in the Secret.
func serving(ctx context.Context) (authority, certificate string, err error) {
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := suite.admin.Get(ctx, types.NamespacedName{Name: configuration}, hooks); err != nil {
		return "", "", err
	}
	secret := &corev1.Secret{}
	if err := suite.admin.Get(ctx, types.NamespacedName{Namespace: lab.ProductNamespace, Name: account}, secret); err != nil {
		return "", "", err
	}
	return string(hooks.Webhooks[0].ClientConfig.CABundle), string(secret.Data[corev1.TLSCertKey]), nil
}

func TestCertificateIsRenewedWithoutARefusal(t *testing.T) {
	ns := namespaces(t, "renewal")[0]
	authority, before, err := serving(t.Context())
	must(t, err)
	testkit.Eventually(t, 2*validity, "another certificate", func(ctx context.Context) error {
		if err := suite.admin.Create(ctx, manifest(t, ns, replication), client.DryRunAll); err != nil {
			t.Fatalf("refused while the certificate is renewed: %v", err)
		}
		trusted, now, err := serving(ctx)
		if err != nil {
			return err
		}
		if now == before {
			return errors.New("it is still the same")
		}
		if trusted != authority {
			t.Error("the authority has changed with the certificate")
		}
		return nil
	})
	// The server has taken the new one; the old one would still be good for a while.
	testkit.Consistently(t, 2*time.Second, "the webhook answers", func(ctx context.Context) error {
		return suite.admin.Create(ctx, manifest(t, ns, replication), client.DryRunAll)
	})
}

func TestEverythingIsMadeAnewWhenTheSecretIsEmptied(t *testing.T) {
	ns := namespaces(t, "emptied")[0]
	authority, _, err := serving(t.Context())
	must(t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: lab.ProductNamespace, Name: account}}
	must(t, suite.admin.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"data":null}`))))
	testkit.Eventually(t, 20*time.Second, "another authority, trusted", func(ctx context.Context) error {
		trusted, _, err := serving(ctx)
		if err != nil {
			return err
		}
		if trusted == authority {
			return errors.New("it is still the same")
		}
		return suite.admin.Create(ctx, manifest(t, ns, replication), client.DryRunAll)
	})
}

func TestWithoutTheWebhookTheSchemaHoldsAndNothingElseIsStored(t *testing.T) {
	ns := namespaces(t, "down")[0]
	must(t, suite.admin.Create(t.Context(), manifest(t, ns, replication)))
	must(t, groups.manager.Stop())
	stored := manifest(t, ns, replication)
	another := manifest(t, ns, inplace)
	another.SetName("another")

	refused(t, suite.admin.Create(t.Context(), another), `failed calling webhook "`+configuration+`"`)
	refused(t, suite.admin.Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))), `failed calling webhook`)
	// What the schema says holds all the same.
	refused(t, suite.admin.Create(t.Context(), manifest(t, ns, inplace, "- {resourceName: worker", "- {resourceName: scheduler")),
		`follower[].resourceName must be another target than leader.resourceName`)
	// What is not ours to admit goes on.
	must(t, suite.admin.Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
	rsg := &v1alpha1.ResourceScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "llm"}}
	must(t, suite.admin.SubResource("scale").Update(t.Context(), rsg, client.WithSubResourceBody(&autoscalingv1.Scale{
		ObjectMeta: rsg.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: 2},
	})))
	must(t, suite.admin.Delete(t.Context(), rsg))

	must(t, groups.manager.Start(t.Context()))
	must(t, suite.admin.Create(t.Context(), another))
}
