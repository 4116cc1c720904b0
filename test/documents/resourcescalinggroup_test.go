package documents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
	"github.com/pd-orchestrator/pd-orchestrator/test/elasticscaler/estest"
)

const (
	groupName = "llm-prefill-decode-group"
	headingOf = "Name|Strategy|Desired|Current|Ready|Drift"
)

// A group of prefill and decode and a leader with its followers, whose workloads are in another namespace: from the check of
// the installation to what remains when the group is deleted. The scale subresource, the ConfigMap of counts and the snapshot
// are in the story of the kind, the keywords of its log in that suite too.
func TestResourceScalingGroup(t *testing.T) {
	t.Parallel()
	w, base := env.World(t), env.World(t)
	production := base.Namespace
	names := strings.NewReplacer("scaling-system", w.Namespace, "production", production)
	groups := "/apis/autoscaling.openfuyao.com/v1alpha1/namespaces/" + w.Namespace + "/resourcescalinggroups"
	for _, name := range []string{"llm-prefill", "llm-decode"} {
		w.Create(testkit.MakeDeployment(production, name).Replicas(1).Obj(), testkit.MakeService(production, name, name))
	}
	for _, name := range []string{"scheduler", "worker", "sidecar"} {
		w.Create(testkit.MakeDeployment(production, name).Replicas(1).Obj())
	}
	const follower = "leader-follower-rsg|InplaceScaling||||"

	t.Log("operation steps: create, and check the status")
	apply(w, names, "../api/testdata/documents/resourcescalinggroup-group-replication.yaml", "../api/testdata/documents/resourcescalinggroup-inplace.yaml")
	getShows(w, groups, headingOf, groupName+"|GroupReplication|2|2|2|false", follower)

	t.Log("operation steps: check the resources that the group created")
	made := client.MatchingLabels{autoscalingv1alpha1.LabelName: groupName}
	deploymentsAre(w, made, "prefill-decode-llm-decode-1 1", "prefill-decode-llm-prefill-1 1")

	t.Log("operation steps: change the number of groups by a patch")
	rsg := &autoscalingv1alpha1.ResourceScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: groupName}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"scalingStrategy":{"groupConfig":{"replicas":3}}}}`))
	if err := w.Client.Patch(t.Context(), rsg, patch); err != nil {
		t.Fatal(err)
	}
	getShows(w, groups, headingOf, groupName+"|GroupReplication|3|3|3|false", follower)

	t.Log("operation steps: check the replicas of leader and followers")
	for name, want := range map[string]int32{"scheduler": 3, "worker": 6, "sidecar": 3} {
		base.Name = name
		base.WaitReplicas(want)
	}

	t.Log("related operations: view one in detail, with its events")
	eventsHold(w, "ResourceScalingGroup", groupName, "GroupCreated", "created group 2")
	eventsHold(w, "ResourceScalingGroup", "leader-follower-rsg", "ReplicasSet", `worker goes from 1 to 6 replicas: leader "scheduler" has 3`)

	t.Log("FAQ: the metric has a value of each group, and the Services of the groups have endpoints")
	metricHasGroups(w, `avg by (group_id) (vllm:num_requests_running{namespace=~"`+w.Namespace+"|"+production+`",pod=~".*(prefill|decode).*"})`, "0", "1", "2")
	services := servicesOf(w, made)
	want := []string{"llm-decode-prefill-decode-1", "llm-decode-prefill-decode-2", "llm-prefill-prefill-decode-1", "llm-prefill-prefill-decode-2"}
	if !slices.Equal(services, want) {
		t.Errorf("the Services of the groups are %q, want %q", services, want)
	}
	for _, name := range services {
		hasEndpoints(w, name)
	}

	t.Log("FAQ: after the group is deleted, what it made is found by its label")
	if err := w.Client.Delete(t.Context(), rsg); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, estest.Patience, "the ResourceScalingGroup to be gone", func(ctx context.Context) error {
		err := w.Client.Get(ctx, client.ObjectKeyFromObject(rsg), rsg)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	deploymentsAre(w, made, "prefill-decode-llm-decode-1 1", "prefill-decode-llm-decode-2 1", "prefill-decode-llm-prefill-1 1", "prefill-decode-llm-prefill-2 1")
	if got := servicesOf(w, made); !slices.Equal(got, want) {
		t.Errorf("the Services that remain are %q, want %q", got, want)
	}
}

// deploymentsAre fails unless the namespace has these Deployments with the labels, each with its count.
func deploymentsAre(w *estest.World, labels client.MatchingLabels, want ...string) {
	w.T.Helper()
	var list appsv1.DeploymentList
	if err := w.Client.List(w.T.Context(), &list, client.InNamespace(w.Namespace), labels); err != nil {
		w.T.Fatal(err)
	}
	var got []string
	for _, d := range list.Items {
		got = append(got, fmt.Sprintf("%s %d", d.Name, *d.Spec.Replicas))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		w.T.Errorf("the Deployments with %v are %q, want %q", labels, got, want)
	}
}

func servicesOf(w *estest.World, labels client.MatchingLabels) []string {
	w.T.Helper()
	var list corev1.ServiceList
	if err := w.Client.List(w.T.Context(), &list, client.InNamespace(w.Namespace), labels); err != nil {
		w.T.Fatal(err)
	}
	var got []string
	for _, s := range list.Items {
		got = append(got, s.Name)
	}
	slices.Sort(got)
	return got
}

func hasEndpoints(w *estest.World, service string) {
	w.T.Helper()
	testkit.Eventually(w.T, estest.Patience, "endpoints of Service "+service, func(ctx context.Context) error {
		var list discoveryv1.EndpointSliceList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			return err
		}
		for _, slice := range list.Items {
			if len(slice.Endpoints) > 0 {
				return nil
			}
		}
		return fmt.Errorf("none in %d EndpointSlices", len(list.Items))
	})
}

// metricHasGroups waits until Prometheus has one value for each of the groups and for no others.
func metricHasGroups(w *estest.World, query string, groups ...string) {
	w.T.Helper()
	testkit.Eventually(w.T, estest.Patience, query, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Lab.PrometheusURL()+"/api/v1/query?query="+url.QueryEscape(query), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		var answer struct {
			Data struct {
				Result []struct{ Metric map[string]string }
			}
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("%w in %s", err, body)
		}
		var got []string
		for _, series := range answer.Data.Result {
			got = append(got, series.Metric["group_id"])
		}
		if slices.Sort(got); !slices.Equal(got, groups) {
			return fmt.Errorf("the groups are %q: %s", got, body)
		}
		return nil
	})
}
