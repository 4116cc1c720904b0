package groupspec

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
)

// ValidateUpdate returns everything that is wrong with a change. What was wrong in the same way before does not stand in
// the way of changes to other parts: an object that a newer rule refuses can still be paused or scaled.
func ValidateUpdate(old, rsg *v1alpha1.ResourceScalingGroup) (field.ErrorList, []string) {
	f := examine(rsg)
	before := examine(old).all
	f.all = slices.DeleteFunc(f.all, func(one finding) bool {
		return slices.ContainsFunc(before, func(was finding) bool {
			return was.part == one.part && was.err.Type == one.err.Type && was.err.Detail == one.err.Detail && was.err.BadValue == one.err.BadValue
		})
	})
	examineIdentity(f, old, rsg)
	return f.errors(), f.warnings
}

// examineIdentity holds on to what groups are found again by, once there may be some.
func examineIdentity(f *findings, old, rsg *v1alpha1.ResourceScalingGroup) {
	if old.Status.Revision == "" {
		return
	}
	strategy := field.NewPath("spec", "scalingStrategy")
	fixed := func(path *field.Path, was, is string) {
		if was != is {
			f.add("identity", field.Invalid(path, is, fmt.Sprintf(
				"was %s and may change only until the first snapshot exists, and ControllerRevision %s does; %s", was, old.Status.Revision, startAnew)))
		}
	}
	wasType, isType := old.Spec.ScalingStrategy.Type, rsg.Spec.ScalingStrategy.Type
	fixed(strategy.Child("type"), string(wasType), string(isType))
	if wasType == isType {
		fixed(strategy.Child("groupConfig", "groupName"), clone.OwnerOf(old).GroupName, clone.OwnerOf(rsg).GroupName)
	}
	if differences := targetDifferences(old, rsg); len(differences) > 0 {
		f.add("identity", field.Forbidden(field.NewPath("spec", "targetResources"), fmt.Sprintf(
			"%s: targets may change only until the first snapshot exists, and ControllerRevision %s does; %s",
			strings.Join(differences, ", "), old.Status.Revision, startAnew)))
	}
}

// startAnew is the way out for those who mean the change.
const startAnew = "undo it, or delete the ResourceScalingGroup, whose groups go on running, and create it anew"

// targetDifferences tells how the targets differ, in a few words each. References that mean the same workload do not.
func targetDifferences(old, rsg *v1alpha1.ResourceScalingGroup) []string {
	index := func(of *v1alpha1.ResourceScalingGroup) ([]string, map[string]Workload) {
		names, byName := make([]string, 0, len(of.Spec.TargetResources)), map[string]Workload{}
		for i, w := range Workloads(of) {
			name := of.Spec.TargetResources[i].Name
			names = append(names, name)
			byName[name] = w
		}
		return names, byName
	}
	wasNames, was := index(old)
	isNames, is := index(rsg)
	var all []string
	for _, name := range wasNames {
		if w, there := is[name]; !there {
			all = append(all, fmt.Sprintf("%q is gone", name))
		} else if w.Key() != was[name].Key() {
			all = append(all, fmt.Sprintf("%q was %s", name, was[name]))
		}
	}
	for _, name := range isNames {
		if _, there := was[name]; !there {
			all = append(all, fmt.Sprintf("%q is new", name))
		}
	}
	if len(all) == 0 && !slices.Equal(wasNames, isNames) {
		all = append(all, "the order was "+strings.Join(wasNames, ", "))
	}
	return all
}
