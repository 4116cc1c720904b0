package elasticscaler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/lab/faulty"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

// fromYAML reads a manifest, whose namespace ai-inference becomes that of the test.
func fromYAML(t *testing.T, w *estest.World, text string, into client.Object) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "ai-inference", w.Namespace)), into); err != nil {
		t.Fatal(err)
	}
	into.SetNamespace(w.Namespace)
}

// apply creates what a file of testdata/document holds, in the namespace of the test. Unknown fields are refused.
func apply(t *testing.T, w *estest.World, file string, replace ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "document", file))
	if err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer(append(replace, "ai-inference", w.Namespace)...)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(replacer.Replace(document)), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Create(t.Context(), object, client.FieldValidation("Strict")); err != nil {
			t.Fatal(err)
		}
	}
}

// The document's example of algorithm HPA makes an HPA of its name that says the same. Without a metrics API that one does
// not work, which shows on the scaler.
func TestTheDocumentsHPA(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.Create(testkit.MakeDeployment(w.Namespace, "vllm-inference").Replicas(3).Obj())
	apply(t, w, "hpa.yaml")
	w.Name = "hpa-scaling-example"
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	testkit.Eventually(t, estest.Patience, "the HPA", func(ctx context.Context) error {
		return w.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: w.Name}, hpa)
	})
	scaler := w.Live()
	if owner := metav1.GetControllerOf(hpa); owner == nil || owner.UID != scaler.UID {
		t.Errorf("the owners of the HPA are %+v, want the scaler", hpa.OwnerReferences)
	}
	ref := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "vllm-inference"}
	if s := hpa.Spec; s.ScaleTargetRef != ref || *s.MinReplicas != 2 || s.MaxReplicas != 10 || len(s.Metrics) != 1 ||
		s.Metrics[0].Resource == nil || s.Metrics[0].Resource.Name != "cpu" || *s.Metrics[0].Resource.Target.AverageUtilization != 70 {
		t.Errorf("the HPA is %+v", s)
	}
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "FailedGetResourceMetric", "HorizontalPodAutoscaler: ")
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "FailedGetResourceMetric")
}

// The document's example of a custom algorithm is accepted where nobody registered it. The count stays.
func TestTheDocumentsCustomAlgorithm(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.Create(testkit.MakeDeployment(w.Namespace, "vllm-inference").Replicas(1).Obj())
	apply(t, w, "custom.yaml")
	w.Name = "custom-scaling-example"
	w.Condition(v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonAlgorithmNotRegistered, `"xpa"`, "APA, CEL, KPA, HPA", "the count stays")
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAlgorithmNotRegistered)
	w.Event("Warning", v1alpha1.ReasonAlgorithmNotRegistered, `"xpa"`)
	w.Name = "vllm-inference"
	w.KeepsReplicas(1)
}

// The document's pair: a Tidal tells the count, and a scaler that names the Tidal gives it to the Tidal's target.
func TestTheDocumentsStateTrigger(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.Create(testkit.MakeDeployment(w.Namespace, "elastic-scaler-state-test").Replicas(1).Obj())
	apply(t, w, "state.yaml")
	w.Name = "state-scaling-example"
	scaler := w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionTrue, v1alpha1.ReasonCountOfSource, "Tidal "+w.Namespace+"/tidal-frequent-test wants")
	if s := scaler.Status; s.MinReplicas != nil || s.MaxReplicas != nil {
		t.Errorf("the bounds are %v and %v, want none", s.MinReplicas, s.MaxReplicas)
	}
	w.Name = "elastic-scaler-state-test"
	testkit.Eventually(t, estest.Patience, "the count of the rule in force", func(ctx context.Context) error {
		n, err := w.Replicas(ctx)
		// From 16:50 in Shanghai it is 3, from 8:00 it is 5.
		if err == nil && n != 3 && n != 5 {
			err = fmt.Errorf("there are to be %d", n)
		}
		return err
	})
}

// The document's example of a signal, whose API group is misspelt there, names an address that is not there: the count is
// left alone, and the condition says why. At one that is, signals go to and from zero.
func TestTheDocumentsSignalTrigger(t *testing.T) {
	t.Parallel()
	w := env.World(t)
	w.Create(testkit.MakeDeployment(w.Namespace, "vllm-inference").Replicas(2).Obj())
	apply(t, w, "signal.yaml", "webhook.example.com", "webhook.invalid")
	w.Name = "signal-scaling-example"
	w.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonEndpointUnreachable, "resolve")
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonEndpointUnreachable)
	w.Condition(v1alpha1.ConditionScalingCalculated, metav1.ConditionFalse, v1alpha1.ReasonNoSignal)

	server := w.Server(faulty.Options{})
	signals := faulty.NewSignals(faulty.EventStream)
	server.AnswerPath("/scale-signal", signals)
	w.Edit(func(s *v1alpha1.ElasticScaler) {
		s.Spec.Trigger.SignalTrigger.Endpoint = server.URL() + "/scale-signal"
	})
	w.Connected(signals)
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReconciled)
	signals.Send(faulty.Message{ID: "1", Data: `{"signal": "ScaleDown"}`})
	replicas := func(n int32) {
		w.Name = "vllm-inference"
		w.WaitReplicas(n)
	}
	replicas(0)
	signals.Send(faulty.Message{ID: "2", Data: `{"signal": "ScaleUp"}`})
	replicas(10)
}

func TestTheExamplesOfTheDocumentationApply(t *testing.T) {
	t.Parallel()
	n := 0
	for _, file := range []string{"elasticscaler.md", "scaling-decision.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
			for _, document := range regexp.MustCompile(`(?m)^---$`).Split(string(block[1]), -1) {
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
					t.Fatalf("%v in\n%s", err, document)
				}
				if object.GetKind() == "" {
					continue // A part of a manifest, that shows one field.
				}
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}}
				if err := env.Client.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Fatal(err)
				}
				if err := env.Client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
					t.Errorf("%v\n%s", err, document)
				}
				n++
			}
		}
	}
	if n == 0 {
		t.Error("no manifest was found")
	}
}

func mustYAML(t *testing.T, object any) []byte {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func managerLog(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(env.Manager.LogFile()))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
