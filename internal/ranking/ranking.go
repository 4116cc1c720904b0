// Package ranking chooses which groups of a ResourceScalingGroup go first, with the values that Prometheus and annotations
// give, for all who ask: the controller that removes groups, and the plug-in that says which would go.
package ranking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/groupspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/victims"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
	"github.com/pd-orchestrator/pd-orchestrator/internal/metricsource"
)

// Asker asks for values. Groups, Workloads and Now must be set.
type Asker struct {
	// Metrics is Prometheus, nil where none is configured.
	Metrics metricsource.Querier
	// Settings are the labels that narrow a query, and the age at which a sample is too old.
	Settings config.Prometheus
	// Groups lists the ResourceScalingGroups whose series could be taken for those of another.
	Groups client.Reader
	// Workloads reads annotations. It must read from the API server: whoever sets them and then scales down sees to the order
	// of the two, and watches of two kinds do not.
	Workloads client.Reader
	// Now is the present moment.
	Now func() time.Time
}

// Choose picks n of the candidates, and says what the metric said of them: nothing where none is configured. The annotations
// of the candidates are read where the metric does not decide; the error is that they could not be read.
func (a Asker) Choose(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, n int, candidates []victims.Candidate) (victims.Choice, victims.Ranking, error) {
	var ranked victims.Ranking
	if m := desired.ScaleDownMetric(rsg); m != nil {
		ranked = a.rank(ctx, rsg, *m, candidates)
	}
	if ranked.Reason != v1alpha1.ReasonMetricUsed {
		annotations, err := a.annotations(ctx, rsg)
		if err != nil {
			return victims.Choice{}, ranked, err
		}
		for i := range candidates {
			candidates[i].Annotation = annotations[candidates[i].ID]
		}
	}
	return victims.Choose(n, candidates, desired.ScaleDownOrder(rsg), ranked), ranked, nil
}

// annotations are the values of autoscaling.rsg.metric.values on the groups' first workloads, by group id.
func (a Asker) annotations(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup) (map[int32]*string, error) {
	found := map[int32]*string{}
	if len(rsg.Spec.TargetResources) == 0 {
		return found, nil
	}
	first := rsg.Spec.TargetResources[0].ResourceRef
	ref, err := clone.Resolve(first)
	if err != nil {
		return nil, fmt.Errorf("reading the annotations of the groups: %w", err)
	}
	keep := func(id int32, obj client.Object) {
		if v, ok := obj.GetAnnotations()[v1alpha1.AnnotationMetricValue]; ok {
			found[id] = &v
		}
	}
	gvk := ref.Kind.GroupVersionKind
	base := &metav1.PartialObjectMetadata{}
	base.SetGroupVersionKind(gvk)
	err = a.Workloads.Get(ctx, types.NamespacedName{Namespace: cmp.Or(first.Namespace, rsg.Namespace), Name: ref.Name}, base)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the annotation of group 0: %w", err)
	}
	keep(0, base)
	clones := &metav1.PartialObjectMetadataList{}
	clones.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := a.Workloads.List(ctx, clones, client.InNamespace(rsg.Namespace), client.MatchingLabels{v1alpha1.LabelName: rsg.Name}); err != nil {
		return nil, fmt.Errorf("reading the annotations of the groups: %w", err)
	}
	owner := clone.OwnerOf(rsg)
	for i := range clones.Items {
		obj := &clones.Items[i]
		if id, ours := owner.IDOf(obj.Labels); ours && id != 0 && obj.Name == owner.WorkloadName(ref.Name, id) {
			keep(id, obj)
		}
	}
	return found, nil
}

// rank asks for one value per candidate. Whatever is wrong with the answer is the ranking's reason.
func (a Asker) rank(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup, metric v1alpha1.ScaleDownMetric, candidates []victims.Candidate) victims.Ranking {
	if a.Metrics == nil {
		return victims.Ranking{Reason: v1alpha1.ReasonPrometheusNotConfigured, Message: "the manager has no prometheus.address"}
	}
	scope, other, err := a.scope(ctx, rsg)
	if err != nil {
		return noAnswer(err)
	}
	if other != "" {
		return victims.Ranking{Reason: v1alpha1.ReasonMetricScopeAmbiguous, Message: fmt.Sprintf(
			"groups of ResourceScalingGroup %s have pods in the same namespaces, and nothing tells their series apart: set prometheus.labels.rsg", other)}
	}
	ranking := a.rankWithin(ctx, metric, candidates, scope)
	if ranking.Reason != v1alpha1.ReasonGroupMissing {
		return ranking
	}
	// Series that are there without the scope's labels are a wrong setting, not a missing metric.
	wide := scope
	wide.OrAbsent = true
	if a.rankWithin(ctx, metric, candidates, wide).Reason == v1alpha1.ReasonMetricUsed {
		return victims.Ranking{Reason: v1alpha1.ReasonMetricScopeMismatch, Message: fmt.Sprintf(
			"%s, but has series without the labels that narrow the query: check prometheus.labels.namespace (%q) and prometheus.labels.rsg (%q)",
			ranking.Message, scope.NamespaceLabel, scope.RSGLabel)}
	}
	return ranking
}

// scope returns what narrows a query to the groups of one ResourceScalingGroup. Where no label can tell them from those of
// another one in the same namespaces, it names that one.
func (a Asker) scope(ctx context.Context, rsg *v1alpha1.ResourceScalingGroup) (victims.Scope, string, error) {
	labels := a.Settings.Labels
	scope := victims.Scope{NamespaceLabel: labels.Namespace, RSGLabel: labels.RSG, RSG: rsg.Name, Namespaces: groupspec.PodNamespaces(rsg), ReplicaLabels: labels.Replicas}
	if scope.NamespaceLabel == "-" {
		scope.NamespaceLabel = ""
	}
	if scope.RSGLabel != "" {
		return scope, "", nil
	}
	var list v1alpha1.ResourceScalingGroupList
	if err := a.Groups.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return scope, "", fmt.Errorf("listing ResourceScalingGroups: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == rsg.UID || other.Spec.ScalingStrategy.Type != v1alpha1.GroupReplication {
			continue
		}
		for _, ns := range groupspec.PodNamespaces(other) {
			if slices.Contains(scope.Namespaces, ns) {
				return scope, other.Namespace + "/" + other.Name, nil
			}
		}
	}
	return scope, "", nil
}

func (a Asker) rankWithin(ctx context.Context, metric v1alpha1.ScaleDownMetric, candidates []victims.Candidate, scope victims.Scope) victims.Ranking {
	query, err := victims.BuildQuery(metric, scope)
	if err != nil {
		return victims.Ranking{Reason: v1alpha1.ReasonQueryInvalid, Message: err.Error()}
	}
	now := a.Now()
	values, err := a.ask(ctx, query.Value)
	if err != nil {
		return noAnswer(err)
	}
	var times []victims.Sample
	if query.Age != "" {
		if times, err = a.ask(ctx, query.Age); err != nil {
			return noAnswer(err)
		}
	}
	ranking := victims.Rank(candidates, values, times, now, a.Settings.MaxSampleAge())
	log.FromContext(ctx).V(1).Info("Asked Prometheus by group_id", "query", query.Value, "series", len(values), "reason", ranking.Reason)
	return ranking
}

func (a Asker) ask(ctx context.Context, query string) ([]victims.Sample, error) {
	answer, err := a.Metrics.Vector(ctx, query, a.Now())
	if err != nil {
		return nil, err
	}
	out := make([]victims.Sample, len(answer))
	for i, s := range answer {
		out[i] = victims.Sample{GroupID: s.Labels[victims.GroupIDLabel], Value: s.Value}
	}
	return out, nil
}

func noAnswer(err error) victims.Ranking {
	var wrongType *metricsource.ResultTypeError
	if errors.As(err, &wrongType) {
		return victims.Ranking{Reason: v1alpha1.ReasonResultTypeUnusable, Message: err.Error()}
	}
	return victims.Ranking{Reason: v1alpha1.ReasonPrometheusUnavailable, Message: err.Error()}
}
