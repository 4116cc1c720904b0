// Package servingcomponent answers what the components of an InferenceService are: their own settings laid over those of the
// runtime, the bounds in effect, and the pods that they run.
package servingcomponent

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// Names of the components, in the order in which they are listed everywhere.
const (
	Engine  = "engine"
	Decoder = "decoder"
	Router  = "router"
)

// Component is one component of a service.
type Component struct {
	// Name is engine, decoder or router.
	Name string
	// Own are the settings that the service has for it.
	Own v1beta1.ComponentExtensionSpec
	// Template are the settings that the runtime has for it, nil where there is none.
	Template *v1beta1.ComponentExtensionSpec
	// own and template are the parts that pods are made of.
	own, template parts
}

// parts is what an engine, a decoder or a router are made of.
type parts struct {
	path   string
	pod    pod
	leader *pod
	worker *pod
	size   *int32
	config map[string]string
}

// Of returns the components that a service names, laid over the templates of a runtime, which may be nil.
func Of(service v1beta1.InferenceServiceSpec, runtime *v1beta1.ServingRuntimeSpec) []Component {
	if runtime == nil {
		runtime = &v1beta1.ServingRuntimeSpec{}
	}
	var all []Component
	for _, c := range []struct {
		name          string
		own, template *v1beta1.ComponentSpec
		templatePath  string
	}{
		{Engine, service.Engine, runtime.EngineConfig, "engineConfig"},
		{Decoder, service.Decoder, runtime.DecoderConfig, "decoderConfig"},
	} {
		if c.own == nil {
			continue
		}
		component := Component{Name: c.name, Own: c.own.ComponentExtensionSpec, own: partsOf(c.own, "spec."+c.name)}
		if c.template != nil {
			component.Template, component.template = &c.template.ComponentExtensionSpec, partsOf(c.template, c.templatePath)
		}
		all = append(all, component)
	}
	if own := service.Router; own != nil {
		component := Component{Name: Router, Own: own.ComponentExtensionSpec, own: routerParts(own, "spec.router")}
		if t := runtime.RouterConfig; t != nil {
			component.Template, component.template = &t.ComponentExtensionSpec, routerParts(t, "routerConfig")
		}
		all = append(all, component)
	}
	return all
}

func partsOf(c *v1beta1.ComponentSpec, path string) parts {
	p := parts{path: path, pod: pod{path, c.PodFields, c.Runner}}
	if l := c.Leader; l != nil {
		p.leader = &pod{path + ".leader", l.PodFields, l.Runner}
	}
	if w := c.Worker; w != nil {
		p.worker, p.size = &pod{path + ".worker", w.PodFields, w.Runner}, w.Size
	}
	return p
}

func routerParts(r *v1beta1.RouterSpec, path string) parts {
	return parts{path: path, pod: pod{path, r.PodFields, r.Runner}, config: r.Config}
}

// Bounds returns the least and the greatest number of replicas: those of the service, or else of the runtime, or else 1, and
// 3 for engine and decoder and 2 for a router. Where the two contradict each other, the one that the service has stands, and
// of two that it has not the minimum.
func (c Component) Bounds() (least, most int32) {
	least, most = 1, 3
	if c.Name == Router {
		most = 2
	}
	if t := c.Template; t != nil {
		if t.MinReplicas != nil {
			least = *t.MinReplicas
		}
		if t.MaxReplicas > 0 {
			most = t.MaxReplicas
		}
	}
	if c.Own.MinReplicas != nil {
		least = *c.Own.MinReplicas
	}
	if c.Own.MaxReplicas > 0 {
		most = c.Own.MaxReplicas
		if c.Own.MinReplicas == nil {
			least = min(least, most)
		}
	}
	return least, max(least, most, 1)
}

// Labels returns the labels that service and runtime give the component.
func (c Component) Labels() map[string]string {
	return c.laid(func(s v1beta1.ComponentExtensionSpec) map[string]string { return s.Labels })
}

// Annotations returns the annotations that service and runtime give the component.
func (c Component) Annotations() map[string]string {
	return c.laid(func(s v1beta1.ComponentExtensionSpec) map[string]string { return s.Annotations })
}

// laid lays what the service has over what the runtime has.
func (c Component) laid(of func(v1beta1.ComponentExtensionSpec) map[string]string) map[string]string {
	all := map[string]string{}
	if c.Template != nil {
		maps.Copy(all, of(*c.Template))
	}
	maps.Copy(all, of(c.Own))
	return all
}

// Strategy is how the pods of a Deployment are replaced, nil where neither service nor runtime say.
func (c Component) Strategy() *appsv1.DeploymentStrategy {
	if c.Own.DeploymentStrategy == nil && c.Template != nil {
		return c.Template.DeploymentStrategy
	}
	return c.Own.DeploymentStrategy
}

// MultiPod reports whether each replica is a group of a leader and workers.
func (c Component) MultiPod() bool {
	return (c.own.leader != nil || c.template.leader != nil) && (c.own.worker != nil || c.template.worker != nil)
}

// Pods are the pods of a component.
type Pods struct {
	// Main is the pod of each replica, or the leader of each group.
	Main corev1.PodSpec
	// Worker is the pod of each worker, nil for a component without.
	Worker *corev1.PodSpec
	// Workers is how many workers a group has.
	Workers int32
}

// Pods returns the pods that the component runs. The error names the field that keeps them from being made.
func (c Component) Pods() (Pods, error) {
	config := map[string]string{}
	maps.Copy(config, c.template.config)
	maps.Copy(config, c.own.config)
	single := layered{c.own.pod, c.template.pod}
	if !c.MultiPod() {
		if c.own.leader != nil || c.own.worker != nil || c.template.leader != nil || c.template.worker != nil {
			return Pods{}, fmt.Errorf("component %s has one of leader and worker only: they go together", c.Name)
		}
		main, err := single.spec(config, nil)
		return Pods{Main: main}, err
	}
	runner, err := single.runner()
	if err != nil {
		return Pods{}, err
	}
	pods := Pods{Worker: &corev1.PodSpec{}, Workers: 1}
	for _, size := range []*int32{c.template.size, c.own.size} {
		if size != nil {
			pods.Workers = *size
		}
	}
	if pods.Workers < 1 {
		return Pods{}, fmt.Errorf("component %s has %d workers: worker.size must be 1 or more", c.Name, pods.Workers)
	}
	if pods.Main, err = layer(c.own.leader, c.template.leader).spec(nil, runner); err != nil {
		return Pods{}, err
	}
	*pods.Worker, err = layer(c.own.worker, c.template.worker).spec(nil, runner)
	return pods, err
}

// Check reads the pod fields of the service's own part of the component strictly, and returns an error for each pod that
// has fields which no pod has.
func (c Component) Check() []error {
	var errs []error
	for _, p := range []*pod{&c.own.pod, c.own.leader, c.own.worker} {
		if p == nil {
			continue
		}
		if _, err := p.podFields(); err != nil {
			errs = append(errs, err)
		}
		if _, err := p.container(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
