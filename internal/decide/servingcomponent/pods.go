package servingcomponent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
)

// runnerName is the name of a runner that has none.
const runnerName = "ome-container"

// pod is one pod as it is written: fields of a pod spec, and the container that serves.
type pod struct {
	path   string
	fields v1beta1.PodFields
	runner *runtime.RawExtension
}

// podFields returns the fields of the pod spec in JSON. The error names those that no pod spec has.
func (p pod) podFields() ([]byte, error) {
	if len(p.fields) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(p.fields)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.path, err)
	}
	return text, strictly(p.path, text, &corev1.PodSpec{})
}

// container returns the runner in JSON, nil where there is none. The error names the fields that no container has.
func (p pod) container() ([]byte, error) {
	if p.runner == nil || len(p.runner.Raw) == 0 {
		return nil, nil
	}
	return p.runner.Raw, strictly(p.path+".runner", p.runner.Raw, &corev1.Container{})
}

// strictly decodes a text, of which nothing may be left over.
func strictly(path string, text []byte, into any) error {
	var fields map[string]any
	err := utiljson.Unmarshal(text, &fields)
	if err == nil {
		// Its messages say more of a value of the wrong type than those of the next.
		err = utiljson.Unmarshal(text, into)
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, into, true)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// layered is a pod laid over another.
type layered struct {
	own, template pod
}

func layer(own, template *pod) layered {
	var l layered
	if own != nil {
		l.own = *own
	}
	if template != nil {
		l.template = *template
	}
	return l
}

// merge lays what the service has over what the runtime has, as kubectl apply would: lists of containers, volumes and
// their like are merged by name.
func merge[T any](template, own []byte, into *T) error {
	if template == nil {
		template = []byte("{}")
	}
	if own == nil {
		own = []byte("{}")
	}
	merged, err := strategicpatch.StrategicMergePatch(template, own, *new(T))
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(merged, into)
}

// runner returns the container that serves, nil where there is none.
func (l layered) runner() (*corev1.Container, error) {
	template, err := l.template.container()
	if err != nil {
		return nil, err
	}
	own, err := l.own.container()
	if err != nil {
		return nil, err
	}
	if template == nil && own == nil {
		return nil, nil
	}
	runner := &corev1.Container{}
	if err := merge(template, own, runner); err != nil {
		return nil, fmt.Errorf("%s.runner: %w", l.own.path, err)
	}
	if runner.Name == "" {
		runner.Name = runnerName
	}
	return runner, nil
}

// spec returns the pod spec, the runner first. The fallback serves where the pod has no runner of its own.
func (l layered) spec(env map[string]string, fallback *corev1.Container) (corev1.PodSpec, error) {
	template, err := l.template.podFields()
	if err != nil {
		return corev1.PodSpec{}, err
	}
	own, err := l.own.podFields()
	if err != nil {
		return corev1.PodSpec{}, err
	}
	var spec corev1.PodSpec
	if err := merge(template, own, &spec); err != nil {
		return corev1.PodSpec{}, fmt.Errorf("%s: %w", l.own.path, err)
	}
	runner, err := l.runner()
	if err != nil {
		return corev1.PodSpec{}, err
	}
	if runner == nil {
		runner = fallback.DeepCopy()
	}
	if runner == nil {
		return corev1.PodSpec{}, errNoRunner
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		runner.Env = slices.DeleteFunc(runner.Env, func(v corev1.EnvVar) bool { return v.Name == name })
		runner.Env = append(runner.Env, corev1.EnvVar{Name: name, Value: env[name]})
	}
	for _, c := range spec.Containers {
		if c.Name == runner.Name {
			return corev1.PodSpec{}, fmt.Errorf("%s.containers: container %q has the name of the runner: write it as runner, or give it another name", l.own.path, c.Name)
		}
	}
	spec.Containers = slices.Insert(spec.Containers, 0, *runner)
	return spec, nil
}

var errNoRunner = errors.New("there is no runner: neither the service nor its runtime says which container serves")
