package kube

import (
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

func TestMatches(t *testing.T) {
	const wanted = `
metadata: {labels: {a: b}, annotations: {}, ownerReferences: [{uid: "1", controller: true}]}
spec:
  replicas: null
  triggers: [{type: kafka, metadata: {topic: t}}]
  template: {spec: {containers: [{name: c, args: [a, b], env: [{name: E, value: v}], resources: {}}]}}
`
	tests := map[string]struct {
		live string
		want bool
	}{
		"the same": {wanted, true},
		"with defaults and additions of others": {`
metadata: {uid: x, labels: {a: b, c: d}, ownerReferences: [{uid: "2"}, {uid: "1", controller: true, blockOwnerDeletion: true}]}
spec:
  replicas: 7
  triggers: [{type: kafka, metadata: {topic: t, x: y}, useCachedMetrics: false}]
  fallback: {behavior: static}
  template: {spec: {restartPolicy: Always, containers: [{name: sidecar}, {name: c, args: [a, b], env: [{name: X}, {name: E, value: v}], image: i}]}}
`, true},
		"without a label":          {`{metadata: {ownerReferences: [{uid: "1", controller: true}]}, spec: {triggers: [{type: kafka, metadata: {topic: t}}], template: {spec: {containers: [{name: c, args: [a, b], env: [{name: E, value: v}]}]}}}}`, false},
		"with a trigger of others": {`{metadata: {labels: {a: b}, ownerReferences: [{uid: "1", controller: true}]}, spec: {triggers: [{type: kafka, metadata: {topic: t}}, {type: cron}], template: {spec: {containers: [{name: c, args: [a, b], env: [{name: E, value: v}]}]}}}}`, false},
		"with another trigger":     {`{metadata: {labels: {a: b}, ownerReferences: [{uid: "1", controller: true}]}, spec: {triggers: [{type: kafka, metadata: {topic: u}}], template: {spec: {containers: [{name: c, args: [a, b], env: [{name: E, value: v}]}]}}}}`, false},
		"with other arguments":     {`{metadata: {labels: {a: b}, ownerReferences: [{uid: "1", controller: true}]}, spec: {triggers: [{type: kafka, metadata: {topic: t}}], template: {spec: {containers: [{name: c, args: [b, a], env: [{name: E, value: v}]}]}}}}`, false},
		"without the container":    {`{metadata: {labels: {a: b}, ownerReferences: [{uid: "1", controller: true}]}, spec: {triggers: [{type: kafka, metadata: {topic: t}}], template: {spec: {containers: [{name: d, args: [a, b], env: [{name: E, value: v}]}]}}}}`, false},
		"without anything":         {`{}`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := matches(decode(t, wanted), decode(t, tt.live), ""); got != tt.want {
				t.Errorf("the live object matches: %v, want %v", got, tt.want)
			}
		})
	}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := utiljson.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
