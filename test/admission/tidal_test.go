package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

const (
	tide = `
apiVersion: tidal.io/v1alpha1
kind: Tidal
metadata: {name: tide}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: llm, namespace: here}
  triggers:
    times:
      rules:
      - {name: day, cron: "CRON_TZ=Asia/Shanghai 0 0 8 * * *", replicas: 4}
      - {name: night, cron: "CRON_TZ=Asia/Shanghai 0 0 20 * * *", replicas: 2}
`
	day = "CRON_TZ=Asia/Shanghai 0 0 8 * * *"
	// tideDenied begins what the API server says for the webhook.
	tideDenied = `admission webhook "tidal.tidal.io" denied the request: Tidal.tidal.io "tide" is invalid: `
	dayCron    = "spec.triggers.times.rules[0].cron: Invalid value: "
)

// tideIn reads the manifest of a Tidal into a namespace, that of its target too unless other words say another.
func tideIn(t *testing.T, namespace string, replace ...string) *unstructured.Unstructured {
	t.Helper()
	return manifest(t, namespace, tide, append(replace, "namespace: here", "namespace: "+namespace)...)
}

func TestTidalRefusals(t *testing.T) {
	ns := namespaces(t, "tides")[0]
	ratio := manifest(t, ns, inplace)
	ratio.SetName("ratio")
	must(t, suite.admin.Create(t.Context(), ratio))
	const deployment = "apiVersion: apps/v1, kind: Deployment, name: llm"
	cases := map[string]struct {
		replace []string
		want    []string
	}{
		// What takes the zone database or a calendar.
		"30 February": {
			[]string{day, "0 0 30 2 *"},
			[]string{tideDenied, dayCron + `"0 0 30 2 *": rule "day": "0 0 30 2 *": it never fires, since none of the days of the month that it names exists in any of its months: name a day that exists, such as 28 for the end of February`},
		},
		"the 31st of months that have none": {
			[]string{day, "CRON_TZ=UTC 0 0 0 31 4,6,9,11 *"},
			[]string{tideDenied, dayCron, `it never fires`},
		},
		"a zone with a slip of the pen": {
			[]string{day, "CRON_TZ=Asia/Chongqin 0 9 * * *"},
			[]string{tideDenied, dayCron + `"CRON_TZ=Asia/Chongqin 0 9 * * *": rule "day": unknown time zone "Asia/Chongqin": must be a name of the IANA time zone database such as Asia/Shanghai or UTC`},
		},
		"the machine's zone by another name": {
			[]string{day, "CRON_TZ=localtime 0 9 * * *"},
			[]string{tideDenied, dayCron, `time zone "localtime" would depend on the machine that the manager runs on`},
		},
		"a range over the end of the week": {
			[]string{day, "0 9 * * FRI-MON"},
			[]string{tideDenied, dayCron, `range "fri-mon" runs over the end of the field: write it as two, fri-6,0-mon`},
		},
		"a step longer than its field": {
			[]string{day, "*/90 * * * *"},
			[]string{tideDenied, dayCron, `step "*/90" is longer than its range, so that only 0 would match`},
		},
		// What the schema says, with the webhook too.
		"@every":                    {[]string{day, "@every 2h"}, []string{"spec.triggers.times.rules[0].cron", "must not use @every"}},
		"a zone without fields":     {[]string{day, "CRON_TZ=UTC"}, []string{"spec.triggers.times.rules[0].cron", "cron must have five fields"}},
		"no zone after the =":       {[]string{day, "CRON_TZ="}, []string{"spec.triggers.times.rules[0].cron", "cron must have five fields"}},
		"no zone, and a blank":      {[]string{day, "CRON_TZ= "}, []string{"spec.triggers.times.rules[0].cron", "cron must have five fields"}},
		"zones in zones":            {[]string{day, "TZ=TZ=TZ="}, []string{"spec.triggers.times.rules[0].cron", "cron must have five fields"}},
		"512 stars":                 {[]string{day, strings.Repeat("*", 512)}, []string{"spec.triggers.times.rules[0].cron", "cron must have five fields"}},
		"two rules of one name":     {[]string{"name: night", "name: day"}, []string{duplicate("spec.triggers.times.rules[1]", `{"name":"day"}`)}},
		"a target that is a node's": {[]string{"kind: Deployment", "kind: DaemonSet"}, []string{"spec.targetRef.kind", "this kind has none (a DaemonSet runs one pod on each node, whatever the hour)"}},
		"a target that is a scaler": {[]string{"kind: Deployment", "kind: HorizontalPodAutoscaler"}, []string{"spec.targetRef.kind", "and not a scaler"}},
		// What other objects show.
		"a kind without a count": {
			[]string{deployment, "apiVersion: v1, kind: ConfigMap, name: llm"},
			[]string{tideDenied, `spec.targetRef.kind: Invalid value: "ConfigMap": must be a kind with a scale subresource, such as Deployment, StatefulSet or ResourceScalingGroup; ConfigMap has none, so its count cannot be set`},
		},
		"a kind without a count, in another namespace": {
			[]string{deployment + ", namespace: here", "apiVersion: v1, kind: ConfigMap, name: llm, namespace: elsewhere"},
			[]string{tideDenied, `spec.targetRef.kind: Invalid value: "ConfigMap"`},
		},
		"a kind of no namespace": {
			[]string{deployment, "apiVersion: v1, kind: node, name: llm"},
			[]string{tideDenied, `spec.targetRef.kind: Invalid value: "node"`, `Node has none`},
		},
		"a group that follows a ratio": {
			[]string{deployment, "apiVersion: autoscaling.openfuyao.com/v1alpha1, kind: ResourceScalingGroup, name: ratio"},
			[]string{tideDenied, `spec.targetRef: Invalid value: "ResourceScalingGroup ` + ns + `/ratio": is of type InplaceScaling and has no group count to scale: ` +
				`target the workload of its leader instead, or a ResourceScalingGroup of type GroupReplication`},
		},
		"a kind that nobody serves, in another namespace": {
			[]string{deployment + ", namespace: here", "apiVersion: example.org/v1, kind: Thing, name: llm, namespace: elsewhere"},
			[]string{tideDenied, `spec.targetRef: Forbidden: is in another namespace, and the API server serves no kind Thing in example.org/v1, so nobody can say who may scale it`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			obj := tideIn(t, ns, tc.replace...)
			refused(t, suite.admin.Create(t.Context(), obj.DeepCopy()), tc.want...)
			refused(t, suite.admin.Create(t.Context(), obj.DeepCopy(), client.DryRunAll), tc.want...)
		})
	}
}

func TestAllFindingsAboutATidalComeInOneAnswer(t *testing.T) {
	ns := namespaces(t, "tides")[0]
	err := suite.admin.Create(t.Context(), tideIn(t, ns,
		day, "0 0 30 2 *", "CRON_TZ=Asia/Shanghai 0 0 20 * * *", "CRON_TZ=Asia/Chongqin 0 9 * * *", "apiVersion: apps/v1, kind: Deployment", "apiVersion: v1, kind: ConfigMap"))
	if got, want := causes(t, err), "spec.triggers.times.rules[0].cron spec.triggers.times.rules[1].cron spec.targetRef.kind"; got != want {
		t.Errorf("causes are of %s, want %s", got, want)
	}
}

func TestTidalWarnings(t *testing.T) {
	ns := namespaces(t, "tides")[0]
	for _, name := range []string{"free", "scaled", "tidal"} {
		must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, name).Obj()))
	}
	must(t, suite.admin.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "by-usage"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "scaled"}, MaxReplicas: 3,
		},
	}))
	bySignal := manifest(t, ns, `
apiVersion: elasticscaler.io/v1alpha1
kind: ElasticScaler
metadata: {name: by-signal}
spec:
  targetRef: {kind: deployment, name: scaled}
  trigger: {type: SignalTrigger, signalTrigger: {endpoint: "https://example.org/signal"}}
`)
	// It is refused where its own webhook is slow.
	testkit.Eventually(t, soon, "an ElasticScaler", func(ctx context.Context) error {
		if err := suite.admin.Create(ctx, bySignal.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	other := tideIn(t, ns, "name: llm", "name: tidal")
	other.SetName("other")
	must(t, suite.admin.Create(t.Context(), other))

	const shared = " writes the count of this target too; a Tidal writes it once each time that a rule fires, and between firings it belongs to others"
	cases := map[string]struct {
		replace []string
		want    []string
	}{
		"a Deployment of its own": {[]string{"name: llm", "name: free"}, nil},
		"a target that is not there": {
			nil, []string{`spec.targetRef: Deployment ` + ns + `/llm does not exist yet, so nothing is scaled until it does; or correct the reference`},
		},
		"a group that is not there": {
			[]string{"apiVersion: apps/v1, kind: Deployment", "apiVersion: autoscaling.openfuyao.com/v1alpha1, kind: resourcescalinggroup"},
			[]string{`spec.targetRef: ResourceScalingGroup ` + ns + `/llm does not exist yet, so nothing is scaled until it does; or correct the reference`},
		},
		"a kind that nobody serves": {
			[]string{"apiVersion: apps/v1, kind: Deployment", "apiVersion: example.org/v1, kind: Thing"},
			[]string{`spec.targetRef: the API server serves no kind Thing in example.org/v1, so nothing is scaled until its CRD is installed; or correct the reference`},
		},
		"a kind that the manager may not scale": {
			[]string{"apiVersion: apps/v1, kind: Deployment", "apiVersion: apps/v1, kind: ReplicaSet"},
			[]string{`nothing is scaled until the ServiceAccount of the manager has the verbs get and update on the scale of the kind`},
		},
		"rules that fire together": {
			[]string{"name: llm", "name: free", "Shanghai 0 0 20 * * *", "Shanghai 0 0 8 1 * *"},
			[]string{`spec.triggers.times.rules: "day" and "night" fire together, first at 20`, `; "night" wins, since it is the later in the list`},
		},
		"an HPA and an ElasticScaler on the target": {
			[]string{"name: llm", "name: scaled"},
			[]string{"spec.targetRef: ElasticScaler " + ns + "/by-signal" + shared, "spec.targetRef: HorizontalPodAutoscaler " + ns + "/by-usage" + shared},
		},
		"another Tidal on the target": {
			[]string{"name: llm", "name: tidal"},
			[]string{"spec.targetRef: Tidal " + ns + "/other writes the count of this target too; the older of the two has the first right to it, and the other one writes nothing"},
		},
		"one that is bound, beside another Tidal": {
			[]string{"name: llm", "name: tidal", "{name: tide}", "{name: tide, labels: {elasticscaler.io/name: a, elasticscaler.io/namespace: b}}"}, nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			warns(t, func() *unstructured.Unstructured { return tideIn(t, ns, tc.replace...) }, tc.want...)
		})
	}

	// At most five pairs of rules are named.
	var rules []string
	for i := range 5 {
		rules = append(rules, fmt.Sprintf("{name: r%d, cron: \"@daily\", replicas: 1}", i))
	}
	many := tideIn(t, ns, "name: llm", "name: free", `- {name: day, cron: "`+day+`", replicas: 4}`, "- "+strings.Join(rules, "\n      - "))
	got := warned(t, func(c client.Client) error { return c.Create(t.Context(), many) })
	if n := strings.Count(got, "fire together, first at"); n != 5 || !strings.Contains(got, "5 more pairs of rules fire together; condition RuleConflict names them") {
		t.Errorf("warned of %q, want five pairs and that there are five more", got)
	}
	// A change warns too.
	got = warned(t, func(c client.Client) error {
		return c.Patch(t.Context(), other.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"targetRef":{"name":"not-there"}}}`)))
	})
	if want := "Deployment " + ns + "/not-there does not exist yet"; !strings.Contains(got, want) {
		t.Errorf("warned of %q, want %q", got, want)
	}
}

// TestTheWriterOfATidalMustHaveTheRightToScaleTheTarget is the access rule, with real users.
func TestTheWriterOfATidalMustHaveTheRightToScaleTheTarget(t *testing.T) {
	names := namespaces(t, "dev", "prod")
	dev, prod := names[0], names[1]
	alice, bob := "alice-"+dev, "bob-"+dev
	writer := []rbacv1.PolicyRule{right("tidal.io", "tidals", "get", "create", "update", "patch", "delete")}
	for _, name := range []string{alice, bob} {
		grant(t, person(name), dev, writer...)
	}
	as, other := user(t, alice), user(t, bob)
	elsewhere := func() *unstructured.Unstructured { return tideIn(t, dev, "namespace: here", "namespace: "+prod) }
	needs := func(user string) string {
		return `spec.targetRef: Forbidden: is in another namespace, where user "` + user + `" must be allowed to: ` +
			`update deployments.apps/scale "llm" in namespace ` + prod + `; ask for that right, or put the Tidal beside its target`
	}

	missing := as.Create(t.Context(), elsewhere())
	refused(t, missing, tideDenied+needs(alice))
	// The answer, warnings too, is the same where the workload exists.
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(prod, "llm").Replicas(1).Obj()))
	if there := as.Create(t.Context(), elsewhere()); there == nil || there.Error() != missing.Error() {
		t.Errorf("the answer tells whether the target exists:\n%v\nbefore it did:\n%v", there, missing)
	}
	// In the own namespace nothing is asked for.
	own := tideIn(t, dev)
	own.SetName("own")
	must(t, as.Create(t.Context(), own.DeepCopy()))
	// To move it elsewhere is a change like any other.
	move := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"targetRef":{"namespace":"`+prod+`"}}}`))
	refused(t, as.Patch(t.Context(), own.DeepCopy(), move), needs(alice))

	// To read the workload, or to scale another, is not enough.
	grant(t, person(alice), prod, right("apps", "deployments", "get", "update", "patch"), right("apps", "statefulsets/scale", "update"))
	refused(t, as.Create(t.Context(), elsewhere(), client.DryRunAll), needs(alice))
	grant(t, person(alice), prod, right("apps", "deployments/scale", "update"))
	testkit.Eventually(t, soon, "alice to be admitted, since rights are cached for a moment", func(ctx context.Context) error { return as.Create(ctx, elsewhere()) })
	// What is admitted is acted on.
	testkit.Eventually(t, soon, "the count in the other namespace", func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := suite.admin.Get(ctx, types.NamespacedName{Namespace: prod, Name: "llm"}, d); err != nil {
			return err
		}
		if n := *d.Spec.Replicas; n != 4 && n != 2 {
			return fmt.Errorf("%d replicas, want 4 by day or 2 by night", n)
		}
		return nil
	})

	// Every change of the spec asks its own writer, and no other change does.
	obj := elsewhere()
	patch := func(c client.Client, text string) error {
		return c.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	refused(t, patch(other, `{"spec":{"suspend":true}}`), needs(bob))
	must(t, patch(as, `{"spec":{"suspend":true}}`))
	must(t, patch(other, `{"metadata":{"labels":{"team":"b"}}}`))
	must(t, other.Delete(t.Context(), obj.DeepCopy()))

	// A ServiceAccount, as of a GitOps tool, is a writer too.
	must(t, suite.admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: dev, Name: "deployer"}}))
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: dev, Name: "deployer"}
	grant(t, subject, dev, writer...)
	config, err := suite.lab.ServiceAccountConfig(t.Context(), dev, "deployer")
	must(t, err)
	machine, err := newClient(config)
	must(t, err)
	refused(t, machine.Create(t.Context(), elsewhere()), needs("system:serviceaccount:"+dev+":deployer"))
	grant(t, subject, prod, right("apps", "deployments/scale", "update"))
	testkit.Eventually(t, soon, "the ServiceAccount to be admitted", func(ctx context.Context) error { return machine.Create(ctx, elsewhere()) })
}

func TestADryRunOfATidalLeavesNothing(t *testing.T) {
	ns := namespaces(t, "tides")[0]
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "llm").Replicas(1).Obj()))
	dry := tideIn(t, ns)
	must(t, suite.admin.Create(t.Context(), dry.DeepCopy(), client.DryRunAll))
	if err := suite.admin.Get(t.Context(), client.ObjectKeyFromObject(dry), dry.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run the Tidal is there: %v", err)
	}
	// One that is created later on another target is through its pass, which the dry run would have had before.
	must(t, suite.admin.Create(t.Context(), testkit.MakeDeployment(ns, "later").Replicas(1).Obj()))
	later := tideIn(t, ns, "name: llm", "name: later")
	later.SetName("later")
	must(t, suite.admin.Create(t.Context(), later))
	scaled := func(name string) (int32, int64) {
		d := &appsv1.Deployment{}
		must(t, suite.admin.Get(t.Context(), types.NamespacedName{Namespace: ns, Name: name}, d))
		return *d.Spec.Replicas, d.Generation
	}
	testkit.Eventually(t, soon, "the later one to be scaled", func(context.Context) error {
		if n, _ := scaled("later"); n == 1 {
			return errors.New("it has 1 replica")
		}
		return nil
	})
	if n, generation := scaled("llm"); n != 1 || generation != 1 {
		t.Errorf("the target of the dry run has %d replicas at generation %d", n, generation)
	}
	// Of a change too.
	must(t, suite.admin.Patch(t.Context(), later.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`)), client.DryRunAll))
	stored := &tidalv1alpha1.Tidal{}
	must(t, suite.admin.Get(t.Context(), client.ObjectKeyFromObject(later), stored))
	if stored.Spec.Suspend != nil || stored.Generation != 1 {
		t.Errorf("after a dry run of a change it is suspended: %v, at generation %d", stored.Spec.Suspend, stored.Generation)
	}
}

func TestWithoutTheWebhookOfTidalsTheSchemaHoldsAndNothingElseIsStored(t *testing.T) {
	ns := namespaces(t, "down")[0]
	stored := tideIn(t, ns)
	must(t, suite.admin.Create(t.Context(), stored.DeepCopy()))
	another := tideIn(t, ns)
	another.SetName("another")
	tidals.whileStopped(t, func() {
		const unreachable = `failed calling webhook "tidal.tidal.io"`
		refused(t, suite.admin.Create(t.Context(), another.DeepCopy()), unreachable)
		refused(t, suite.admin.Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))), unreachable)
		refused(t, suite.admin.Create(t.Context(), tideIn(t, ns, day, "@every 2h")), "must not use @every")
		// What is not ours to admit goes on, and so does another component.
		must(t, suite.admin.Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))))
		must(t, suite.admin.Status().Patch(t.Context(), stored.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`))))
		must(t, suite.admin.Create(t.Context(), manifest(t, ns, replication), client.DryRunAll))
		must(t, suite.admin.Delete(t.Context(), stored.DeepCopy()))
	})
	must(t, suite.admin.Create(t.Context(), another))
}
