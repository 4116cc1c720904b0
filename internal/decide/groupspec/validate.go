// Package groupspec decides whether what a ResourceScalingGroup asks for can be done, as far as the object alone shows.
// The admission webhook refuses what it finds, the controller checks the same again, and rules in the schema say part
// of it earlier: this package says all of it, for objects that were stored before a rule existed too.
//
// A finding holds the field's path, the bad value and the fix.
package groupspec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/clone"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/ratio"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/victims"
)

// finding is an error with the part of the spec it is of. A part keeps its name when entries of a list are moved, which
// a path does not.
type finding struct {
	part string
	err  *field.Error
}

type findings struct {
	all      []finding
	warnings []string
}

func (f *findings) add(part string, err *field.Error) {
	f.all = append(f.all, finding{part: part, err: err})
}

func (f *findings) warn(path *field.Path, format string, args ...any) {
	f.warnings = append(f.warnings, path.String()+": "+fmt.Sprintf(format, args...))
}

func (f *findings) errors() field.ErrorList {
	var list field.ErrorList
	for _, one := range f.all {
		list = append(list, one.err)
	}
	return list
}

// Validate returns everything that is wrong with a ResourceScalingGroup, and warnings about what is accepted but may not
// be meant.
func Validate(rsg *v1alpha1.ResourceScalingGroup) (field.ErrorList, []string) {
	f := examine(rsg)
	return f.errors(), f.warnings
}

func examine(rsg *v1alpha1.ResourceScalingGroup) *findings {
	f := &findings{}
	if n := len(rsg.Name); n > validation.LabelValueMaxLength {
		f.add("name", field.Invalid(field.NewPath("metadata", "name"), rsg.Name,
			fmt.Sprintf("is %d characters: must be at most %d, since it becomes a label value", n, validation.LabelValueMaxLength)))
	}
	spec := field.NewPath("spec")
	examineTargets(f, rsg, spec.Child("targetResources"))
	strategy := spec.Child("scalingStrategy")
	switch rsg.Spec.ScalingStrategy.Type {
	case v1alpha1.GroupReplication:
		examineReplication(f, rsg, strategy)
	case v1alpha1.InplaceScaling:
		examineInplace(f, rsg, strategy)
	default:
		f.add("type", field.NotSupported(strategy.Child("type"), rsg.Spec.ScalingStrategy.Type,
			[]v1alpha1.StrategyType{v1alpha1.GroupReplication, v1alpha1.InplaceScaling}))
	}
	return f
}

// named is a target that has been examined, for comparison with the later ones.
type named struct {
	target   string
	workload Workload
}

func examineTargets(f *findings, rsg *v1alpha1.ResourceScalingGroup, path *field.Path) {
	if len(rsg.Spec.TargetResources) == 0 {
		f.add("targets", field.Required(path, "must have at least one entry"))
	}
	replicated := rsg.Spec.ScalingStrategy.Type == v1alpha1.GroupReplication
	owner := clone.OwnerOf(rsg)
	names := map[string]bool{}
	byWorkload := map[string]string{} // target names
	byClone := map[string]named{}
	var bases []named
	for i, t := range rsg.Spec.TargetResources {
		part, at := "target "+t.Name, path.Index(i)
		ref := at.Child("resourceRef")
		if names[t.Name] {
			f.add(part, duplicate(at.Child("name"), t.Name, "must be the name of one target only"))
		}
		names[t.Name] = true
		if !examineRef(f, part, rsg.Spec.ScalingStrategy.Type, t.ResourceRef, ref) {
			continue
		}
		w := WorkloadOf(t.ResourceRef, rsg.Namespace)
		if other, taken := byWorkload[w.Key()]; taken {
			f.add(part, duplicate(ref, w.String(), fmt.Sprintf("is target %q already: remove one of the two", other)))
			continue
		}
		byWorkload[w.Key()] = t.Name
		if w.kind == nil {
			f.add(part, unsupportedKind(t.ResourceRef, ref))
			continue
		}
		if !replicated {
			continue
		}
		if err := owner.CheckWorkloadName(*w.kind, w.Name); err != nil {
			f.add(part, field.Invalid(ref.Child("name"), t.ResourceRef.Name, err.Error()))
			continue
		}
		key := w.Group + "/" + w.Kind + "/" + w.Name
		if other, taken := byClone[key]; taken {
			f.add(part, duplicate(ref.Child("name"), t.ResourceRef.Name, fmt.Sprintf(
				"has clones named like %q, and so has target %q in namespace %s: rename one of the workloads, or put one into another ResourceScalingGroup",
				owner.WorkloadName(w.Name, 1), other.target, other.workload.Namespace)))
			continue
		}
		byClone[key] = named{t.Name, w}
		bases = append(bases, named{t.Name, w})
	}
	examineCollisions(f, rsg, owner, bases, path)
}

// examineCollisions finds workloads of the user's own that stand where a clone of another target is to be made.
func examineCollisions(f *findings, rsg *v1alpha1.ResourceScalingGroup, owner clone.Owner, bases []named, path *field.Path) {
	for _, base := range bases {
		if base.workload.Namespace != rsg.Namespace {
			continue
		}
		at := strings.LastIndexByte(base.workload.Name, '-')
		id, err := strconv.ParseInt(base.workload.Name[at+1:], 10, 32)
		if at < 0 || err != nil || id < 1 || id > int64(v1alpha1.MaxGroupID) {
			continue
		}
		for _, other := range bases {
			if other.workload.GroupKind == base.workload.GroupKind &&
				owner.WorkloadName(other.workload.Name, int32(id)) == base.workload.Name {
				i := slices.IndexFunc(rsg.Spec.TargetResources, func(t v1alpha1.TargetResource) bool { return t.Name == base.target })
				f.add("target "+base.target, field.Invalid(path.Index(i).Child("resourceRef", "name"), base.workload.Name,
					fmt.Sprintf("is the name of the clone of target %q in group %d: change groupName %q or rename the workload", other.target, id, owner.GroupName)))
			}
		}
	}
}

// examineRef checks one reference and says whether a workload can be told from it.
func examineRef(f *findings, part string, strategy v1alpha1.StrategyType, ref v1alpha1.ResourceRef, path *field.Path) bool {
	before := len(f.all)
	if _, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || ref.APIVersion == "" {
		f.add(part, field.Invalid(path.Child("apiVersion"), ref.APIVersion, "must be of the form group/version, for example apps/v1"))
	}
	if msgs := validation.IsDNS1123Subdomain(ref.Name); len(msgs) > 0 {
		f.add(part, field.Invalid(path.Child("name"), ref.Name, "must be the name of an object: "+strings.Join(msgs, "; ")))
	}
	if ref.Namespace != "" {
		if msgs := validation.IsDNS1123Label(ref.Namespace); len(msgs) > 0 {
			f.add(part, field.Invalid(path.Child("namespace"), ref.Namespace, "must be the name of a namespace: "+strings.Join(msgs, "; ")))
		}
	}
	sub := path.Child("subresource")
	if ref.Kind != KindRoleBasedGroup {
		if ref.Subresource != nil {
			f.add(part, field.Forbidden(sub, fmt.Sprintf("must be left out for kind %s: only a RoleBasedGroup has roles to choose from", ref.Kind)))
		}
		return len(f.all) == before
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group != groupRoleBasedGroup {
		f.add(part, field.Invalid(path.Child("apiVersion"), ref.APIVersion, "must be of group "+groupRoleBasedGroup+" for kind RoleBasedGroup"))
	}
	if strategy == v1alpha1.InplaceScaling {
		f.add(part, field.Invalid(path.Child("kind"), ref.Kind,
			"must not be a RoleBasedGroup with type InplaceScaling: the RoleBasedGroup's own controller owns the replicas of its roles and puts back what anybody else writes; "+
				"set the role's replicas in the RoleBasedGroup, or use type GroupReplication"))
	}
	switch s := ref.Subresource; {
	case s == nil:
		f.add(part, field.Required(sub, "must say which role of the RoleBasedGroup is meant, by roleName"))
	case s.RoleName == "" && s.WorkloadName == "":
		f.add(part, field.Required(sub.Child("roleName"), "must be set, or workloadName where the role's workload has a name of its own"))
	case s.WorkloadName != "":
		if msgs := validation.IsDNS1123Subdomain(s.WorkloadName); len(msgs) > 0 {
			f.add(part, field.Invalid(sub.Child("workloadName"), s.WorkloadName, "must be the name of an object: "+strings.Join(msgs, "; ")))
		}
	default:
		if msgs := validation.IsDNS1123Label(s.RoleName); len(msgs) > 0 {
			f.add(part, field.Invalid(sub.Child("roleName"), s.RoleName, "must be the name of a role: "+strings.Join(msgs, "; ")))
		}
	}
	return len(f.all) == before
}

func unsupportedKind(ref v1alpha1.ResourceRef, path *field.Path) *field.Error {
	var known []string
	for _, k := range clone.Kinds() {
		known = append(known, k.GroupVersion().String()+" "+k.GroupVersionKind.Kind)
	}
	allowed := "must be one of " + strings.Join(known, ", ")
	if ref.Kind == KindRoleBasedGroup {
		return field.Invalid(path.Child("subresource", "workloadKind"), strings.TrimSpace(ref.Subresource.WorkloadAPIVersion+" "+ref.Subresource.WorkloadKind), allowed)
	}
	return field.Invalid(path.Child("kind"), ref.APIVersion+" "+ref.Kind, allowed+", or a role of a RoleBasedGroup")
}

func duplicate(path *field.Path, value, detail string) *field.Error {
	err := field.Duplicate(path, value)
	err.Detail = detail
	return err
}

var groupNameFormat = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`)

func examineReplication(f *findings, rsg *v1alpha1.ResourceScalingGroup, path *field.Path) {
	if rsg.Spec.ScalingStrategy.LeaderFollowerConfig != nil {
		f.add("block", field.Forbidden(path.Child("leaderFollowerConfig"), "must be left out when type is GroupReplication: remove it, or use type InplaceScaling"))
	}
	c, at := rsg.Spec.ScalingStrategy.GroupConfig, path.Child("groupConfig")
	if c == nil {
		f.add("block", field.Required(at, "must be set when type is GroupReplication"))
		return
	}
	switch {
	case c.GroupName == "" && strings.Contains(rsg.Name, "."):
		f.warn(at.Child("groupName"), "is empty, so metadata.name %q stands in its place, and no Service name may hold a dot: "+
			"if Services select the targets, set groupName before the first group is made", rsg.Name)
	case c.GroupName != "" && (!groupNameFormat.MatchString(c.GroupName) || len(c.GroupName) > validation.LabelValueMaxLength):
		f.add("groupName", field.Invalid(at.Child("groupName"), c.GroupName,
			"must be at most 63 letters, digits and '-', beginning and ending with a letter or digit, since it becomes part of object names"))
	}
	if n := c.Replicas; n != nil && (*n < 0 || *n > v1alpha1.MaxGroupID+1) {
		f.add("replicas", field.Invalid(at.Child("replicas"), *n, fmt.Sprintf("must be from 0 to %d", v1alpha1.MaxGroupID+1)))
	}
	if c.ScaleDown != nil && c.ScaleDown.Metric != nil {
		examineMetric(f, *c.ScaleDown.Metric, at.Child("scaleDown", "metric"))
	}
}

func examineMetric(f *findings, m v1alpha1.ScaleDownMetric, path *field.Path) {
	const part = "metric"
	rated := m.Type == v1alpha1.MetricCounter || m.Type == v1alpha1.MetricHistogram
	switch window := path.Child("window"); {
	case !rated && m.Window != "":
		f.warn(window, "has no effect on a Gauge, whose present values are compared: remove it, or set type to Counter or Histogram to compare rates")
	case !rated:
	case m.Window == "":
		f.add(part, field.Required(window, fmt.Sprintf("must be set for type %s, for example 2m", m.Type)))
	default:
		if d, err := model.ParseDuration(m.Window); err != nil || d <= 0 {
			f.add(part, field.Invalid(window, m.Window, "must be a Prometheus duration greater than 0, largest unit first, for example 2m or 1h30m"))
		}
	}
	at := path.Child("expr")
	if m.Expr == "" {
		f.warn(at, "is not set, so the annotation %s decides which groups go, then the highest group id", v1alpha1.AnnotationMetricValue)
		return
	}
	if rated {
		// What is wrong with the window is told above, and must not hide what is wrong with the expression.
		m.Window = "1m"
	}
	if _, err := victims.BuildQuery(m, victims.Scope{}); err != nil {
		detail := fmt.Sprintf("must be a PromQL expression with one value per series: %v", cause(err))
		if rated {
			detail = fmt.Sprintf("must be a PromQL selector, as the range of a rate is taken of it for type %s: %v", m.Type, cause(err))
		}
		f.add(part, field.Invalid(at, m.Expr, detail))
	}
}

// cause strips what repeats the expression from an error.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

func examineInplace(f *findings, rsg *v1alpha1.ResourceScalingGroup, path *field.Path) {
	if rsg.Spec.ScalingStrategy.GroupConfig != nil {
		f.add("block", field.Forbidden(path.Child("groupConfig"), "must be left out when type is InplaceScaling: remove it, or use type GroupReplication"))
	}
	c, at := rsg.Spec.ScalingStrategy.LeaderFollowerConfig, path.Child("leaderFollowerConfig")
	if c == nil {
		f.add("block", field.Required(at, "must be set when type is InplaceScaling"))
		return
	}
	targets := make([]string, 0, len(rsg.Spec.TargetResources))
	for _, t := range rsg.Spec.TargetResources {
		targets = append(targets, t.Name)
	}
	unknown := "must be the name of an entry of targetResources: " + strings.Join(targets, ", ")
	used := map[string]bool{c.Leader.ResourceName: true}
	if !slices.Contains(targets, c.Leader.ResourceName) {
		f.add("leader", field.Invalid(at.Child("leader", "resourceName"), c.Leader.ResourceName, unknown))
	}
	followers := map[string]bool{}
	for i, follower := range c.Follower {
		part, one := "follower "+follower.ResourceName, at.Child("follower").Index(i)
		name := one.Child("resourceName")
		switch {
		case !slices.Contains(targets, follower.ResourceName):
			f.add(part, field.Invalid(name, follower.ResourceName, unknown))
		case follower.ResourceName == c.Leader.ResourceName:
			f.add(part, field.Invalid(name, follower.ResourceName, "must be another target than leader.resourceName: the leader does not follow itself"))
		case followers[follower.ResourceName]:
			f.add(part, duplicate(name, follower.ResourceName, "is a follower already: remove one of the two"))
		}
		followers[follower.ResourceName], used[follower.ResourceName] = true, true
		examineRatio(f, part, c.Leader, follower.FollowRatio, one.Child("followRatio"))
	}
	if len(c.Follower) == 0 {
		f.warn(at.Child("follower"), "is empty, so nothing follows the leader")
		return
	}
	for i, name := range targets {
		if !used[name] {
			f.warn(field.NewPath("spec", "targetResources").Index(i), "target %q is neither leader nor follower, so nothing scales it", name)
		}
	}
}

func examineRatio(f *findings, part string, leader v1alpha1.Leader, value intstr.IntOrString, path *field.Path) {
	parsed, err := ratio.Parse(value)
	if err != nil {
		f.add(part, field.Invalid(path, value.String(),
			fmt.Sprintf(`must be an integer from 1 to %d, or a quoted decimal above 0 and at most %d with at most three decimals, for example "0.5"`, ratio.Max, ratio.Max)))
		return
	}
	if leader.Replicas == nil {
		return
	}
	if _, err := ratio.Follow(*leader.Replicas, parsed); err != nil {
		f.add(part, field.Invalid(path, value.String(), fmt.Sprintf("with leader.replicas %d: %v; lower one of the two", *leader.Replicas, err)))
	}
}
