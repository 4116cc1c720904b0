package v1beta1

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadingChecksNoPodFields: one object with a broken pod spec must not keep a client from reading the list that it is
// in, and what was read is written again as it was.
func TestReadingChecksNoPodFields(t *testing.T) {
	for name, text := range map[string]string{
		"pod fields of all shapes": `{"minReplicas":2,"containers":"none","volumes":[1],"Runner":{"case":"counts"},"runner":{"image":7}}`,
		"in leader and worker":     `{"leader":{"hostIPC":1,"runner":{}},"worker":{"size":3,"tolerations":{}}}`,
		"none":                     `{"maxReplicas":2}`,
		"null":                     `{"nodeSelector":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			var spec ComponentSpec
			if err := json.Unmarshal([]byte(text), &spec); err != nil {
				t.Fatal(err)
			}
			written, err := json.Marshal(spec.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := errors.Join(json.Unmarshal([]byte(text), &want), json.Unmarshal(written, &got)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was read is written otherwise (-read +written):\n%s", diff)
			}
		})
	}
}

func TestReadingTellsPodFieldsFromOthers(t *testing.T) {
	var spec RouterSpec
	if err := json.Unmarshal([]byte(`{"config":{"A":"b"},"labels":{"a":"b"},"hostIPC":true,"runner":{"name":"c"},"autoscaler":{"class":"None"}}`), &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.PodFields) != 1 || string(spec.PodFields["hostIPC"].Raw) != "true" {
		t.Errorf("the pod fields are %v, want hostIPC only", spec.PodFields)
	}
	if spec.Config["A"] != "b" || spec.Labels["a"] != "b" || spec.Runner == nil || spec.Autoscaler == nil {
		t.Errorf("a field of the router is lost: %+v", spec)
	}
	spec.PodFields["labels"] = spec.PodFields["hostIPC"]
	written, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(written, &spec); err != nil || spec.Labels["a"] != "b" {
		t.Errorf("a pod field of the name of one of the router's wins: %s (%v)", written, err)
	}
}
