package view

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
)

// Line is one object in the table of all kinds.
type Line struct {
	Object  Reference
	Scales  string
	Current string
	Desired string
	Ready   string
	Why     string
	Created time.Time
}

// Lines is a table of objects of all kinds. Wide adds why each is as it is.
func Lines(all []Line, namespaces, wide bool, now time.Time) Table {
	t := Table{Columns: []string{"NAME", "SCALES", "CURRENT", "DESIRED", "READY", "REASON", "AGE"}}
	if wide {
		t.Columns = append(t.Columns, "MESSAGE")
	}
	if namespaces {
		t.Columns = append([]string{"NAMESPACE"}, t.Columns...)
	}
	for _, l := range all {
		reason, message, _ := strings.Cut(l.Why, ": ")
		cells := []string{strings.ToLower(l.Object.Kind) + "/" + l.Object.Name, l.Scales, l.Current, l.Desired, l.Ready, reason, Age(l.Created, now)}
		if wide {
			cells = append(cells, message)
		}
		if namespaces {
			cells = append([]string{l.Object.Namespace}, cells...)
		}
		t.Add(cells...)
	}
	return t
}

// ready is the status of condition Ready, and its reason and message. A condition of an earlier spec tells nothing.
func ready(conditions []metav1.Condition, observed, generation int64) (status, why string) {
	c := meta.FindStatusCondition(conditions, "Ready")
	switch {
	case c == nil:
		return "Unknown", "NotReconciled: no controller has looked at it yet"
	case observed < generation:
		return "Unknown", "Outdated: its controller has not looked at the last change yet"
	}
	return string(c.Status), c.Reason + ": " + c.Message
}

// GroupLine is a ResourceScalingGroup in one line.
func GroupLine(g *autoscalingv1alpha1.ResourceScalingGroup) Line {
	l := Line{Object: ReferenceTo(KindGroup, g), Created: g.CreationTimestamp.Time}
	var names []string
	for _, t := range g.Spec.TargetResources {
		names = append(names, t.Name)
	}
	l.Scales = strings.Join(names, ",")
	if g.Spec.ScalingStrategy.Type != autoscalingv1alpha1.InplaceScaling {
		l.Current, l.Desired = count(g.Status.CurrentReplicas), fmt.Sprint(desired.Replicas(g))
	}
	l.Ready, l.Why = ready(g.Status.Conditions, g.Status.ObservedGeneration, g.Generation)
	return l
}

// ScalerLine is an ElasticScaler in one line.
func ScalerLine(s *elasticscalerv1alpha1.ElasticScaler) Line {
	l := Line{Object: ReferenceTo(KindScaler, s), Created: s.CreationTimestamp.Time, Current: count(s.Status.CurrentReplicas), Desired: count(s.Status.DesiredReplicas)}
	l.Scales = strings.ToLower(s.Spec.TargetRef.Kind) + "/" + s.Spec.TargetRef.Name
	l.Ready, l.Why = ready(s.Status.Conditions, ptr.Deref(s.Status.ObservedGeneration, 0), s.Generation)
	return l
}

// TidalLine is a Tidal in one line.
func TidalLine(t *tidalv1alpha1.Tidal) Line {
	l := Line{Object: ReferenceTo(KindTidal, t), Created: t.CreationTimestamp.Time, Desired: count(t.Status.DesiredReplicas)}
	l.Scales = strings.ToLower(t.Spec.TargetRef.Kind) + "/" + t.Spec.TargetRef.Name
	l.Ready, l.Why = ready(t.Status.Conditions, ptr.Deref(t.Status.ObservedGeneration, 0), t.Generation)
	return l
}

// PolicyLine is an AutoscalerPolicy in one line.
func PolicyLine(p *omev1beta1.AutoscalerPolicy) Line {
	l := Line{Object: ReferenceTo(KindPolicy, p), Created: p.CreationTimestamp.Time, Scales: plural(int(p.Status.AttachedComponents), "component", "components")}
	l.Ready, l.Why = ready(p.Status.Conditions, p.Status.ObservedGeneration, p.Generation)
	return l
}

// ServiceLine is an InferenceService in one line.
func ServiceLine(s *omev1beta1.InferenceService) Line {
	l := Line{Object: ReferenceTo(KindService, s), Created: s.CreationTimestamp.Time}
	var names, current, wanted []string
	report := Autoscale(s, nil)
	for _, c := range report.Components {
		names = append(names, c.Name)
		current, wanted = append(current, count(c.CurrentReplicas)), append(wanted, count(c.DesiredReplicas))
	}
	l.Scales, l.Current, l.Desired = strings.Join(names, ","), strings.Join(current, ","), strings.Join(wanted, ",")
	l.Ready, l.Why = ready(s.Status.Conditions, s.Status.ObservedGeneration, s.Generation)
	return l
}

// Freshness of the status of an AutoscalerPolicy.
const (
	FreshnessCurrent    = "Current"
	FreshnessStale      = "Stale"
	FreshnessUnobserved = "Unobserved"
)

// Policies is the table of AutoscalerPolicies. Nothing of a status that was made from an earlier spec is shown.
func Policies(all []omev1beta1.AutoscalerPolicy, namespaces, wide bool, now time.Time) Table {
	t := Table{Columns: []string{"NAME", "CLASS", "READY", "ATTACHED", "AGE"}}
	if wide {
		t.Columns = append(t.Columns, "DIGEST", "REASON", "IN-USE", "STATUS-FRESHNESS")
	}
	if namespaces {
		t.Columns = append([]string{"NAMESPACE"}, t.Columns...)
	}
	for i := range all {
		p := &all[i]
		freshness := FreshnessStale
		switch p.Status.ObservedGeneration {
		case 0:
			freshness = FreshnessUnobserved
		case p.Generation:
			freshness = FreshnessCurrent
		}
		attached, digest := "", ""
		if freshness == FreshnessCurrent {
			attached, digest = fmt.Sprint(p.Status.AttachedComponents), p.Status.PortableDigest
		}
		readyStatus, reason := presentCondition(p, omev1beta1.ConditionReady)
		cells := []string{p.Name, string(p.Spec.Class), readyStatus, attached, Age(p.CreationTimestamp.Time, now)}
		if wide {
			inUse, _ := presentCondition(p, omev1beta1.ConditionInUse)
			cells = append(cells, digest, reason, inUse, freshness)
		}
		if namespaces {
			cells = append([]string{p.Namespace}, cells...)
		}
		t.Add(cells...)
	}
	return t
}

// presentCondition is a condition of the present spec, Unknown where there is none.
func presentCondition(p *omev1beta1.AutoscalerPolicy, conditionType string) (status, reason string) {
	c := meta.FindStatusCondition(p.Status.Conditions, conditionType)
	if c == nil || c.ObservedGeneration != p.Generation {
		return "Unknown", ""
	}
	return string(c.Status), c.Reason
}

// Services is the table of InferenceServices.
func Services(all []omev1beta1.InferenceService, namespaces bool, now time.Time) Table {
	t := Table{Columns: []string{"NAME", "MODEL", "RUNTIME", "READY", "URL", "AGE"}}
	if namespaces {
		t.Columns = append([]string{"NAMESPACE"}, t.Columns...)
	}
	for i := range all {
		s := &all[i]
		model, runtime := "", ""
		if s.Spec.Model != nil {
			model = s.Spec.Model.Name
		}
		if s.Spec.Runtime != nil {
			runtime = s.Spec.Runtime.Name
		}
		status, _ := ready(s.Status.Conditions, s.Status.ObservedGeneration, s.Generation)
		cells := []string{s.Name, model, runtime, status, s.Status.URL, Age(s.CreationTimestamp.Time, now)}
		if namespaces {
			cells = append([]string{s.Namespace}, cells...)
		}
		t.Add(cells...)
	}
	return t
}
