package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/kube"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// served are the kinds of an API server.
type served struct {
	discovery.ServerResourcesInterface
	err error
}

func (s served) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	switch groupVersion {
	case "apps/v1":
		list.APIResources = []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true}, {Name: "deployments/scale", Kind: "Scale", Namespaced: true}}
	case "v1":
		list.APIResources = []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}
	case autoscalingv1alpha1.GroupVersion.String():
		list.APIResources = []metav1.APIResource{{Name: "resourcescalinggroups", Kind: "ResourceScalingGroup", Namespaced: true}, {Name: "resourcescalinggroups/scale", Kind: "Scale", Namespaced: true}}
	}
	return list, s.err
}

// tidalWorld is what the admission of a Tidal sees.
type tidalWorld struct {
	crossNamespace config.CrossNamespace
	reviews        *reviews
	objects        []client.Object
	// unserved, unread and unlisted are what goes wrong in finding kinds, reading objects and listing them.
	unserved, unread, unlisted error
}

func (w tidalWorld) validator(t *testing.T) *Tidals {
	t.Helper()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(autoscalingv1alpha1.AddToScheme(scheme))
	utilruntime.Must(elasticscalerv1alpha1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.objects...).
		WithIndex(&v1alpha1.Tidal{}, indexTidals, tidalKeys).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: w.reviews.create,
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if w.unread != nil {
					return w.unread
				}
				return c.Get(ctx, key, obj, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if w.unlisted != nil {
					return w.unlisted
				}
				return c.List(ctx, list, opts...)
			},
			SubResourceGet: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceGetOption) error {
				return w.unread
			},
		}).Build()
	return &Tidals{
		Cache:   c,
		API:     c,
		Targets: Targets{Kinds: kube.NewKinds(served{err: w.unserved}, clocktesting.NewFakePassiveClock(time.Time{})), API: c, Scales: c, Writers: Writers{Reviews: c, CrossNamespace: w.crossNamespace}},
		Clock:   clocktesting.NewFakePassiveClock(time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)),
	}
}

func makeTidal(change ...func(*v1alpha1.Tidal)) *v1alpha1.Tidal {
	tidal := &v1alpha1.Tidal{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "tide"}}
	tidal.Spec.TargetRef = v1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "dev", Name: "llm"}
	tidal.Spec.Triggers.Times.Rules = []v1alpha1.TimeRule{{Name: "day", Cron: "0 8 * * *", Replicas: new(int32(4))}}
	for _, c := range change {
		c(tidal)
	}
	return tidal
}

func on(apiVersion, kind string) func(*v1alpha1.Tidal) {
	return func(t *v1alpha1.Tidal) { t.Spec.TargetRef.APIVersion, t.Spec.TargetRef.Kind = apiVersion, kind }
}

func in(namespace string) func(*v1alpha1.Tidal) {
	return func(t *v1alpha1.Tidal) { t.Spec.TargetRef.Namespace = namespace }
}

func at(cron string) func(*v1alpha1.Tidal) {
	return func(t *v1alpha1.Tidal) { t.Spec.Triggers.Times.Rules[0].Cron = cron }
}

func bindTo(scaler string) func(*v1alpha1.Tidal) {
	return func(t *v1alpha1.Tidal) {
		t.Labels = map[string]string{elasticscalerv1alpha1.LabelScalerName: scaler, elasticscalerv1alpha1.LabelScalerNamespace: "dev"}
	}
}

func suspended(t *v1alpha1.Tidal) { t.Spec.Suspend = new(true) }

func no(authorizationv1.ResourceAttributes) (bool, error) { return false, nil }

const rsgVersion = "autoscaling.openfuyao.com/v1alpha1"

func TestAdmissionOfATidal(t *testing.T) {
	ratio := testkit.MakeRSG("dev", "llm").Target("prefill", "", "llm-prefill").Obj()
	ratio.Spec.ScalingStrategy.Type = autoscalingv1alpha1.InplaceScaling
	const (
		mustScale = `spec.targetRef: Forbidden: is in another namespace, where user "alice" must be allowed to: update deployments.apps/scale "llm" in namespace prod`
		noScale   = `spec.targetRef.kind: Invalid value: "ConfigMap": must be a kind with a scale subresource`
		isRatio   = `spec.targetRef: Invalid value: "ResourceScalingGroup dev/llm": is of type InplaceScaling`
		never     = `spec.triggers.times.rules[0].cron: Invalid value: "0 0 30 2 *"`
	)
	bound := makeTidal(bindTo("scaler"))
	bound.Name = "bound"
	driver := &elasticscalerv1alpha1.ElasticScaler{ObjectMeta: metav1.ObjectMeta{Namespace: "dev", Name: "scaler"}}
	driver.Spec.TargetRef = elasticscalerv1alpha1.TargetReference{APIVersion: "tidal.io/v1alpha1", Kind: "Tidal", Name: "bound"}
	driver.Spec.Trigger.Type = elasticscalerv1alpha1.StateTriggerType
	hopeless := makeTidal(at("0 0 30 2 *"))
	hopeless.Name = "hopeless"
	able := makeTidal()
	able.Name = "able"
	cases := map[string]struct {
		world      tidalWorld
		old, tidal *v1alpha1.Tidal
		refused    []string
		warned     string
		asked      int
	}{
		"a new one": {tidal: makeTidal()},

		// Whose rights are asked for.
		"elsewhere, by one with the right":        {tidal: makeTidal(in("prod")), asked: 1},
		"elsewhere, by one without":               {world: tidalWorld{reviews: &reviews{answer: no}}, tidal: makeTidal(in("prod")), refused: []string{mustScale}, asked: 1},
		"elsewhere, where all are trusted":        {world: tidalWorld{crossNamespace: config.CrossNamespaceTrusted}, tidal: makeTidal(in("prod"))},
		"elsewhere, where none may":               {world: tidalWorld{crossNamespace: config.CrossNamespaceDenied}, tidal: makeTidal(in("prod")), refused: []string{"must be in namespace dev, since the operator has set crossNamespace: Denied"}},
		"elsewhere, of a kind that is not served": {tidal: makeTidal(in("prod"), on("example.org/v1", "Thing")), refused: []string{"spec.targetRef: Forbidden", "serves no kind Thing in example.org/v1"}},
		"elsewhere, of a kind that is not served, where all are trusted": {
			world: tidalWorld{crossNamespace: config.CrossNamespaceTrusted}, tidal: makeTidal(in("prod"), on("example.org/v1", "Thing")), warned: "serves no kind Thing in example.org/v1",
		},
		"a change elsewhere, by one without the right": {
			world: tidalWorld{reviews: &reviews{answer: no}}, old: makeTidal(in("prod")), tidal: makeTidal(in("prod"), suspended), refused: []string{mustScale}, asked: 1,
		},
		"a change elsewhere of a kind without a count, by one without the right": {
			world: tidalWorld{reviews: &reviews{answer: no}}, old: makeTidal(in("prod"), on("v1", "ConfigMap")), tidal: makeTidal(in("prod"), on("v1", "ConfigMap"), suspended),
			refused: []string{`must be allowed to: update configmaps "llm" in namespace prod`}, asked: 1,
		},
		"a label elsewhere, by one without": {
			world: tidalWorld{reviews: &reviews{answer: no}}, old: makeTidal(in("prod")),
			tidal: makeTidal(in("prod"), func(t *v1alpha1.Tidal) { t.Labels = map[string]string{"a": "b"} }),
		},
		"one elsewhere that is on its way out": {
			world: tidalWorld{reviews: &reviews{answer: no}}, old: makeTidal(in("prod")),
			tidal: makeTidal(in("prod"), suspended, func(t *v1alpha1.Tidal) { t.DeletionTimestamp = new(metav1.Now()) }),
		},

		// What was wrong before does not stop other changes.
		"a rule that never fires":                 {tidal: makeTidal(at("0 0 30 2 *")), refused: []string{never}},
		"a change to a rule that never fires":     {old: makeTidal(), tidal: makeTidal(at("0 0 30 2 *")), refused: []string{never}},
		"a change beside a rule that never fires": {old: makeTidal(at("0 0 30 2 *")), tidal: makeTidal(at("0 0 30 2 *"), suspended)},
		"a kind without a count":                  {tidal: makeTidal(on("v1", "ConfigMap")), refused: []string{noScale}},
		"a change to a kind without a count":      {old: makeTidal(), tidal: makeTidal(on("v1", "ConfigMap")), refused: []string{noScale}},
		"a change beside a kind without a count":  {old: makeTidal(on("v1", "ConfigMap")), tidal: makeTidal(on("v1", "ConfigMap"), suspended), warned: noScale},
		"a group that follows a ratio":            {world: tidalWorld{objects: []client.Object{ratio}}, tidal: makeTidal(on(rsgVersion, "ResourceScalingGroup")), refused: []string{isRatio}},
		"a change beside a group that follows a ratio": {
			world: tidalWorld{objects: []client.Object{ratio}}, old: makeTidal(on(rsgVersion, "ResourceScalingGroup")),
			tidal: makeTidal(on(rsgVersion, "ResourceScalingGroup"), suspended), warned: isRatio,
		},
		"all that is wrong": {
			world: tidalWorld{reviews: &reviews{answer: no}}, tidal: makeTidal(in("prod"), at("0 0 30 2 *")), refused: []string{never, mustScale}, asked: 1,
		},

		// Who else writes the count.
		"beside one that an ElasticScaler applies": {
			world: tidalWorld{objects: []client.Object{bound, driver}}, tidal: makeTidal(), warned: "ElasticScaler dev/scaler writes the count of this target too",
		},
		"beside one that is bound to nothing":        {world: tidalWorld{objects: []client.Object{bound}}, tidal: makeTidal()},
		"beside another":                             {world: tidalWorld{objects: []client.Object{able}}, tidal: makeTidal(), warned: "Tidal dev/able writes the count of this target too"},
		"beside one without a rule that can be used": {world: tidalWorld{objects: []client.Object{hopeless}}, tidal: makeTidal()},
		"a change beside itself":                     {world: tidalWorld{objects: []client.Object{makeTidal()}}, old: makeTidal(), tidal: makeTidal(at("0 9 * * *"))},
		"a bound one beside another":                 {world: tidalWorld{objects: []client.Object{able}}, tidal: makeTidal(bindTo("scaler"))},

		// What cannot be found out now.
		"kinds that cannot be found": {
			world: tidalWorld{unserved: errors.New("on fire")}, tidal: makeTidal(), refused: []string{"spec.targetRef: Internal error: looking for the kind of the target, try again:", "on fire"},
		},
		"kinds that cannot be found, at a change": {
			world: tidalWorld{unserved: errors.New("on fire")}, old: makeTidal(), tidal: makeTidal(suspended), warned: "looking for the kind of the target, try again:",
		},
		"kinds that cannot be found, at a change elsewhere": {
			world: tidalWorld{unserved: errors.New("on fire")}, old: makeTidal(in("prod")), tidal: makeTidal(in("prod"), suspended), refused: []string{"looking for the kind of the target, try again:"},
		},
		"a count that cannot be read": {
			world: tidalWorld{unread: errors.New("on fire")}, tidal: makeTidal(), refused: []string{"spec.targetRef: Internal error: looking at Deployment dev/llm, try again:", "on fire"},
		},
		"a group that cannot be read": {
			world: tidalWorld{unread: errors.New("on fire")}, tidal: makeTidal(on(rsgVersion, "ResourceScalingGroup")),
			refused: []string{"spec.targetRef: Internal error: looking at ResourceScalingGroup dev/llm, try again:", "on fire"},
		},
		"other scalers that cannot be listed": {world: tidalWorld{unlisted: errors.New("on fire")}, tidal: makeTidal()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.world.reviews == nil {
				tc.world.reviews = &reviews{answer: yes}
			}
			if tc.world.crossNamespace == "" {
				tc.world.crossNamespace = config.CrossNamespaceAdmitted
			}
			v := tc.world.validator(t)
			ctx := requestOf(t.Context(), "alice")
			var warnings []string
			var err error
			if tc.old != nil {
				warnings, err = v.ValidateUpdate(ctx, tc.old, tc.tidal)
			} else {
				warnings, err = v.ValidateCreate(ctx, tc.tidal)
			}
			if len(tc.refused) == 0 && err != nil {
				t.Errorf("refused: %v", err)
			}
			for _, want := range tc.refused {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is\n%v\nwant one that holds\n%s", err, want)
				}
			}
			if all := strings.Join(warnings, "\n"); tc.warned == "" && all != "" || !strings.Contains(all, tc.warned) {
				t.Errorf("warned of %q, want %q", all, tc.warned)
			}
			if len(tc.world.reviews.asked) != tc.asked {
				t.Errorf("%d reviews were asked for, want %d", len(tc.world.reviews.asked), tc.asked)
			}
			if _, err := v.ValidateDelete(ctx, tc.tidal); err != nil {
				t.Errorf("deletion is refused: %v", err)
			}
		})
	}
}

// A kind that the manager has a handler for needs no scale subresource; who may write its objects may have them scaled.
func TestTargetsThatAHandlerScales(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace string
		answer    func(authorizationv1.ResourceAttributes) (bool, error)
		want      string
	}{
		"here": {namespace: "dev", answer: no},
		"elsewhere, by one with the right": {namespace: "prod", answer: func(a authorizationv1.ResourceAttributes) (bool, error) {
			return a.Verb == "update" && a.Subresource == "", nil
		}},
		"elsewhere, by one without": {namespace: "prod", answer: no, want: `must be allowed to: update configmaps "llm" in namespace prod`},
	} {
		t.Run(name, func(t *testing.T) {
			w := tidalWorld{crossNamespace: config.CrossNamespaceAdmitted, reviews: &reviews{answer: tc.answer}, unread: errors.New("has no scale")}
			refused, warnings := w.validator(t).Targets.examine(requestOf(t.Context(), "alice"), makeTidal(), tidalKind.Kind,
				target{apiVersion: "v1", kind: "ConfigMap", namespace: tc.namespace, name: "llm", path: field.NewPath("spec", "targetRef"), handled: true}, false)
			if got := fmt.Sprint(refused.ToAggregate()); tc.want == "" && len(refused) > 0 || !strings.Contains(got, tc.want) {
				t.Errorf("refused with %s, want %q", got, tc.want)
			}
			if len(warnings) > 0 {
				t.Errorf("warned of %q", warnings)
			}
		})
	}
}
