package clone

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Snapshot is what clones are made from: the targets and the Services that select their pods, as they were when it was
// taken, reduced to what a clone keeps. It is stored in a ControllerRevision.
type Snapshot struct {
	// Targets in the order of spec.targetResources.
	Targets []TargetSnapshot `json:"targets"`
	// Services by name.
	Services []ServiceSnapshot `json:"services,omitempty"`
}

// TargetSnapshot is the reduced form of one target's workload.
type TargetSnapshot struct {
	// Name of the target.
	Name string `json:"name"`
	// Workload has apiVersion, kind, name, labels, annotations and spec without replicas.
	Workload *unstructured.Unstructured `json:"workload"`
}

// ServiceSnapshot is the reduced form of one Service.
type ServiceSnapshot struct {
	// Name and Namespace of the original.
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Labels and Annotations that a clone keeps.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Spec without anything that is allocated to one Service alone.
	Spec corev1.ServiceSpec `json:"spec"`
}

// Base is one target as it stands in the cluster.
type Base struct {
	// Name of the target.
	Name string
	// Kind of the workload.
	Kind Kind
	// Workload as read.
	Workload *unstructured.Unstructured
}

// TakeSnapshot reduces the targets and those of the given Services that select pods of a target. It also returns, per
// Service, the settings that its clones cannot have, for telling the user.
func TakeSnapshot(bases []Base, services []corev1.Service) (Snapshot, map[string][]string) {
	var s Snapshot
	dropped := map[string][]string{}
	for _, b := range bases {
		s.Targets = append(s.Targets, TargetSnapshot{Name: b.Name, Workload: reduceWorkload(b.Kind, b.Workload)})
	}
	services = slices.Clone(services)
	slices.SortFunc(services, func(a, b corev1.Service) int { return strings.Compare(a.Name, b.Name) })
	for i := range services {
		if !selectsAny(&services[i], bases) {
			continue
		}
		reduced, lost := reduceService(&services[i])
		s.Services = append(s.Services, reduced)
		if len(lost) > 0 {
			dropped[services[i].Name] = lost
		}
	}
	return s, dropped
}

// selectsAny reports whether the Service selects the pods of one of the targets. A Service without a selector, or one
// that is only a DNS alias, selects nothing.
func selectsAny(svc *corev1.Service, bases []Base) bool {
	if len(svc.Spec.Selector) == 0 || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return false
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	for _, b := range bases {
		if b.Workload.GetNamespace() != svc.Namespace {
			continue
		}
		for _, set := range b.Kind.TemplateLabels(b.Workload) {
			if selector.Matches(labels.Set(set)) {
				return true
			}
		}
	}
	return false
}

// Encode returns the stored form of the snapshot: canonical JSON.
func (s Snapshot) Encode() ([]byte, error) { return json.Marshal(s) }

// DecodeSnapshot reads what Encode wrote and checks that it holds exactly the named targets.
func DecodeSnapshot(data []byte, targets []string) (Snapshot, error) {
	var s Snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return Snapshot{}, fmt.Errorf("reading snapshot: %w", err)
	}
	got := make([]string, len(s.Targets))
	for i, t := range s.Targets {
		if t.Workload == nil {
			return Snapshot{}, fmt.Errorf("snapshot has no workload for target %q", t.Name)
		}
		got[i] = t.Name
	}
	if !slices.Equal(got, targets) {
		return Snapshot{}, fmt.Errorf("snapshot is of targets [%s], the spec has [%s]: delete the ControllerRevision and the replica ConfigMap to take a new one",
			strings.Join(got, " "), strings.Join(targets, " "))
	}
	return s, nil
}

// Hash returns ten hex digits that name a snapshot's content.
func Hash(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:5])
}

// Drifted reports whether the workload, reduced, differs from what the snapshot holds for the target.
func (t TargetSnapshot) Drifted(kind Kind, workload *unstructured.Unstructured) bool {
	now, errNow := json.Marshal(reduceWorkload(kind, workload))
	then, errThen := json.Marshal(t.Workload)
	return errNow != nil || errThen != nil || string(now) != string(then)
}

func reduceWorkload(kind Kind, w *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(kind.GroupVersionKind)
	out.SetName(w.GetName())
	out.SetLabels(keptLabels(w.GetLabels()))
	out.SetAnnotations(keptAnnotations(w.GetAnnotations()))
	spec, _ := w.Object["spec"].(map[string]any)
	kept := map[string]any{}
	for _, field := range kind.specFields {
		if v, ok := spec[field]; ok {
			kept[field] = runtime.DeepCopyJSONValue(v)
		}
	}
	out.Object["spec"] = kept
	return out
}

func reduceService(svc *corev1.Service) (ServiceSnapshot, []string) {
	from := svc.Spec
	spec := corev1.ServiceSpec{
		Type:                     from.Type,
		Selector:                 from.Selector,
		SessionAffinity:          from.SessionAffinity,
		SessionAffinityConfig:    from.SessionAffinityConfig,
		PublishNotReadyAddresses: from.PublishNotReadyAddresses,
		InternalTrafficPolicy:    from.InternalTrafficPolicy,
		TrafficDistribution:      from.TrafficDistribution,
		IPFamilies:               from.IPFamilies,
		IPFamilyPolicy:           from.IPFamilyPolicy,
	}
	if from.ClusterIP == corev1.ClusterIPNone {
		spec.ClusterIP = corev1.ClusterIPNone
	}
	var dropped []string
	for _, p := range from.Ports {
		p.NodePort = 0
		spec.Ports = append(spec.Ports, p)
	}
	switch from.Type {
	case corev1.ServiceTypeLoadBalancer:
		spec.LoadBalancerClass = from.LoadBalancerClass
		spec.LoadBalancerSourceRanges = from.LoadBalancerSourceRanges
		spec.AllocateLoadBalancerNodePorts = from.AllocateLoadBalancerNodePorts
		spec.ExternalTrafficPolicy = from.ExternalTrafficPolicy
	case corev1.ServiceTypeNodePort:
		spec.ExternalTrafficPolicy = from.ExternalTrafficPolicy
	default: // Traffic from outside does not reach the others.
	}
	if len(from.ExternalIPs) > 0 {
		dropped = append(dropped, "externalIPs")
	}
	if from.LoadBalancerIP != "" {
		dropped = append(dropped, "loadBalancerIP")
	}
	return ServiceSnapshot{
		Name:        svc.Name,
		Namespace:   svc.Namespace,
		Labels:      keptLabels(svc.Labels),
		Annotations: keptAnnotations(svc.Annotations),
		Spec:        *spec.DeepCopy(),
	}, dropped
}

// Group says which group to build from a snapshot.
type Group struct {
	// Owner of the group.
	Owner Owner
	// ID of the group, from 1.
	ID int32
	// Kinds and Replicas of the targets, in the order of the snapshot.
	Kinds    []Kind
	Replicas []int32
	// Revision is the name of the snapshot.
	Revision string
	// RewriteServiceReferences makes hosts in environment values and arguments name the group's own Services.
	RewriteServiceReferences bool
}

// Build makes the objects of a group: the Services that it has to itself, then its workloads. A missing part of the
// snapshot is an error, since a copy without a selector of its own would claim the original's pods.
func (s Snapshot) Build(g Group) ([]*corev1.Service, []*unstructured.Unstructured, error) {
	services := make([]*corev1.Service, len(s.Services))
	var hosts []host
	for i, svc := range s.Services {
		services[i] = svc.build(g)
		hosts = append(hosts, host{name: svc.Name, namespace: svc.Namespace, newName: services[i].Name, newNamespace: g.Owner.Namespace})
	}
	workloads := make([]*unstructured.Unstructured, len(s.Targets))
	for i, t := range s.Targets {
		w, err := t.build(g, g.Kinds[i], g.Replicas[i], hosts)
		if err != nil {
			return nil, nil, fmt.Errorf("building the copy of target %q: %w", t.Name, err)
		}
		workloads[i] = w
	}
	return services, workloads, nil
}

func (t TargetSnapshot) build(g Group, kind Kind, replicas int32, hosts []host) (*unstructured.Unstructured, error) {
	out := t.Workload.DeepCopy()
	out.SetNamespace(g.Owner.Namespace)
	out.SetName(g.Owner.WorkloadName(t.Workload.GetName(), g.ID))
	out.SetLabels(merged(out.GetLabels(), g.Owner.Labels(g.ID)))
	var services []string
	for _, h := range hosts {
		services = append(services, h.newName)
	}
	out.SetAnnotations(merged(out.GetAnnotations(), map[string]string{
		v1alpha1.AnnotationRevision: g.Revision,
		v1alpha1.AnnotationServices: strings.Join(services, ","),
	}))
	if err := unstructured.SetNestedField(out.Object, int64(replicas), "spec", "replicas"); err != nil {
		return nil, fmt.Errorf("setting replicas: %w", err)
	}
	if kind.selector != nil {
		if err := addStrings(out.Object, g.Owner.selectorLabels(g.ID), append(slices.Clone(kind.selector), "matchLabels")...); err != nil {
			return nil, fmt.Errorf("setting the selector: %w", err)
		}
	}
	if kind.service != nil {
		name, _, _ := unstructured.NestedString(out.Object, kind.service...)
		for _, h := range hosts {
			if name == h.name {
				if err := unstructured.SetNestedField(out.Object, h.newName, kind.service...); err != nil {
					return nil, fmt.Errorf("naming the Service: %w", err)
				}
			}
		}
	}
	if !g.RewriteServiceReferences {
		hosts = nil
	}
	found := false
	for _, path := range kind.templates {
		if _, ok, err := unstructured.NestedMap(out.Object, path...); err != nil || !ok {
			continue
		}
		found = true
		if err := addStrings(out.Object, g.Owner.Labels(g.ID), append(slices.Clone(path), "metadata", "labels")...); err != nil {
			return nil, fmt.Errorf("labelling the pods: %w", err)
		}
		if err := wire(out.Object, g.Owner, g.ID, hosts, append(slices.Clone(path), "spec")...); err != nil {
			return nil, fmt.Errorf("setting the environment: %w", err)
		}
	}
	if !found {
		return nil, errors.New("the snapshot has no pod template")
	}
	return out, nil
}

// ServicesOf returns the names of the Services that were made with a clone's workload, and whether it says so.
func ServicesOf(workload *unstructured.Unstructured) ([]string, bool) {
	text, known := workload.GetAnnotations()[v1alpha1.AnnotationServices]
	if text == "" {
		return nil, known
	}
	return strings.Split(text, ","), known
}

func (s ServiceSnapshot) build(g Group) *corev1.Service {
	svc := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   g.Owner.Namespace,
			Name:        g.Owner.ServiceName(s.Name, g.ID),
			Labels:      merged(s.Labels, g.Owner.Labels(g.ID)),
			Annotations: merged(s.Annotations, map[string]string{v1alpha1.AnnotationRevision: g.Revision}),
		},
		Spec: *s.Spec.DeepCopy(),
	}
	svc.Spec.Selector = merged(svc.Spec.Selector, g.Owner.selectorLabels(g.ID))
	return svc
}
