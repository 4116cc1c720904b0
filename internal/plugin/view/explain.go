package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	autoscalingv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
	elasticscalerv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	omev1beta1 "github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	tidalv1alpha1 "github.com/pd-orchestrator/pd-orchestrator/api/tidal/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyresolve"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/policyspec"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
	"github.com/pd-orchestrator/pd-orchestrator/internal/desired"
)

// Explanation is what an object wants, what it last decided and why, and what is wrong with it.
type Explanation struct {
	metav1.TypeMeta `json:",inline"`
	Object          Reference `json:"object"`
	// Summary is the object's state in sentences.
	Summary  []string  `json:"summary"`
	Sections []Section `json:"sections,omitempty"`
	// Troubles are the conditions that somebody would want to mend.
	Troubles []Trouble `json:"troubles,omitempty"`
	// Events are the last ones, the newest first.
	Events []Event `json:"events,omitempty"`
}

// Section is one part of an explanation: sentences, then a table.
type Section struct {
	Title string   `json:"title"`
	Lines []string `json:"lines,omitempty"`
	Table *Table   `json:"table,omitempty"`
}

func explanation(ref Reference) *Explanation {
	return &Explanation{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Explanation"}, Object: ref}
}

func (e *Explanation) say(format string, args ...any) {
	e.Summary = append(e.Summary, fmt.Sprintf(format, args...))
}

// outdated says that the status tells of an earlier spec.
func (e *Explanation) outdated(observed, generation int64) {
	switch {
	case observed == 0:
		e.say("No controller has looked at it yet: see whether its manager runs.")
	case observed < generation:
		e.say("What follows was made from generation %d of the spec, which is at %d: its manager is behind, or does not run.", observed, generation)
	}
}

// ExplainGroup explains a ResourceScalingGroup.
func ExplainGroup(g *autoscalingv1alpha1.ResourceScalingGroup, now time.Time) *Explanation {
	e := explanation(ReferenceTo(KindGroup, g))
	s := g.Status
	e.outdated(s.ObservedGeneration, g.Generation)
	if g.Spec.ScalingStrategy.Type == autoscalingv1alpha1.InplaceScaling {
		e.explainInplace(g)
	} else {
		e.explainReplication(g, now)
	}
	if desired.Paused(g) {
		e.say("It is paused: only the status is written, and the counts belong to others.")
	}
	e.Troubles = Troubles(KindGroup, "", s.Conditions)
	return e
}

func (e *Explanation) explainReplication(g *autoscalingv1alpha1.ResourceScalingGroup, now time.Time) {
	s := g.Status
	e.say("It wants %s; %s complete and %s ready.", desired.CountGroups(desired.Replicas(g)), isAre(s.CurrentReplicas), isAre(s.ReadyReplicas))
	if g.DeletionTimestamp != nil {
		e.say("It is being deleted: its workloads stay.")
	}
	if len(s.Groups) > 0 {
		table := &Table{Columns: []string{"GROUP", "PHASE", "LAST VALUE"}}
		for _, t := range g.Spec.TargetResources {
			table.Columns = append(table.Columns, strings.ToUpper(t.Name))
		}
		for _, group := range s.Groups {
			cells := []string{fmt.Sprint(group.ID), string(group.Phase), group.Value}
			for _, t := range g.Spec.TargetResources {
				cell := "missing"
				for _, have := range group.Targets {
					if have.Name == t.Name {
						cell = of(have.Ready, have.Desired)
					}
				}
				cells = append(cells, cell)
			}
			table.Add(cells...)
		}
		e.Sections = append(e.Sections, Section{Title: "Groups", Table: table})
	}
	if last := s.LastScaleDown; last != nil {
		e.Sections = append(e.Sections, explainScaleDown(last, now))
	}
	var drifted []string
	for _, t := range s.Targets {
		if t.SnapshotDrift != nil && *t.SnapshotDrift {
			drifted = append(drifted, t.Name)
		}
	}
	if len(drifted) > 0 {
		e.say("%s changed since the snapshot that clones are made from. Delete ControllerRevision %s and ConfigMap %s to take a new one.",
			join(drifted), s.Revision, desired.ReplicaConfigName(g.Name))
	}
}

func isAre(n *int32) string {
	switch {
	case n == nil:
		return "an unknown number are"
	case *n == 1:
		return "1 is"
	}
	return fmt.Sprintf("%d are", *n)
}

func explainScaleDown(r *autoscalingv1alpha1.ScaleDownRecord, now time.Time) Section {
	at := r.Time
	section := Section{Title: "Last scale-down, " + ago(&at, now)}
	section.Lines = append(section.Lines, fmt.Sprintf("Chosen: %s.", groupNames(r.Victims)))
	switch r.Level {
	case autoscalingv1alpha1.LevelMetric:
		section.Lines = append(section.Lines, fmt.Sprintf("The values of scaleDown.metric decided, in %s order.", r.Order))
	case autoscalingv1alpha1.LevelAnnotation:
		section.Lines = append(section.Lines, fmt.Sprintf("The annotations %s decided, in %s order.", autoscalingv1alpha1.AnnotationMetricValue, r.Order))
	case autoscalingv1alpha1.LevelGroupID:
		section.Lines = append(section.Lines, "The ids decided: the highest go first, group 0 last.")
	case autoscalingv1alpha1.LevelIncomplete:
		section.Lines = append(section.Lines, "Groups that were never complete went, and that was enough.")
	}
	if r.Reason != "" && r.Reason != autoscalingv1alpha1.ReasonMetricUsed {
		section.Lines = append(section.Lines, "The metric could not decide: "+r.Reason+".")
	}
	if len(r.Pending) > 0 {
		section.Lines = append(section.Lines, fmt.Sprintf("Still on the way out: %s.", groupNames(r.Pending)))
	}
	if len(r.Values) > 0 {
		place := map[int32]int{}
		for i, id := range r.Victims {
			place[id] = i + 1
		}
		section.Table = &Table{Columns: []string{"GROUP", "VALUE", "CHOSEN"}}
		for _, v := range r.Values {
			chosen := ""
			if n := place[v.ID]; n > 0 {
				chosen = fmt.Sprint(n)
			}
			section.Table.Add(fmt.Sprint(v.ID), v.Value, chosen)
		}
	}
	return section
}

func groupNames(ids []int32) string {
	if len(ids) == 0 {
		return "none"
	}
	var names []string
	for _, id := range ids {
		names = append(names, fmt.Sprint(id))
	}
	if len(ids) == 1 {
		return "group " + names[0]
	}
	return "groups " + join(names)
}

func (e *Explanation) explainInplace(g *autoscalingv1alpha1.ResourceScalingGroup) {
	c := g.Spec.ScalingStrategy.LeaderFollowerConfig
	if c == nil {
		return
	}
	if c.Leader.Replicas != nil {
		e.say("Leader %s is held at %d; followers keep their ratio to it.", c.Leader.ResourceName, *c.Leader.Replicas)
	} else {
		e.say("Followers keep their ratio to whatever count leader %s has.", c.Leader.ResourceName)
	}
	status := map[string]autoscalingv1alpha1.TargetStatus{}
	for _, t := range g.Status.Targets {
		status[t.Name] = t
	}
	table := &Table{Columns: []string{"TARGET", "ROLE", "RATIO", "WANTED", "CURRENT", "READY"}}
	add := func(target, role, ratio string) {
		s := status[target]
		table.Add(target, role, ratio, count(s.DesiredReplicas), count(s.CurrentReplicas), count(s.ReadyReplicas))
	}
	add(c.Leader.ResourceName, "leader", "")
	for _, f := range c.Follower {
		add(f.ResourceName, "follower", f.FollowRatio.String())
	}
	e.Sections = append(e.Sections, Section{Title: "Targets", Table: table})
}

// ExplainScaler explains an ElasticScaler.
func ExplainScaler(s *elasticscalerv1alpha1.ElasticScaler, now time.Time) *Explanation {
	e := explanation(ReferenceTo(KindScaler, s))
	e.outdated(ptr.Deref(s.Status.ObservedGeneration, 0), s.Generation)
	target := Reference{Kind: s.Spec.TargetRef.Kind, Namespace: s.Spec.TargetRef.Namespace, Name: s.Spec.TargetRef.Name}
	e.say("It scales %s by %s%s.", target, s.Spec.Trigger.Type, bounds(s.Status.MinReplicas, s.Status.MaxReplicas))
	if d := s.Status.LastDecision; d != nil {
		e.Sections = append(e.Sections, explainDecision(d, now))
	} else {
		e.say("It has decided nothing yet.")
	}
	if t := s.Status.LastScaleTime; t != nil {
		e.say("It last changed the count %s.", ago(t, now))
	}
	if last := s.Status.LastSignal; last != nil {
		e.say("The last signal was %s, received %s.", last.Signal, ago(last.ReceivedTime, now))
	}
	e.Troubles = Troubles(KindScaler, "", s.Status.Conditions)
	return e
}

func bounds(least, most *int32) string {
	switch {
	case least == nil && most == nil:
		return ""
	case most == nil:
		return fmt.Sprintf(", to %d replicas or more", *least)
	case least == nil:
		return fmt.Sprintf(", to %d replicas at most", *most)
	}
	return fmt.Sprintf(", to between %d and %d replicas", *least, *most)
}

func explainDecision(d *elasticscalerv1alpha1.Decision, now time.Time) Section {
	section := Section{Title: "Last decision, " + ago(d.Time, now)}
	if d.Algorithm != "" {
		section.Title += ", by " + d.Algorithm
	}
	switch {
	case d.DesiredReplicas == nil:
		section.Lines = append(section.Lines, "No count could be decided: "+d.Reason+". "+d.Message)
	case d.CurrentReplicas == nil:
		section.Lines = append(section.Lines, fmt.Sprintf("%d are wanted: %s. %s", *d.DesiredReplicas, d.Reason, d.Message))
	default:
		section.Lines = append(section.Lines, fmt.Sprintf("From %d to %d: %s. %s", *d.CurrentReplicas, *d.DesiredReplicas, d.Reason, d.Message))
	}
	for _, step := range d.Steps {
		section.Lines = append(section.Lines, fmt.Sprintf("%s made %s of %s: %s. %s", step.Name, count(step.To), count(step.From), step.Reason, step.Message))
	}
	if len(d.Inputs) > 0 {
		section.Table = &Table{Columns: []string{"INPUT", "NAME", "VALUE", "TARGET", "PROPOSES", "AGE", "NOTE"}}
		for _, in := range d.Inputs {
			note, age := in.Reason, ""
			if in.Message != "" {
				note += ": " + in.Message
			}
			if in.Time != nil && d.Time != nil {
				// As old as it was when it decided.
				age = Age(in.Time.Time, d.Time.Time)
			}
			section.Table.Add(in.Type, in.Name, in.Value, in.Target, count(in.ProposedReplicas), age, note)
		}
	}
	return section
}

// ExplainTidal explains a Tidal.
func ExplainTidal(t *tidalv1alpha1.Tidal, now time.Time) *Explanation {
	e := explanation(ReferenceTo(KindTidal, t))
	s := t.Status
	e.outdated(ptr.Deref(s.ObservedGeneration, 0), t.Generation)
	target := Reference{Kind: t.Spec.TargetRef.Kind, Namespace: t.Spec.TargetRef.Namespace, Name: t.Spec.TargetRef.Name}
	if s.ActiveRule == "" {
		e.say("No rule has fired yet, so the count of %s is left alone.", target)
	} else {
		e.say("Rule %q is in force since %s and wants %s of %s.", s.ActiveRule, moment(s.ActiveRuleEffectiveTime), replicas(s.DesiredReplicas), target)
	}
	if s.LastScale != nil && s.LastScale.Replicas != nil {
		e.say("The firing of rule %q at %s has reached the target with %s; until the next one the count belongs to others.",
			s.LastScale.Rule, moment(s.LastScale.Time), replicas(s.LastScale.Replicas))
	}
	if s.NextTriggerTime != nil {
		e.say("Rule %q fires next, at %s.", s.NextTriggerRule, moment(s.NextTriggerTime))
	}
	if len(s.Upcoming) > 0 {
		table := &Table{Columns: []string{"TIME", "IN", "RULE", "REPLICAS"}}
		for _, u := range s.Upcoming {
			in := ""
			if u.Time != nil {
				in = Age(now, u.Time.Time)
			}
			table.Add(moment(u.Time), in, u.Rule, count(u.Replicas))
		}
		e.Sections = append(e.Sections, Section{Title: "Coming firings", Table: table})
	}
	e.Troubles = Troubles(KindTidal, "", s.Conditions)
	return e
}

func replicas(n *int32) string {
	if n == nil {
		return "an unknown number of replicas"
	}
	return plural(int(*n), "replica", "replicas")
}

// ExplainPolicy explains an AutoscalerPolicy. services are those of its namespace, where they are known.
func ExplainPolicy(p *omev1beta1.AutoscalerPolicy, services []omev1beta1.InferenceService, known bool) *Explanation {
	e := explanation(ReferenceTo(KindPolicy, p))
	e.outdated(p.Status.ObservedGeneration, p.Generation)
	e.say("It renders to class %s; digest %s.", p.Spec.Class, orNone(p.Status.PortableDigest))
	table := &Table{Columns: []string{"COMPONENT", "SOURCE", "STATE", "RENDER"}}
	for i := range services {
		for _, use := range policyresolve.Uses(services[i].Spec) {
			if use.Policy != p.Name {
				continue
			}
			source, state, render := "", "", ""
			if c := policyresolve.Status(services[i].Status.Components, use.Component); c != nil && c.Autoscaler != nil {
				source, state = string(c.Autoscaler.SpecSource), policyState(c.Autoscaler)
				if c.Autoscaler.Policy != nil {
					render = c.Autoscaler.Policy.ResolvedDigest
				}
			}
			table.Add(services[i].Name+"/"+use.Component, source, state, render)
		}
	}
	switch {
	case !known:
		e.say("Which components name it is not known.")
	case len(table.Rows) == 0:
		e.say("No component names it.")
	default:
		e.Sections = append(e.Sections, Section{Title: "Components that name it", Table: table})
	}
	var findings []string
	for _, f := range policyspec.Validate(p.Spec) {
		findings = append(findings, f.Reason+": "+f.Detail)
	}
	if len(findings) > 1 {
		e.Sections = append(e.Sections, Section{Title: "Everything that is wrong with it", Lines: findings})
	}
	e.Troubles = Troubles(KindPolicy, "", p.Status.Conditions)
	return e
}

func orNone(s string) string {
	if s == "" {
		return "not known yet"
	}
	return s
}

// ExplainService explains an InferenceService.
func ExplainService(s *omev1beta1.InferenceService, now time.Time) *Explanation {
	e := explanation(ReferenceTo(KindService, s))
	e.outdated(s.Status.ObservedGeneration, s.Generation)
	model := "no model"
	if s.Spec.Model != nil {
		model = "model " + s.Spec.Model.Name
	}
	e.say("It serves %s.", model)
	e.Troubles = Troubles(KindService, "", s.Status.Conditions)
	for _, name := range []string{servingcomponent.Engine, servingcomponent.Decoder, servingcomponent.Router} {
		c := policyresolve.Status(s.Status.Components, name)
		if c == nil {
			continue
		}
		section := Section{Title: name}
		if ref := c.ScaleTargetRef; ref != nil {
			section.Lines = append(section.Lines, fmt.Sprintf("Runs as %s %s.", ref.Kind, ref.Name))
		}
		if a := c.Autoscaler; a != nil {
			section.Lines = append(section.Lines, explainAutoscaler(a, now)...)
			e.Troubles = append(e.Troubles, Troubles(KindService, name, a.Conditions)...)
		}
		e.Sections = append(e.Sections, section)
	}
	return e
}

var sources = map[omev1beta1.AutoscalerSource]string{
	omev1beta1.SourceInline:  "the component's own autoscaler",
	omev1beta1.SourcePolicy:  "its AutoscalerPolicy",
	omev1beta1.SourceRuntime: "the runtime",
	omev1beta1.SourceLegacy:  "annotations of an earlier release",
	omev1beta1.SourceDefault: "the default, CPU use of 80 percent",
}

func explainAutoscaler(a *omev1beta1.ComponentAutoscalerStatus, now time.Time) []string {
	lines := []string{fmt.Sprintf("Scaled by class %s; the settings come from %s.", a.Class, sources[a.SpecSource])}
	if a.CurrentReplicas != nil && a.DesiredReplicas != nil {
		lines = append(lines, fmt.Sprintf("Its autoscaler sees %d and wants %s.", *a.CurrentReplicas, replicas(a.DesiredReplicas)))
	}
	if a.LastScaleTime != nil {
		lines = append(lines, "Last scaled "+ago(a.LastScaleTime, now)+".")
	}
	if p := a.Policy; p != nil {
		lines = append(lines, fmt.Sprintf("Policy %s, generation %d, rendered as %s: %s.", p.Name, p.ObservedGeneration, p.ResolvedDigest, policyState(a)))
	}
	if s := a.ShadowedPolicyRef; s != nil {
		lines = append(lines, fmt.Sprintf("Policy %s is outranked by the component's own autoscaler; without that it would render as %s.", s.Name, orNone(s.WouldRenderDigest)))
	}
	return lines
}

// Print writes an explanation for people.
func (e *Explanation) Print(w io.Writer, style Style, now time.Time) error {
	p := &printer{w: w}
	p.line("%s", style.Bold(e.Object.String()))
	for _, s := range e.Summary {
		p.line("  %s", s)
	}
	for _, s := range e.Sections {
		p.line("")
		p.line("%s", style.Bold(s.Title))
		for _, l := range s.Lines {
			p.line("  %s", strings.TrimSpace(l))
		}
		if s.Table != nil {
			p.table(*s.Table)
		}
	}
	p.line("")
	if len(e.Troubles) == 0 {
		p.line("%s", style.Good("Nothing is wrong."))
	} else {
		p.line("%s", style.Bad("What is wrong"))
		for _, t := range e.Troubles {
			p.line("  %s", t)
			if !t.Since.IsZero() {
				p.line("    for %s", Age(t.Since.Time, now))
			}
		}
	}
	if len(e.Events) > 0 {
		p.line("")
		p.line("%s", style.Bold("Events"))
		table := Table{Columns: []string{"AGE", "TYPE", "REASON", "NOTE"}}
		for _, ev := range e.Events {
			note := ev.Note
			if ev.Count > 1 {
				note += fmt.Sprintf(" (%d times)", ev.Count)
			}
			table.Add(Age(ev.Time.Time, now), ev.Type, ev.Reason, note)
		}
		p.table(table)
	}
	return p.err
}
