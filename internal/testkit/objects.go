package testkit

import (
	"cmp"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pd-orchestrator/pd-orchestrator/api/autoscaling/v1alpha1"
)

// Deployment builds a Deployment.
type Deployment struct{ obj appsv1.Deployment }

// MakeDeployment returns a Deployment of one replica whose pods carry app=<name> and serve metrics on port 8000.
func MakeDeployment(namespace, name string) *Deployment {
	labels := map[string]string{"app": name}
	one := int32(1)
	return &Deployment{appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: maps.Clone(labels)},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(labels)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64),
					Containers: []corev1.Container{{
						Name:  "engine",
						Image: "example.org/engine:1",
						Args:  []string{"--role=" + name},
						Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8000}},
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							// A quantity that a careless round trip would rewrite, which would restart the pods.
							corev1.ResourceCPU: resource.MustParse("0.2"),
						}},
					}},
				},
			},
		},
	}}
}

// Replicas sets spec.replicas.
func (d *Deployment) Replicas(n int32) *Deployment {
	d.obj.Spec.Replicas = &n
	return d
}

// Label sets a label of the Deployment itself.
func (d *Deployment) Label(key, value string) *Deployment {
	d.obj.Labels[key] = value
	return d
}

// PodLabel sets a label of its pods.
func (d *Deployment) PodLabel(key, value string) *Deployment {
	d.obj.Spec.Template.Labels[key] = value
	return d
}

// Annotation sets an annotation of the Deployment itself.
func (d *Deployment) Annotation(key, value string) *Deployment {
	if d.obj.Annotations == nil {
		d.obj.Annotations = map[string]string{}
	}
	d.obj.Annotations[key] = value
	return d
}

// Obj returns a copy of what was built.
func (d *Deployment) Obj() *appsv1.Deployment { return d.obj.DeepCopy() }

// MakeService returns a Service of one port that selects the pods of MakeDeployment with the name.
func MakeService(namespace, name, app string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 8000, TargetPort: intstr.FromInt32(8000)}},
		},
	}
}

// RSG builds a ResourceScalingGroup.
type RSG struct {
	obj v1alpha1.ResourceScalingGroup
}

// MakeRSG returns a ResourceScalingGroup that replicates no targets yet.
func MakeRSG(namespace, name string) *RSG {
	return &RSG{v1alpha1.ResourceScalingGroup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ResourceScalingGroup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ResourceScalingGroupSpec{
			ScalingStrategy: v1alpha1.ScalingStrategy{Type: v1alpha1.GroupReplication, GroupConfig: &v1alpha1.GroupConfig{}},
		},
	}}
}

// Target adds a Deployment as a target.
func (r *RSG) Target(name, namespace, deployment string) *RSG {
	return r.TargetOfKind(name, "apps/v1", "Deployment", namespace, deployment)
}

// TargetOfKind adds a workload of any kind as a target.
func (r *RSG) TargetOfKind(name, apiVersion, kind, namespace, workload string) *RSG {
	r.obj.Spec.TargetResources = append(r.obj.Spec.TargetResources, v1alpha1.TargetResource{
		Name:        name,
		ResourceRef: v1alpha1.ResourceRef{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: workload},
	})
	return r
}

// GroupName sets groupConfig.groupName.
func (r *RSG) GroupName(name string) *RSG {
	r.obj.Spec.ScalingStrategy.GroupConfig.GroupName = name
	return r
}

// Replicas sets the number of groups.
func (r *RSG) Replicas(n int32) *RSG {
	r.obj.Spec.ScalingStrategy.GroupConfig.Replicas = &n
	return r
}

// Metric makes a Gauge rank the groups.
func (r *RSG) Metric(expr string) *RSG {
	r.scaleDown().Metric = &v1alpha1.ScaleDownMetric{Expr: expr, Type: v1alpha1.MetricGauge, Aggregator: v1alpha1.AggregatorAvg}
	return r
}

// Order sets scaleDown.order.
func (r *RSG) Order(order v1alpha1.Order) *RSG {
	r.scaleDown().Order = order
	return r
}

func (r *RSG) scaleDown() *v1alpha1.ScaleDown {
	c := r.obj.Spec.ScalingStrategy.GroupConfig
	c.ScaleDown = cmp.Or(c.ScaleDown, &v1alpha1.ScaleDown{})
	return c.ScaleDown
}

// Paused sets spec.paused.
func (r *RSG) Paused(paused bool) *RSG {
	r.obj.Spec.Paused = &paused
	return r
}

// Obj returns a copy of what was built.
func (r *RSG) Obj() *v1alpha1.ResourceScalingGroup { return r.obj.DeepCopy() }
