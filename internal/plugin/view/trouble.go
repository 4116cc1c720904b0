package view

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
)

// Trouble is a condition that somebody would want to mend.
type Trouble struct {
	// Part is what of the object is concerned, such as a component, "" for all of it.
	Part    string      `json:"part,omitempty"`
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Since   metav1.Time `json:"since,omitzero"`
}

// String is the trouble in one line.
func (t Trouble) String() string {
	part := ""
	if t.Part != "" {
		part = t.Part + ": "
	}
	return fmt.Sprintf("%s%s is %s (%s): %s", part, t.Type, t.Status, t.Reason, t.Message)
}

// badWhenTrue are the conditions whose truth is the trouble, by kind.
var badWhenTrue = map[string]map[string]bool{
	KindGroup: {
		autoscalingv1alpha1.ConditionBaselineUnknown: true, autoscalingv1alpha1.ConditionScalerConflict: true,
		autoscalingv1alpha1.ConditionSelectorOverlap: true,
	},
	KindTidal: {
		tidalv1alpha1.ConditionDegraded: true, tidalv1alpha1.ConditionRuleConflict: true,
		tidalv1alpha1.ConditionSharedTarget: true, tidalv1alpha1.ConditionScalerConflict: true,
	},
	KindService: {"Fallback": true},
}

// neutral are the conditions that tell of no trouble, whatever they say, by kind.
var neutral = map[string]map[string]bool{
	KindGroup: {autoscalingv1alpha1.ConditionPaused: true},
	KindTidal: {tidalv1alpha1.ConditionProgressing: true, tidalv1alpha1.ConditionSuspended: true},
	// That a policy is not used, a ScaledObject not active, or a count at its bound is as it should be.
	KindPolicy:  {omev1beta1.ConditionInUse: true},
	KindService: {"Active": true, "Paused": true, "ScalingLimited": true},
}

// asWanted are reasons that tell of what the user asked for, by kind.
var asWanted = map[string]map[string]bool{
	KindGroup: {
		autoscalingv1alpha1.ReasonInplaceScaling: true, autoscalingv1alpha1.ReasonPaused: true, autoscalingv1alpha1.ReasonProgressing: true,
		autoscalingv1alpha1.ReasonNoDecisionYet: true,
	},
	KindTidal: {tidalv1alpha1.ReasonScaling: true},
}

// healthy reports whether a condition of an object of a kind tells of nothing to mend.
func healthy(kind string, c metav1.Condition) bool {
	switch {
	case kind == KindScaler:
		return desired.Healthy(c)
	case neutral[kind][c.Type] || asWanted[kind][c.Reason]:
		return true
	case badWhenTrue[kind][c.Type]:
		return c.Status != metav1.ConditionTrue
	}
	return c.Status == metav1.ConditionTrue
}

// Troubles returns the conditions that somebody would want to mend, without the summary Ready where another one says the
// same.
func Troubles(kind, part string, conditions []metav1.Condition) []Trouble {
	var all []Trouble
	for _, c := range conditions {
		if !healthy(kind, c) {
			all = append(all, Trouble{Part: part, Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime})
		}
	}
	var out []Trouble
	for i, t := range all {
		if t.Type == "Ready" && repeated(t, all[i+1:], all[:i]) {
			continue
		}
		out = append(out, t)
	}
	return out
}

func repeated(t Trouble, lists ...[]Trouble) bool {
	for _, list := range lists {
		for _, other := range list {
			if other.Reason == t.Reason && strings.Contains(other.Message, t.Message) {
				return true
			}
		}
	}
	return false
}
