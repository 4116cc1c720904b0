package resourcescalinggroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/resourcescalinggroup/rsgtest"
)

// waitReadyGroups waits until exactly these groups are in phase Ready.
func waitReadyGroups(w *rsgtest.World, want ...int32) {
	w.T.Helper()
	w.Until(fmt.Sprintf("groups %v, and no others, to be ready", want), func(rsg *v1alpha1.ResourceScalingGroup) error {
		var got []int32
		for _, g := range rsg.Status.Groups {
			if g.Phase == v1alpha1.GroupReady {
				got = append(got, g.ID)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("groups %v are", got)
		}
		return nil
	})
}

// limit sets a quota in the namespace of the clones and waits until it is in force.
func limit(w *rsgtest.World, what corev1.ResourceName, most string) {
	w.T.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse(most)}},
	}
	w.Create(quota)
	testkit.Eventually(w.T, rsgtest.Patience, "the quota to be in force", func(ctx context.Context) error {
		if err := w.Exists(ctx, quota, w.Namespace, "few"); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return errors.New("it has no status yet")
		}
		return nil
	})
}

// A quota lets one group be made only in part. The others are made, and once there is room that one is completed.
func TestQuotaForWorkloads(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	limit(w, "count/deployments.apps", "3")
	w.Create(w.RSG().Replicas(3).Obj())
	refused(w, v1alpha1.ReasonWriteFailed, "lacks Deployment "+w.Namespace+"/prefill-decode-llm-", "quota", "exceeded quota: few")
	w.Until("two whole groups of three", func(rsg *v1alpha1.ResourceScalingGroup) error {
		if current, wanted := rsg.Status.CurrentReplicas, rsg.Status.LastDesiredReplicas; current == nil || *current != 2 || *wanted != 3 {
			return errors.New("there are not")
		}
		return nil
	})
	w.Delete(&corev1.ResourceQuota{}, w.Namespace, "few")
	w.Settled(3)
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}, 2: {1, 1}})
}

// A quota lets all workloads be made and not all of their pods: what the workload's own controller says is passed on.
func TestQuotaForPods(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	limit(w, corev1.ResourcePods, "1")
	w.Create(w.RSG().Replicas(2).Obj())
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonReplicasUnavailable, "group 1 (", "FailedCreate", "exceeded quota: few")
	waitReadyGroups(w, 0)
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}})
}

// refuseDecodeOfGroup2 matches the decode workload of group 2 in the world's namespace.
func refuseDecodeOfGroup2(w *rsgtest.World) (namespaces, objects *metav1.LabelSelector) {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.Namespace}},
		&metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelGroupID: "2", "app": "llm-decode"}}
}

// tryDecodeOfGroup2 makes what the matcher of refuseDecodeOfGroup2 matches, as a dry run, until that is refused.
func tryDecodeOfGroup2(w *rsgtest.World) {
	w.T.Helper()
	testkit.Eventually(w.T, rsgtest.Patience, "the refusal to be in force", func(ctx context.Context) error {
		err := w.Client.Create(ctx, testkit.MakeDeployment(w.Namespace, "llm-decode").Label(v1alpha1.LabelGroupID, "2").Obj(), client.DryRunAll)
		if err == nil {
			return errors.New("it was let through")
		}
		return nil
	})
}

var createDeployments = []admissionv1.RuleWithOperations{{
	Operations: []admissionv1.OperationType{admissionv1.Create},
	Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
}}

// A policy of the cluster refuses one object of one group.
func TestAdmissionRefusesAWorkload(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	namespaces, objects := refuseDecodeOfGroup2(w)
	rules := []admissionv1.NamedRuleWithOperations{{RuleWithOperations: createDeployments[0]}}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-" + w.Namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{NamespaceSelector: namespaces, ObjectSelector: objects, ResourceRules: rules},
			Validations:      []admissionv1.Validation{{Expression: "false", Message: "not on a Friday"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	if got := env.Lab.KubernetesVersion(); version.MustParseSemantic(got).LessThan(version.MajorMinor(1, 30)) {
		t.Skipf("left out on Kubernetes %s: ValidatingAdmissionPolicy came with 1.30", got)
	}
	w.Create(policy, binding)
	t.Cleanup(func() { deleteAtEnd(w, policy, binding) })
	tryDecodeOfGroup2(w)
	w.Create(w.RSG().Replicas(4).Obj())
	refused(w, v1alpha1.ReasonWriteFailed, "group 2 lacks Deployment "+w.Namespace+"/prefill-decode-llm-decode-2: admission: ", "not on a Friday")
	waitReadyGroups(w, 0, 1, 3)
	w.Delete(&admissionv1.ValidatingAdmissionPolicyBinding{}, "", binding.Name)
	w.Settled(4)
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}, 2: {1, 1}, 3: {1, 1}})
}

// A webhook does not answer. That may be over in a moment, so it is told only when it lasts.
func TestAdmissionDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := env.World(t, "llm")
	w.CreateBase(1, 1)
	port, err := w.Lab.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	url, fail, none := fmt.Sprintf("https://127.0.0.1:%d/", port), admissionv1.Fail, admissionv1.SideEffectClassNone
	namespaces, objects := refuseDecodeOfGroup2(w)
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "away-" + w.Namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "away.example.org", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}, Rules: createDeployments,
			NamespaceSelector: namespaces, ObjectSelector: objects, FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	w.Create(hook)
	t.Cleanup(func() { deleteAtEnd(w, hook) })
	tryDecodeOfGroup2(w)
	w.Create(w.RSG().Replicas(4).Obj())
	w.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "3 of 4 groups exist", "group 2 lacks Deployment prefill-decode-llm-decode-2")
	waitReadyGroups(w, 0, 1, 3)
	refused(w, v1alpha1.ReasonWriteFailed, "group 2 lacks Deployment "+w.Namespace+"/prefill-decode-llm-decode-2: admission: ", "failed calling webhook")
	w.Delete(&admissionv1.ValidatingWebhookConfiguration{}, "", hook.Name)
	w.Settled(4)
	w.HasGroups(groups{0: {1, 1}, 1: {1, 1}, 2: {1, 1}, 3: {1, 1}})
}

// deleteAtEnd deletes what is in no namespace, after a test, where it is there still.
func deleteAtEnd(w *rsgtest.World, objects ...client.Object) {
	for _, obj := range objects {
		if err := client.IgnoreNotFound(w.Client.Delete(context.Background(), obj)); err != nil {
			w.T.Error(err)
		}
	}
}
