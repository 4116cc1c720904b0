package servingcomponent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// componentsOf reads a service and a runtime; "" is no runtime.
func componentsOf(t *testing.T, service, runtime string) []Component {
	t.Helper()
	var r *v1beta1.ServingRuntimeSpec
	if runtime != "" {
		spec := testkit.FromYAML[v1beta1.ServingRuntimeSpec](t, runtime)
		r = &spec
	}
	return Of(testkit.FromYAML[v1beta1.InferenceServiceSpec](t, service), r)
}

func TestOfListsWhatTheServiceNames(t *testing.T) {
	const runtime = `{engineConfig: {}, decoderConfig: {}, routerConfig: {}}`
	for service, want := range map[string]string{
		`{}`: "", `{router: {}, decoder: {}, engine: {}}`: "engine decoder router", `{decoder: {}}`: "decoder", `{router: {}}`: "router",
	} {
		var names []string
		for _, c := range componentsOf(t, service, runtime) {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has components %q, want %q", service, got, want)
		}
	}
}

func TestBounds(t *testing.T) {
	tests := map[string]struct {
		service, runtime string
		least, most      int32
	}{
		"neither says":                               {`{engine: {}}`, "", 1, 3},
		"neither says of a router":                   {`{router: {}}`, `{routerConfig: {}}`, 1, 2},
		"the runtime says":                           {`{engine: {}}`, `{engineConfig: {minReplicas: 2, maxReplicas: 5}}`, 2, 5},
		"both say":                                   {`{engine: {minReplicas: 3, maxReplicas: 4}}`, `{engineConfig: {minReplicas: 2, maxReplicas: 5}}`, 3, 4},
		"the runtime of another component says":      {`{decoder: {}}`, `{engineConfig: {minReplicas: 2, maxReplicas: 5}}`, 1, 3},
		"zero is a minimum":                          {`{engine: {minReplicas: 0}}`, `{engineConfig: {minReplicas: 2}}`, 0, 3},
		"zero is no maximum":                         {`{engine: {maxReplicas: 0}}`, `{engineConfig: {maxReplicas: 7}}`, 1, 7},
		"the default maximum is below the minimum":   {`{engine: {minReplicas: 9}}`, "", 9, 9},
		"the service's minimum is above the other's": {`{engine: {minReplicas: 6}}`, `{engineConfig: {maxReplicas: 5}}`, 6, 6},
		"the service's maximum is below the other's": {`{engine: {maxReplicas: 2}}`, `{engineConfig: {minReplicas: 4}}`, 2, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if least, most := componentsOf(t, tt.service, tt.runtime)[0].Bounds(); least != tt.least || most != tt.most {
				t.Errorf("the bounds are %d and %d, want %d and %d", least, most, tt.least, tt.most)
			}
		})
	}
}

func TestPodsLayTheServiceOverTheRuntime(t *testing.T) {
	components := componentsOf(t, `
router:
  runner: {image: "mine:2", env: [{name: A, value: mine}]}
  volumes: [{name: extra, emptyDir: {}}]
  nodeSelector: {pool: b}
  config: {A: config, C: config}
  labels: {a: mine}
  annotations: {a: mine}
`, `
routerConfig:
  runner: {name: router, image: "runtime:1", args: [--x], env: [{name: B, value: runtime}]}
  containers: [{name: side, image: "side:1"}]
  volumes: [{name: dshm, emptyDir: {medium: Memory}}]
  nodeSelector: {pool: a, zone: z}
  config: {C: runtime, D: runtime}
  labels: {a: runtime, b: runtime}
  deploymentStrategy: {type: Recreate}
`)
	got, err := components[0].Pods()
	if err != nil {
		t.Fatal(err)
	}
	want := Pods{Main: corev1.PodSpec{
		Containers: []corev1.Container{
			{Name: "router", Image: "mine:2", Args: []string{"--x"}, Env: []corev1.EnvVar{
				{Name: "B", Value: "runtime"}, {Name: "A", Value: "config"}, {Name: "C", Value: "config"}, {Name: "D", Value: "runtime"},
			}},
			{Name: "side", Image: "side:1"},
		},
		Volumes: []corev1.Volume{
			{Name: "extra", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "dshm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		},
		NodeSelector: map[string]string{"pool": "b", "zone": "z"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "mine", "b": "runtime"}, components[0].Labels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "mine"}, components[0].Annotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if s := components[0].Strategy(); s == nil || s.Type != "Recreate" {
		t.Errorf("the strategy is %v, want the runtime's", s)
	}
}

func TestPodsOfLeaderAndWorker(t *testing.T) {
	component := componentsOf(t, `{engine: {runner: {image: "own:2"}, worker: {size: 3}}}`, `
engineConfig:
  runner: {name: server, image: "runtime:1"}
  leader: {nodeSelector: {pool: head}}
  worker: {size: 7, runner: {image: "worker:1"}}
`)[0]
	if !component.MultiPod() {
		t.Fatal("a component with leader and worker is said to be of single pods")
	}
	got, err := component.Pods()
	if err != nil {
		t.Fatal(err)
	}
	want := Pods{
		Main:    corev1.PodSpec{NodeSelector: map[string]string{"pool": "head"}, Containers: []corev1.Container{{Name: "server", Image: "own:2"}}},
		Worker:  &corev1.PodSpec{Containers: []corev1.Container{{Name: "ome-container", Image: "worker:1"}}},
		Workers: 3,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPodsThatCannotBeMade(t *testing.T) {
	tests := map[string]struct{ service, runtime, want string }{
		"no runner":                 {`{engine: {}}`, `{engineConfig: {nodeSelector: {a: b}}}`, "there is no runner"},
		"no runner of the leader":   {`{engine: {leader: {}, worker: {runner: {image: i}}}}`, "", "there is no runner"},
		"leader only":               {`{engine: {leader: {runner: {image: i}}}}`, "", "component engine has one of leader and worker only"},
		"no workers":                {`{engine: {runner: {image: i}, leader: {}, worker: {size: 0}}}`, "", "component engine has 0 workers"},
		"unknown field of a pod":    {`{engine: {runner: {image: i}, nodeSelectors: {a: b}}}`, "", `spec.engine: strict decoding error: unknown field "nodeSelectors"`},
		"unknown field deep down":   {`{engine: {runner: {image: i}, volumes: [{name: a, emptydir: {}}]}}`, "", `spec.engine: strict decoding error: unknown field "volumes[0].emptydir"`},
		"wrong type":                {`{engine: {runner: {image: i}, containers: none}}`, "", "spec.engine: json: cannot unmarshal string"},
		"unknown field of a runner": {`{engine: {runner: {images: i}}}`, "", `spec.engine.runner: strict decoding error: unknown field "images"`},
		"wrong type in a runner":    {`{engine: {runner: {image: 7}}}`, "", "spec.engine.runner: json: cannot unmarshal number into Go struct field Container.image"},
		"unknown field of a worker": {`{engine: {runner: {image: i}, leader: {}, worker: {a: b}}}`, "", `spec.engine.worker: strict decoding error: unknown field "a"`},
		"in the runtime":            {`{engine: {}}`, `{engineConfig: {runner: {images: i}}}`, `engineConfig.runner: strict decoding error: unknown field "images"`},
		"two of the runner's name":  {`{engine: {runner: {image: i}, containers: [{name: ome-container}]}}`, "", `spec.engine.containers: container "ome-container" has the name of the runner`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := componentsOf(t, tt.service, tt.runtime)[0].Pods()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestCheckReadsTheServicesOwnPartsOnly(t *testing.T) {
	component := componentsOf(t, `{engine: {a: 1, runner: {b: 1}, leader: {c: 1}, worker: {d: 1, runner: {e: 1}}}}`, `{engineConfig: {f: 1}}`)[0]
	var got []string
	for _, err := range component.Check() {
		got = append(got, err.Error())
	}
	want := []string{
		`spec.engine: strict decoding error: unknown field "a"`, `spec.engine.runner: strict decoding error: unknown field "b"`,
		`spec.engine.leader: strict decoding error: unknown field "c"`,
		`spec.engine.worker: strict decoding error: unknown field "d"`, `spec.engine.worker.runner: strict decoding error: unknown field "e"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPodsLeaveTheirSourcesAlone: what is read from a cache must not be changed by what is made of it.
func TestPodsLeaveTheirSourcesAlone(t *testing.T) {
	service := testkit.FromYAML[v1beta1.InferenceServiceSpec](t, `{router: {runner: {image: i, env: [{name: A, value: a}]}, config: {A: b}, labels: {a: b}}}`)
	runtime := testkit.FromYAML[v1beta1.ServingRuntimeSpec](t, `{routerConfig: {labels: {a: c}, config: {B: c}}}`)
	before, beforeRuntime := service.DeepCopy(), runtime.DeepCopy()
	component := Of(service, &runtime)[0]
	if _, err := component.Pods(); err != nil {
		t.Fatal(err)
	}
	component.Labels()["x"] = "y"
	if diff := cmp.Diff(*before, service) + cmp.Diff(*beforeRuntime, runtime); diff != "" {
		t.Errorf("the sources changed:\n%s", diff)
	}
}
