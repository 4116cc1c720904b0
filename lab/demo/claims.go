package demo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// claim is something that the story says of the cluster.
type claim struct {
	text string
	// missing says why the claim does not hold, "" when it does.
	missing func(v *view) string
}

// identity is what stays the same while an object is the same object.
type identity struct{ kind, namespace, name string }

// scaled says that the ResourceScalingGroup has settled at a number of groups, and that its scale subresource shows it.
func scaled(replicas int32) claim {
	return claim{
		text: fmt.Sprintf("ResourceScalingGroup Ready=True (Reconciled), scale subresource: spec.replicas %d, status.replicas %d", replicas, replicas),
		missing: func(v *view) string {
			if v.rsg == nil {
				return "there is no ResourceScalingGroup"
			}
			if v.scale.Spec.Replicas != replicas || v.scale.Status.Replicas != replicas {
				return fmt.Sprintf("the scale subresource has spec.replicas %d and status.replicas %d", v.scale.Spec.Replicas, v.scale.Status.Replicas)
			}
			if v.rsg.Status.ObservedGeneration != v.rsg.Metadata.Generation {
				return "the status is of an earlier generation"
			}
			if ready := v.condition("Ready"); ready.Status != metav1.ConditionTrue || ready.Reason != "Reconciled" {
				return fmt.Sprintf("Ready is %s, reason %s: %s", ready.Status, ready.Reason, ready.Message)
			}
			return ""
		},
	}
}

// complete says that exactly these groups serve, under the names that the ResourceScalingGroup's document defines.
func complete(ids ...int32) claim {
	return claim{
		text: fmt.Sprintf("%s: Deployments 1/1 and 2/2, each pod behind the Service of its own group", groupsText(ids)),
		missing: func(v *view) string {
			for _, id := range ids {
				if reason := v.incomplete(id); reason != "" {
					return reason
				}
			}
			return ""
		},
	}
}

// nothingElse says that no other workload, pod or Service exists than those of the groups, but for the workloads and
// Services of group 0 when it stands at zero.
func nothingElse(atZero bool, ids ...int32) claim {
	text := "nothing else exists: no further Deployment, Service or pod in " + userNamespace + " and " + scalingNamespace
	if atZero {
		text = "group 0 stands at zero replicas, its counts noted in annotation " + annotationBaseline + "; nothing else exists"
	}
	return claim{text: text, missing: func(v *view) string {
		for _, g := range v.groups() {
			switch {
			case slices.Contains(ids, g.id):
			case atZero && g.id == 0:
				if reason := g.notAtZero(); reason != "" {
					return reason
				}
			default:
				return fmt.Sprintf("of group %q there are %d Deployments, %d Services and %d pods", idText(g.id), len(g.targets), len(g.services), len(g.pods))
			}
		}
		if atZero && v.phase(0) != phaseAtZero {
			return fmt.Sprintf("the status has group 0 in phase %q", v.phase(0))
		}
		return ""
	}}
}

func (g group) notAtZero() string {
	for _, target := range targets {
		d := g.targets[target]
		if d == nil {
			return fmt.Sprintf("Deployment %s of group 0 is missing", target)
		}
		if desiredOf(d) != 0 {
			return fmt.Sprintf("Deployment %s of group 0 has %d replicas", d.Name, desiredOf(d))
		}
		if want := strconv.Itoa(int(baseline[target])); d.Annotations[annotationBaseline] != want {
			return fmt.Sprintf("Deployment %s has %q in annotation %s, not %q", d.Name, d.Annotations[annotationBaseline], annotationBaseline, want)
		}
	}
	if len(g.pods) > 0 {
		return fmt.Sprintf("group 0 still has %d pods", len(g.pods))
	}
	return ""
}

// incomplete says what a group lacks, "" when it serves.
func (v *view) incomplete(id int32) string {
	g := v.group(id)
	if id >= 0 && v.rsg != nil && v.phase(id) != phaseReady {
		return fmt.Sprintf("the status has group %d in phase %q", id, v.phase(id))
	}
	for _, target := range targets {
		namespace, workload, service := names(id, target)
		d := g.targets[target]
		if d == nil || d.Namespace != namespace || d.Name != workload {
			return fmt.Sprintf("Deployment %s/%s does not exist", namespace, workload)
		}
		if want := baseline[target]; desiredOf(d) != want || d.Status.AvailableReplicas != want {
			return fmt.Sprintf("Deployment %s has %s replicas, not %d/%d", workload, readyText(d), want, want)
		}
		if _, marked := d.Annotations[annotationBaseline]; marked {
			return fmt.Sprintf("Deployment %s still has annotation %s", workload, annotationBaseline)
		}
		if reason := v.notServing(namespace, service, g.podNames(target)); reason != "" {
			return reason
		}
	}
	if len(g.targets) != len(targets) || len(g.services) != len(targets) {
		return fmt.Sprintf("group %s has %d Deployments and %d Services", idText(id), len(g.targets), len(g.services))
	}
	if want := int(baseline[prefill] + baseline[decode]); len(g.pods) != want {
		return fmt.Sprintf("group %s has %d pods, not %d", idText(id), len(g.pods), want)
	}
	return ""
}

// names are those that the document defines: clones are in the namespace of the ResourceScalingGroup, their workloads
// are <groupName>-<original>-<id> and their Services <original>-<groupName>-<id>, in lower case.
func names(id int32, target string) (namespace, workload, service string) {
	original := "llm-" + target
	if id <= 0 {
		return userNamespace, original, original
	}
	name := strings.ToLower(groupName)
	return scalingNamespace, fmt.Sprintf("%s-%s-%d", name, original, id), fmt.Sprintf("%s-%s-%d", original, name, id)
}

func (g group) podNames(target string) []string {
	var out []string
	for i := range g.pods {
		pod := &g.pods[i]
		if pod.Labels[labelComponent] == target && pod.DeletionTimestamp == nil && podReady(pod) {
			out = append(out, pod.Name)
		}
	}
	slices.Sort(out)
	return out
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// notServing says why the ready endpoints of a Service are not exactly the given pods.
func (v *view) notServing(namespace, service string, pods []string) string {
	if !slices.ContainsFunc(v.services, func(s corev1.Service) bool { return s.Namespace == namespace && s.Name == service }) {
		return fmt.Sprintf("Service %s/%s does not exist", namespace, service)
	}
	var behind []string
	for _, slice := range v.endpoints {
		if slice.Namespace != namespace || slice.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready && e.TargetRef != nil {
				behind = append(behind, e.TargetRef.Name)
			}
		}
	}
	slices.Sort(behind)
	if !slices.Equal(behind, pods) {
		return fmt.Sprintf("Service %s has endpoints %v, not the pods %v", service, behind, pods)
	}
	return ""
}

// measured says that Prometheus has the metric of exactly the pods of these groups, under the id of their group.
func measured(ids ...int32) claim {
	return claim{
		text: fmt.Sprintf("Prometheus has %s of exactly the pods of %s", metric, groupsText(ids)),
		missing: func(v *view) string {
			if v.noMetrics != nil {
				return v.noMetrics.Error()
			}
			left := maps.Clone(v.scraped)
			for _, id := range ids {
				for _, pod := range v.group(id).pods {
					name := podName{pod.Namespace, pod.Name}
					if got, known := v.scraped[name]; !known || got != id {
						return fmt.Sprintf("Prometheus does not have pod %s in group %s yet", pod.Name, idText(id))
					}
					delete(left, name)
				}
			}
			for name, id := range left {
				if slices.Contains(ids, id) {
					return fmt.Sprintf("Prometheus still has pod %s, which is gone", name.name)
				}
			}
			return ""
		},
	}
}

// oneUnitPerGroup says that the selector of the scale subresource matches one pod of each group.
func oneUnitPerGroup(ids ...int32) claim {
	return claim{
		text: "the selector of the scale subresource matches one pod of each group",
		missing: func(v *view) string {
			if v.scale == nil {
				return "there is no scale subresource"
			}
			selector, err := labels.Parse(v.scale.Status.Selector)
			if err != nil || selector.Empty() {
				return fmt.Sprintf("status.selector is %q", v.scale.Status.Selector)
			}
			for _, g := range v.groups() {
				want, got := 0, 0
				if slices.Contains(ids, g.id) {
					want = 1
				}
				for _, pod := range g.pods {
					if selector.Matches(labels.Set(pod.Labels)) {
						got++
					}
				}
				if got != want {
					return fmt.Sprintf("%s matches %d pods of group %s", v.scale.Status.Selector, got, idText(g.id))
				}
			}
			return ""
		},
	}
}

// recorded says that the snapshot and the baseline counts are kept beside the ResourceScalingGroup.
func recorded() claim {
	return claim{
		text: "ControllerRevision and ConfigMap " + replicaConfig + " (prefill: 1, decode: 2) exist",
		missing: func(v *view) string {
			if v.config == nil {
				return "the ConfigMap does not exist"
			}
			for _, target := range targets {
				if v.config.Data[target] != strconv.Itoa(int(baseline[target])) {
					return fmt.Sprintf("the ConfigMap has %v", v.config.Data)
				}
			}
			for _, revision := range v.revisions {
				if v.rsg != nil && revision.Name == v.rsg.Status.Revision {
					return ""
				}
			}
			return "status.revision names no ControllerRevision that exists"
		},
	}
}

// removed says which groups the last scale-down chose, what ranked them, and why that did.
func removed(level, reason string, victims ...int32) claim {
	text := fmt.Sprintf("status.lastScaleDown: level %s, victims %v", level, victims)
	if reason != "" {
		text += ", reason " + reason
	}
	return claim{text: text, missing: func(v *view) string {
		if v.rsg == nil || v.rsg.Status.LastScaleDown == nil {
			return "there is no status.lastScaleDown"
		}
		r := v.rsg.Status.LastScaleDown
		switch {
		case !slices.Equal(r.Victims, victims) || r.Level != level || r.Reason != reason:
			return fmt.Sprintf("it has level %q, victims %v, reason %q", r.Level, r.Victims, r.Reason)
		case len(r.Pending) > 0:
			return fmt.Sprintf("groups %v are still to be removed", r.Pending)
		default:
			return ""
		}
	}}
}

// told says that an event since a moment has all of some words.
func told(kind, reason string, since time.Time, words ...string) claim {
	text := fmt.Sprintf("event %s %s", kind, reason)
	if len(words) > 0 {
		text += fmt.Sprintf(" says %q", words)
	}
	return claim{text: text, missing: func(v *view) string {
		event, found := v.event(reason, since)
		if !found {
			return "there is no such event"
		}
		if event.Type != kind {
			return "its type is " + event.Type
		}
		for _, word := range words {
			if !strings.Contains(event.Note, word) {
				return fmt.Sprintf("it says %q", event.Note)
			}
		}
		return ""
	}}
}

// ranked says that Prometheus has the groups in this order, the lowest first, each clearly above the one before.
func ranked(ids ...int32) claim {
	return claim{
		text: fmt.Sprintf("Prometheus has the values in the order of groups %v, the lowest first", ids),
		missing: func(v *view) string {
			if v.noMetrics != nil {
				return v.noMetrics.Error()
			}
			before := -clearStep
			for _, id := range ids {
				value, known := v.values[id]
				if !known {
					return fmt.Sprintf("Prometheus has no value of group %d", id)
				}
				if value < before+clearStep || value == 0 {
					return fmt.Sprintf("Prometheus has %s", valuesText(v.values))
				}
				before = value
			}
			return ""
		},
	}
}

// steady says that a claim has held at every look for a while.
func steady(c claim, duration time.Duration) claim {
	var since time.Time
	return claim{
		text: fmt.Sprintf("%s, for %s", c.text, duration),
		missing: func(v *view) string {
			reason := c.missing(v)
			switch now := time.Now(); {
			case reason != "":
				since = time.Time{}
				return reason
			case since.IsZero():
				since = now
				return "it has only begun to hold"
			case now.Sub(since) < duration:
				return fmt.Sprintf("it has held for %s", now.Sub(since).Round(time.Millisecond))
			default:
				return ""
			}
		},
	}
}

// clearStep is the difference between two groups' values that no scrape at an odd moment turns around.
const clearStep = 2.5

func valuesText(values map[int32]float64) string {
	words := make([]string, 0, len(values))
	for _, id := range slices.Sorted(maps.Keys(values)) {
		words = append(words, fmt.Sprintf("%d=%.2f", id, values[id]))
	}
	return strings.Join(words, " ")
}

// same says that objects which were there in an earlier view are still the same ones.
func same(text string, before map[identity]types.UID) claim {
	return claim{text: text, missing: func(v *view) string {
		now := v.identities()
		for _, object := range sortedIdentities(before) {
			if now[object] != before[object] {
				return fmt.Sprintf("%s %s/%s is gone or another one", object.kind, object.namespace, object.name)
			}
		}
		return ""
	}}
}

// identities are the workloads, Services and pods of a view.
func (v *view) identities() map[identity]types.UID {
	out := map[identity]types.UID{}
	for i := range v.deployments {
		out[identity{"Deployment", v.deployments[i].Namespace, v.deployments[i].Name}] = v.deployments[i].UID
	}
	for i := range v.services {
		out[identity{"Service", v.services[i].Namespace, v.services[i].Name}] = v.services[i].UID
	}
	for i := range v.pods {
		out[identity{"Pod", v.pods[i].Namespace, v.pods[i].Name}] = v.pods[i].UID
	}
	return out
}

func sortedIdentities(m map[identity]types.UID) []identity {
	return slices.SortedFunc(maps.Keys(m), func(a, b identity) int {
		return strings.Compare(a.kind+" "+a.namespace+"/"+a.name, b.kind+" "+b.namespace+"/"+b.name)
	})
}

// recordsGone says that nothing of the control plane's own is left.
func recordsGone() claim {
	return claim{
		text: "the ResourceScalingGroup, its ControllerRevision and its ConfigMap are gone",
		missing: func(v *view) string {
			switch {
			case v.rsg != nil:
				return "the ResourceScalingGroup exists"
			case v.config != nil:
				return "ConfigMap " + v.config.Name + " exists"
			case len(v.revisions) > 0:
				return "ControllerRevision " + v.revisions[0].Name + " exists"
			default:
				return ""
			}
		},
	}
}

// noMetrics says that Prometheus does not answer.
func noMetrics() claim {
	return claim{text: "Prometheus does not answer", missing: func(v *view) string {
		if v.noMetrics == nil {
			return "it answers"
		}
		return ""
	}}
}

func groupsText(ids []int32) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		if id == unmanaged {
			return "the two workloads"
		}
		words[i] = strconv.Itoa(int(id))
	}
	if len(ids) == 1 {
		return "group " + words[0]
	}
	return "groups " + strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
