package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labels and annotations that the product puts on objects of a group.
const (
	labelName          = "rsg.io/name"
	labelGroupID       = "rsg.io/group-id"
	annotationBaseline = "rsg.io/baseline-replicas"
)

// labelComponent is the workloads' own label that tells prefill from decode.
const labelComponent = "component"

// unmanaged stands for the id of objects that no ResourceScalingGroup has taken.
const unmanaged int32 = -1

// scalingGroup is what the story reads of a ResourceScalingGroup, in the form that it has on the wire.
type scalingGroup struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Status struct {
		Conditions         []metav1.Condition `json:"conditions"`
		ObservedGeneration int64              `json:"observedGeneration"`
		Revision           string             `json:"revision"`
		Groups             []groupPhase       `json:"groups"`
		LastScaleDown      *scaleDown         `json:"lastScaleDown"`
	} `json:"status"`
}

// groupPhase is where a group stands.
type groupPhase struct {
	ID    int32  `json:"id"`
	Phase string `json:"phase"`
}

// scaleDown is the record of a choice of groups to remove.
type scaleDown struct {
	Time   metav1.Time `json:"time"`
	Level  string      `json:"level"`
	Order  string      `json:"order"`
	Reason string      `json:"reason"`
	Values []struct {
		ID    int32  `json:"id"`
		Value string `json:"value"`
	} `json:"values"`
	Victims []int32 `json:"victims"`
	Pending []int32 `json:"pending"`
}

// view is what the cluster and Prometheus hold at one moment.
type view struct {
	// rsg and scale are nil while there is no ResourceScalingGroup.
	rsg         *scalingGroup
	scale       *autoscalingv1.Scale
	deployments []appsv1.Deployment
	services    []corev1.Service
	pods        []corev1.Pod
	endpoints   []discoveryv1.EndpointSlice
	// config is nil while there is no replica ConfigMap.
	config    *corev1.ConfigMap
	revisions []appsv1.ControllerRevision
	events    []eventsv1.Event
	// values are Prometheus' averages by group, scraped the pods behind them with the id that Prometheus has for each.
	values  map[int32]float64
	scraped map[podName]int32
	// noMetrics is why Prometheus did not answer.
	noMetrics error
}

// podName names a pod.
type podName struct{ namespace, name string }

// group is all that belongs to one group. targets are by component.
type group struct {
	id       int32
	targets  map[string]*appsv1.Deployment
	services []corev1.Service
	pods     []corev1.Pod
}

// look reads everything that the story is about.
func (p *player) look(ctx context.Context) (*view, error) {
	v := &view{}
	object, err := p.dynamic.Resource(scalingGroups).Namespace(scalingNamespace).Get(ctx, rsgName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("reading the ResourceScalingGroup: %w", err)
	default:
		v.rsg = &scalingGroup{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, v.rsg); err != nil {
			return nil, fmt.Errorf("reading the ResourceScalingGroup: %w", err)
		}
		if v.scale, err = p.readScale(ctx); err != nil {
			return nil, err
		}
	}
	for _, namespace := range []string{userNamespace, scalingNamespace} {
		if err := p.lookInto(ctx, namespace, v); err != nil {
			return nil, err
		}
	}
	if err := p.lookAtRecords(ctx, v); err != nil {
		return nil, err
	}
	p.lookAtMetrics(ctx, v)
	return v, nil
}

func (p *player) lookInto(ctx context.Context, namespace string, v *view) error {
	deployments, err := p.kube.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	services, err := p.kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	pods, err := p.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	endpoints, err := p.kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing EndpointSlices: %w", err)
	}
	v.deployments = append(v.deployments, deployments.Items...)
	v.services = append(v.services, services.Items...)
	v.pods = append(v.pods, pods.Items...)
	v.endpoints = append(v.endpoints, endpoints.Items...)
	return nil
}

func (p *player) lookAtRecords(ctx context.Context, v *view) error {
	config, err := p.kube.CoreV1().ConfigMaps(scalingNamespace).Get(ctx, replicaConfig, metav1.GetOptions{})
	switch {
	case err == nil:
		v.config = config
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the replica ConfigMap: %w", err)
	}
	revisions, err := p.kube.AppsV1().ControllerRevisions(scalingNamespace).List(ctx, metav1.ListOptions{LabelSelector: labelName + "=" + rsgName})
	if err != nil {
		return fmt.Errorf("listing ControllerRevisions: %w", err)
	}
	v.revisions = revisions.Items
	events, err := p.kube.EventsV1().Events(scalingNamespace).List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=" + rsgName})
	if err != nil {
		return fmt.Errorf("listing events: %w", err)
	}
	v.events = events.Items
	return nil
}

// lookAtMetrics never fails: that Prometheus does not answer is part of the story.
func (p *player) lookAtMetrics(ctx context.Context, v *view) {
	averages, err := p.prometheus.vector(ctx, averageByGroup, time.Time{})
	if err != nil {
		v.noMetrics = err
		return
	}
	series, err := p.prometheus.vector(ctx, selection, time.Time{})
	if err != nil {
		v.noMetrics = err
		return
	}
	v.values, v.scraped = map[int32]float64{}, map[podName]int32{}
	for _, s := range averages {
		if id, known := groupID(s.labels["rsg_name"], s.labels["group_id"]); known {
			v.values[id] = s.value
		}
	}
	for _, s := range series {
		if id, known := groupID(s.labels["rsg_name"], s.labels["group_id"]); known {
			v.scraped[podName{s.labels["namespace"], s.labels["pod"]}] = id
		}
	}
}

func (p *player) readScale(ctx context.Context) (*autoscalingv1.Scale, error) {
	object, err := p.dynamic.Resource(scalingGroups).Namespace(scalingNamespace).Get(ctx, rsgName, metav1.GetOptions{}, "scale")
	if err != nil {
		return nil, fmt.Errorf("reading the scale subresource: %w", err)
	}
	scale := &autoscalingv1.Scale{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, scale); err != nil {
		return nil, fmt.Errorf("reading the scale subresource: %w", err)
	}
	return scale, nil
}

// groupID reads the id of a group from a name and an id in words, as labels and series have them.
func groupID(name, text string) (id int32, known bool) {
	switch name {
	case "":
		return unmanaged, true
	case rsgName:
		id, err := strconv.ParseInt(text, 10, 32)
		return int32(id), err == nil
	default:
		return 0, false
	}
}

// groups returns all groups of which anything exists, by id.
func (v *view) groups() []group {
	byID := map[int32]*group{}
	of := func(marks map[string]string) *group {
		id, known := groupID(marks[labelName], marks[labelGroupID])
		if !known {
			// Objects of somebody else would be an error of the product: they show as a row that no claim expects.
			id = unmanaged
		}
		if byID[id] == nil {
			byID[id] = &group{id: id, targets: map[string]*appsv1.Deployment{}}
		}
		return byID[id]
	}
	for i := range v.deployments {
		d := &v.deployments[i]
		of(d.Labels).targets[d.Labels[labelComponent]] = d
	}
	for _, service := range v.services {
		g := of(v.labelsFor(service))
		g.services = append(g.services, service)
	}
	for _, pod := range v.pods {
		g := of(pod.Labels)
		g.pods = append(g.pods, pod)
	}
	groups := make([]group, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		groups = append(groups, *byID[id])
	}
	return groups
}

// labelsFor returns the labels that say which group a Service is of: its own, or where it has none those of a workload
// that it selects. The Services of group 0 are the user's.
func (v *view) labelsFor(service corev1.Service) map[string]string {
	if _, marked := service.Labels[labelName]; marked || len(service.Spec.Selector) == 0 {
		return service.Labels
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for i := range v.deployments {
		d := &v.deployments[i]
		if d.Namespace == service.Namespace && selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			return d.Labels
		}
	}
	return service.Labels
}

// group returns one group; without anything of it the group is empty.
func (v *view) group(id int32) group {
	for _, g := range v.groups() {
		if g.id == id {
			return g
		}
	}
	return group{id: id}
}

// phase is what the status says of a group, "" where it says nothing.
func (v *view) phase(id int32) string {
	if v.rsg != nil {
		for _, g := range v.rsg.Status.Groups {
			if g.ID == id {
				return g.Phase
			}
		}
	}
	return ""
}

// condition returns a condition of the ResourceScalingGroup, empty where there is none.
func (v *view) condition(kind string) metav1.Condition {
	if v.rsg != nil {
		for _, c := range v.rsg.Status.Conditions {
			if c.Type == kind {
				return c
			}
		}
	}
	return metav1.Condition{}
}

// event returns the latest event of a reason that was written at or after a moment.
func (v *view) event(reason string, since time.Time) (eventsv1.Event, bool) {
	var latest eventsv1.Event
	found := false
	for _, e := range v.events {
		if e.Reason == reason && !e.EventTime.Time.Before(since) && (!found || e.EventTime.After(latest.EventTime.Time)) {
			latest, found = e, true
		}
	}
	return latest, found
}

// table is the header and the rows of the table of groups: those that exist and those that the last scale-down removed.
func (v *view) table() ([]string, [][]string) {
	byID := map[int32]group{}
	if v.rsg != nil && v.rsg.Status.LastScaleDown != nil {
		for _, id := range v.rsg.Status.LastScaleDown.Victims {
			byID[id] = group{id: id}
		}
	}
	for _, g := range v.groups() {
		byID[g.id] = g
	}
	var rows [][]string
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		g := byID[id]
		phase := v.phase(id)
		if !g.exists() {
			phase = "gone"
		}
		rows = append(rows, []string{
			idText(id), phase, readyText(g.targets[prefill]), readyText(g.targets[decode]),
			strconv.Itoa(len(g.pods)), strconv.Itoa(len(g.services)), v.valueText(g), v.markText(g),
		})
	}
	return []string{"GROUP", "PHASE", "PREFILL", "DECODE", "PODS", "SERVICES", "RUNNING", "SCALE-DOWN"}, rows
}

func (g group) exists() bool { return len(g.targets)+len(g.services)+len(g.pods) > 0 }

func idText(id int32) string {
	if id == unmanaged {
		return ""
	}
	return strconv.Itoa(int(id))
}

// readyText is available/desired, as kubectl shows it.
func readyText(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", d.Status.AvailableReplicas, desiredOf(d))
}

func desiredOf(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func (v *view) valueText(g group) string {
	value, known := v.values[g.id]
	switch {
	case v.noMetrics != nil:
		return "no answer"
	case !known || len(g.pods) == 0:
		// The last value of a pod outlives it by a few scrapes.
		return ""
	default:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
}

// markText says what the last scale-down has to do with a group.
func (v *view) markText(g group) string {
	if v.rsg == nil || v.rsg.Status.LastScaleDown == nil {
		return ""
	}
	record := v.rsg.Status.LastScaleDown
	switch {
	case slices.Contains(record.Pending, g.id):
		return "victim, by " + record.Level
	case slices.Contains(record.Victims, g.id) && (!g.exists() || v.phase(g.id) == phaseAtZero):
		return "removed, by " + record.Level
	default:
		return ""
	}
}

// scalingGroups is the resource that has no typed client here.
var scalingGroups = schema.GroupVersionResource{Group: "autoscaling.openfuyao.com", Version: "v1alpha1", Resource: "resourcescalinggroups"}
