package desired

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/servingcomponent"
)

// Kinds of the objects that are made for a component.
var (
	DeploymentKind            = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	LeaderWorkerSetKind       = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
	ServiceKind               = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	HPAKind                   = schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	ScaledObjectKind          = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
	TriggerAuthenticationKind = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "TriggerAuthentication"}
)

// AnnotationApplied is the digest of what was applied. Server-side apply takes a field off that is no longer wanted, but whether the
// live object still has one that was wanted before cannot be seen from what is wanted now: the digest then differs.
const AnnotationApplied = "ome.io/applied"

// defaultPort is where a runner listens that names no port.
const defaultPort = 8080

// ServingComponent is what the objects of a component are made from.
type ServingComponent struct {
	// Service owns the objects.
	Service *v1beta1.InferenceService
	// Component is the component.
	Component servingcomponent.Component
	// Runtime is the name of the runtime, "" for none.
	Runtime string
	// Model is the model that is served, nil for none.
	Model *v1beta1.BaseModelSpec
}

// Name is the name of the component's Service and Deployment, and of its HorizontalPodAutoscaler.
func (c ServingComponent) Name() string { return c.Service.Name + "-" + c.Component.Name }

// Target is the workload whose replicas are the component's.
func (c ServingComponent) Target() v1beta1.ScaleTargetReference {
	kind, name := DeploymentKind, c.Name()
	if c.Component.MultiPod() {
		kind, name = LeaderWorkerSetKind, "lws-"+tail(c.Name(), 50)
	}
	return v1beta1.ScaleTargetReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name}
}

// tail is the end of a name, which tells components of one service apart.
func tail(name string, most int) string { return name[max(0, len(name)-most):] }

// labels are on all objects of the component, and on its workload those that describe the model too.
func (c ServingComponent) labels(described bool) map[string]any {
	labels := c.Component.Labels()
	labels[v1beta1.LabelInferenceService] = c.Service.Name
	labels[v1beta1.LabelComponent] = c.Component.Name
	labels[v1beta1.LabelBaseModelType] = "Serving"
	labels[v1beta1.LabelFineTunedServing] = "false"
	labels[v1beta1.LabelServingRuntime] = c.Runtime
	if ref := c.Service.Spec.Model; ref != nil {
		labels[v1beta1.LabelBaseModelName] = ref.Name
		if len(ref.FineTunedWeights) > 0 {
			labels[v1beta1.LabelFineTunedServing] = "true"
		}
	}
	if c.Model != nil && described {
		labels[v1beta1.LabelBaseModelSize] = c.Model.ModelParameterSize
		labels[v1beta1.LabelBaseModelVendor] = c.Model.Vendor
	}
	all := map[string]any{}
	for key, value := range labels {
		// A name or vendor that is no label stays in its own object.
		if value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			all[key] = value
		}
	}
	return all
}

// forAutoscaler reports whether an annotation is a word to an autoscaler, and none to pods: they must not be replaced for it.
func forAutoscaler(key string) bool {
	return strings.HasPrefix(key, "autoscaling.keda.sh/") || strings.HasPrefix(key, "scaledobject.keda.sh/") ||
		key == v1beta1.AnnotationAutoscalerClass || key == v1beta1.AnnotationTargetUtilization || key == v1beta1.AnnotationMetrics
}

// object begins an object of the component, which the service owns.
func (c ServingComponent) object(kind schema.GroupVersionKind, name string, annotations map[string]any) *unstructured.Unstructured {
	labels := c.labels(true)
	labels[labelManagedBy] = managedBy
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.GroupVersion().String(),
		"kind":       kind.Kind,
		"metadata": map[string]any{
			"name":        name,
			"namespace":   c.Service.Namespace,
			"labels":      labels,
			"annotations": annotations,
			"ownerReferences": []any{map[string]any{
				"apiVersion": v1beta1.GroupVersion.String(), "kind": "InferenceService",
				"name": c.Service.Name, "uid": string(c.Service.UID),
				// Without blockOwnerDeletion, for which some clusters ask for more rights: nobody waits for these.
				"controller": true,
			}},
		},
	}}
}

// applied puts the digest of an object on it, which ends the making of it.
func applied(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	annotations, _, _ := unstructured.NestedMap(u.Object, "metadata", "annotations")
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[AnnotationApplied] = fmt.Sprintf("%x", sha256.Sum256(text))[:16]
	return u, unstructured.SetNestedMap(u.Object, annotations, "metadata", "annotations")
}

// Workload is the Deployment or LeaderWorkerSet that runs the component's pods. It leaves out the number of replicas, which
// belongs to whoever scales.
func (c ServingComponent) Workload(pods servingcomponent.Pods) (*unstructured.Unstructured, error) {
	annotations := map[string]any{}
	for key, value := range c.Component.Annotations() {
		if !forAutoscaler(key) {
			annotations[key] = value
		}
	}
	template := func(spec *corev1.PodSpec, selected bool) (map[string]any, error) {
		fields, err := fieldsOf(spec)
		if err != nil {
			return nil, fmt.Errorf("encoding the pods of component %s: %w", c.Component.Name, err)
		}
		labels := c.labels(false)
		if selected {
			labels[v1beta1.LabelApp] = c.Name()
		}
		return map[string]any{"metadata": map[string]any{"labels": labels, "annotations": maps.Clone(annotations)}, "spec": fields}, nil
	}
	main, err := template(&pods.Main, true)
	if err != nil {
		return nil, err
	}
	target := c.Target()
	if pods.Worker == nil {
		strategy := map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(1)}}
		if s := c.Component.Strategy(); s != nil {
			if strategy, err = fieldsOf(s); err != nil {
				return nil, fmt.Errorf("encoding the strategy of component %s: %w", c.Component.Name, err)
			}
		}
		u := c.object(DeploymentKind, target.Name, annotations)
		u.Object["spec"] = map[string]any{
			"selector":                map[string]any{"matchLabels": map[string]any{v1beta1.LabelApp: c.Name()}},
			"strategy":                strategy,
			"progressDeadlineSeconds": int64(600),
			"template":                main,
		}
		return applied(u)
	}
	worker, err := template(pods.Worker, false)
	if err != nil {
		return nil, err
	}
	u := c.object(LeaderWorkerSetKind, target.Name, annotations)
	u.Object["spec"] = map[string]any{
		"startupPolicy": "LeaderCreated",
		"networkConfig": map[string]any{"subdomainPolicy": "Shared"},
		"rolloutStrategy": map[string]any{
			"type":                       "RollingUpdate",
			"rollingUpdateConfiguration": map[string]any{"maxUnavailable": int64(1), "maxSurge": int64(1)},
		},
		"leaderWorkerTemplate": map[string]any{
			"size":           int64(pods.Workers) + 1,
			"restartPolicy":  "RecreateGroupOnPodRestart",
			"leaderTemplate": main,
			"workerTemplate": worker,
		},
	}
	return applied(u)
}

func fieldsOf(value any) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(value)
}

// ports are the ports of the component's Service: those of its runner.
func ports(pods servingcomponent.Pods) []corev1.ServicePort {
	var all []corev1.ServicePort
	for _, p := range pods.Main.Containers[0].Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		name := p.Name
		if name == "" {
			name = fmt.Sprintf("port-%d", p.ContainerPort)
			if protocol != corev1.ProtocolTCP {
				name += "-" + strings.ToLower(string(protocol))
			}
		}
		all = append(all, corev1.ServicePort{Name: name, Port: p.ContainerPort, Protocol: protocol})
	}
	if len(all) == 0 {
		all = []corev1.ServicePort{{Name: "http", Port: defaultPort, Protocol: corev1.ProtocolTCP}}
	}
	return all
}

// ClusterService leads to the pods of the component, or to the leaders of its groups.
func (c ServingComponent) ClusterService(pods servingcomponent.Pods) (*unstructured.Unstructured, error) {
	var all []any
	for _, p := range ports(pods) {
		all = append(all, map[string]any{"name": p.Name, "port": int64(p.Port), "targetPort": int64(p.Port), "protocol": string(p.Protocol)})
	}
	u := c.object(ServiceKind, c.Name(), map[string]any{})
	u.Object["spec"] = map[string]any{"selector": map[string]any{v1beta1.LabelApp: c.Name()}, "ports": all}
	return applied(u)
}

// URL is the address of the component's Service in the cluster.
func (c ServingComponent) URL(pods servingcomponent.Pods) string {
	return fmt.Sprintf("http://%s.%s.svc:%d", c.Name(), c.Service.Namespace, ports(pods)[0].Port)
}
