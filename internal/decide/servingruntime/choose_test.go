package servingruntime

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/api/ome/v1beta1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/testkit"
)

// formats is the spec of a runtime with one format that may be selected, and what comes beside it.
func formats(rest string) string {
	return `{supportedModelFormats: [{modelFormat: {name: safetensors}, autoSelect: true` + rest
}

func TestChoose(t *testing.T) {
	const (
		model   = `{modelFormat: {name: safetensors}, modelParameterSize: 1.24B}`
		service = `{model: {name: llama, kind: ClusterBaseModel}, engine: {}}`
		own     = `{model: {name: llama, kind: ClusterBaseModel}, engine: {runner: {image: i}}, router: {runner: {image: i}}}`
		good    = `}]}`
	)
	tests := map[string]struct {
		service, model string
		// runtimes are specs by name, those of the namespace with a leading '/'.
		runtimes map[string]string
		// want is the name of the runtime, "" for none, and reason and a part of the message.
		want, reason, message string
	}{
		"the only one": {service, model, map[string]string{"a": formats(good)}, "a", "RuntimeSelected", "ClusterServingRuntime a is selected for model llama"},
		"the highest priority": {service, model, map[string]string{"a": formats(", priority: 2" + good), "b": formats(", priority: 3" + good), "c": formats(good)},
			"b", "RuntimeSelected", ""},
		"the best format of each": {service, model, map[string]string{
			"a": formats(", priority: 2" + good),
			"b": `{supportedModelFormats: [{modelFormat: {name: safetensors}, autoSelect: true}, {modelFormat: {name: safetensors}, autoSelect: true, priority: 3}, {modelFormat: {name: onnx}, autoSelect: true, priority: 9}]}`,
		}, "b", "RuntimeSelected", ""},
		"the first by name":                  {service, model, map[string]string{"b": formats(good), "a": formats(good)}, "a", "RuntimeSelected", ""},
		"priority 1 is the default":          {service, model, map[string]string{"b": formats(", priority: 1" + good), "a": formats(good)}, "a", "RuntimeSelected", ""},
		"the namespace's own of one name":    {service, model, map[string]string{"a": formats(good), "/a": formats(good)}, "/a", "RuntimeSelected", "ServingRuntime a is selected"},
		"the cluster's of a higher priority": {service, model, map[string]string{"a": formats(", priority: 2" + good), "/a": formats(good)}, "a", "RuntimeSelected", ""},
		"both ends of the range":             {service, model, map[string]string{"a": formats(`}], modelSizeRange: {min: 1240M, max: "1.24b"}}`)}, "a", "RuntimeSelected", ""},
		"no size of the model":               {service, `{modelFormat: {name: safetensors}}`, map[string]string{"a": formats(`}], modelSizeRange: {min: 2B}}`)}, "a", "RuntimeSelected", ""},
		"equal versions": {service, `{modelFormat: {name: safetensors, version: "1"}}`, map[string]string{
			"a": formats(good), "b": `{supportedModelFormats: [{modelFormat: {name: safetensors, version: "1"}, autoSelect: true}]}`}, "b", "RuntimeSelected", ""},

		"none at all":             {service, model, nil, "", "NoSupportingRuntime", "no supporting runtime found for model llama of format safetensors and size 1.24B: there is no runtime"},
		"disabled":                {service, model, map[string]string{"a": formats(`}], disabled: true}`)}, "", "NoSupportingRuntime", "ClusterServingRuntime a is disabled"},
		"not to select":           {service, model, map[string]string{"a": `{supportedModelFormats: [{modelFormat: {name: safetensors}}]}`}, "", "NoSupportingRuntime", "ClusterServingRuntime a has no autoSelect for the format"},
		"another format":          {service, model, map[string]string{"a": `{supportedModelFormats: [{modelFormat: {name: onnx, version: "1"}, autoSelect: true}, {modelFormat: {name: gguf}, autoSelect: true}]}`}, "", "NoSupportingRuntime", "ClusterServingRuntime a supports format onnx 1, gguf"},
		"another version":         {service, model, map[string]string{"a": `{supportedModelFormats: [{modelFormat: {name: safetensors, version: "1"}, autoSelect: true}]}`}, "", "NoSupportingRuntime", "ClusterServingRuntime a supports format safetensors 1"},
		"no format":               {service, model, map[string]string{"/a": `{}`}, "", "NoSupportingRuntime", "ServingRuntime a supports no format"},
		"model without format":    {service, `{}`, map[string]string{"a": formats(good)}, "", "NoSupportingRuntime", "for model llama of no format: ClusterServingRuntime a cannot be matched, since the model has no modelFormat"},
		"too small":               {service, model, map[string]string{"a": formats(`}], modelSizeRange: {min: 2B, max: 70B}}`)}, "", "NoSupportingRuntime", "ClusterServingRuntime a supports models from 2B"},
		"too large":               {service, model, map[string]string{"a": formats(`}], modelSizeRange: {max: 1B}}`)}, "", "NoSupportingRuntime", "ClusterServingRuntime a supports models up to 1B"},
		"a range that is no size": {service, model, map[string]string{"a": formats(`}], modelSizeRange: {max: large}}`)}, "", "NoSupportingRuntime", `ClusterServingRuntime a has a modelSizeRange.max that is "large", which must be a number`},
		"a model that is no size": {service, `{modelFormat: {name: safetensors}, modelParameterSize: "-1B"}`, map[string]string{"a": formats(`}], modelSizeRange: {max: 1B}}`)}, "", "NoSupportingRuntime",
			`cannot be matched, since the model's modelParameterSize is "-1B"`},
		"all that is missing": {service, model, map[string]string{"b": formats(`}], disabled: true}`), "a": "{}"}, "", "NoSupportingRuntime",
			"ClusterServingRuntime a supports no format; ClusterServingRuntime b is disabled"},
		"more than a message holds": {service, model, map[string]string{"1": "{}", "2": "{}", "3": "{}", "4": "{}", "5": "{}", "6": "{}", "7": "{}", "8": "{}", "9": "{}", "91": "{}"}, "", "NoSupportingRuntime",
			"ClusterServingRuntime 8 supports no format; and 2 more"},

		"named":                  {`{runtime: {name: a, kind: ClusterServingRuntime}, engine: {}}`, "", map[string]string{"a": "{}", "b": formats(good)}, "a", "RuntimeNamed", "ClusterServingRuntime a is named by the service"},
		"named of the namespace": {`{runtime: {name: a, kind: ServingRuntime}, engine: {}}`, "", map[string]string{"a": "{}", "/a": "{}"}, "/a", "RuntimeNamed", ""},
		"named although it supports something else": {`{model: {name: llama, kind: ClusterBaseModel}, runtime: {name: a, kind: ClusterServingRuntime}, engine: {}}`, model, map[string]string{"a": "{}", "b": formats(good)}, "a", "RuntimeNamed",
			"it does not declare support for model llama of format safetensors and size 1.24B: it supports no format"},
		"named without autoSelect": {`{model: {name: llama, kind: ClusterBaseModel}, runtime: {name: a, kind: ClusterServingRuntime}, engine: {}}`, model,
			map[string]string{"a": `{supportedModelFormats: [{modelFormat: {name: safetensors}}]}`}, "a", "RuntimeNamed", "ClusterServingRuntime a is named by the service"},
		"named and missing":     {`{runtime: {name: c, kind: ClusterServingRuntime}, engine: {}}`, "", map[string]string{"a": formats(good)}, "", "RuntimeNotRecognized", `ClusterServingRuntime "c" does not exist`},
		"named by another kind": {`{runtime: {name: a, kind: ClusterServingRuntime}, engine: {}}`, "", map[string]string{"/a": "{}"}, "", "RuntimeNotRecognized", "there is a ServingRuntime of that name: set spec.runtime.kind"},
		"named and disabled":    {`{runtime: {name: a, kind: ClusterServingRuntime}, engine: {}}`, "", map[string]string{"a": "{disabled: true}"}, "", "RuntimeDisabled", "ClusterServingRuntime a is disabled"},

		"no such model":         {service, "", map[string]string{"a": formats(good)}, "", "BaseModelNotFound", `ClusterBaseModel "llama" does not exist`},
		"no such kind of model": {`{model: {name: llama, kind: Model}}`, "", nil, "", "BaseModelNotFound", `model.kind "Model" must be ClusterBaseModel or BaseModel`},

		"its own images":                {own, model, nil, "", "RuntimeNotNeeded", ""},
		"its own images, and a runtime": {own, model, map[string]string{"a": formats(good)}, "a", "RuntimeSelected", ""},
		"no model, its own images":      {`{engine: {leader: {runner: {image: i}}, worker: {}, runner: {image: j}}}`, "", nil, "", "RuntimeNotNeeded", ""},
		"no model, one without":         {`{engine: {runner: {image: i}}, router: {}}`, "", nil, "", "NoSupportingRuntime", "spec names neither a model nor a runtime"},
		"no model, a worker without":    {`{engine: {leader: {runner: {image: i}}, worker: {}}}`, "", nil, "", "NoSupportingRuntime", ""},
		"no model, no components":       {`{}`, "", nil, "", "NoSupportingRuntime", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			q := Question{Service: testkit.FromYAML[v1beta1.InferenceServiceSpec](t, tt.service)}
			if tt.model != "" {
				spec := testkit.FromYAML[v1beta1.BaseModelSpec](t, tt.model)
				q.Model = &spec
			}
			for name, spec := range tt.runtimes {
				r := Runtime{Kind: KindClusterServingRuntime, Name: name, Spec: testkit.FromYAML[v1beta1.ServingRuntimeSpec](t, spec)}
				if own, ok := strings.CutPrefix(name, "/"); ok {
					r.Kind, r.Name = KindServingRuntime, own
				}
				q.Runtimes = append(q.Runtimes, r)
			}
			rand.Shuffle(len(q.Runtimes), func(i, j int) { q.Runtimes[i], q.Runtimes[j] = q.Runtimes[j], q.Runtimes[i] })
			got := Choose(q)
			chosen := ""
			if got.Runtime != nil {
				chosen = got.Runtime.Name
				if got.Runtime.Kind == KindServingRuntime {
					chosen = "/" + chosen
				}
			}
			resolved := tt.want != "" || tt.reason == "RuntimeNotNeeded"
			if chosen != tt.want || got.Resolved != resolved || got.Reason != tt.reason || !strings.Contains(got.Message, tt.message) {
				t.Errorf("got %q, resolved %v, %s: %s\nwant %q, resolved %v, %s: %s", chosen, got.Resolved, got.Reason, got.Message, tt.want, resolved, tt.reason, tt.message)
			}
		})
	}
}
