package v1beta1

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// PodFields are fields of a pod spec that stand in one object with the fields of a component. The schema leaves them open,
// since a typed pod spec in every component would outgrow what etcd stores, and reading an object checks none of them: they
// are decoded strictly at admission, and by whoever makes pods of them.
type PodFields map[string]runtime.RawExtension //nolint:kubeapilinter // It has the keys of a pod spec, whose shape is given.

// UnmarshalJSON reads the fields of a component and keeps all others as pod fields.
func (s *ComponentSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ComponentSpec
	s.PodFields, err = readBeside(data, (*plain)(s))
	return err
}

// MarshalJSON writes the fields of a component and its pod fields into one object.
func (s ComponentSpec) MarshalJSON() ([]byte, error) {
	type plain ComponentSpec
	return writeBeside(plain(s), s.PodFields)
}

// UnmarshalJSON reads the fields of a router and keeps all others as pod fields.
func (s *RouterSpec) UnmarshalJSON(data []byte) (err error) {
	type plain RouterSpec
	s.PodFields, err = readBeside(data, (*plain)(s))
	return err
}

// MarshalJSON writes the fields of a router and its pod fields into one object.
func (s RouterSpec) MarshalJSON() ([]byte, error) {
	type plain RouterSpec
	return writeBeside(plain(s), s.PodFields)
}

// UnmarshalJSON reads the fields of a leader and keeps all others as pod fields.
func (s *LeaderSpec) UnmarshalJSON(data []byte) (err error) {
	type plain LeaderSpec
	s.PodFields, err = readBeside(data, (*plain)(s))
	return err
}

// MarshalJSON writes the fields of a leader and its pod fields into one object.
func (s LeaderSpec) MarshalJSON() ([]byte, error) {
	type plain LeaderSpec
	return writeBeside(plain(s), s.PodFields)
}

// UnmarshalJSON reads the fields of a worker and keeps all others as pod fields.
func (s *WorkerSpec) UnmarshalJSON(data []byte) (err error) {
	type plain WorkerSpec
	s.PodFields, err = readBeside(data, (*plain)(s))
	return err
}

// MarshalJSON writes the fields of a worker and its pod fields into one object.
func (s WorkerSpec) MarshalJSON() ([]byte, error) {
	type plain WorkerSpec
	return writeBeside(plain(s), s.PodFields)
}

// UnmarshalJSON reads the fields of a runtime and keeps all others as pod fields.
func (s *ServingRuntimeSpec) UnmarshalJSON(data []byte) (err error) {
	type plain ServingRuntimeSpec
	s.PodFields, err = readBeside(data, (*plain)(s))
	return err
}

// MarshalJSON writes the fields of a runtime and its pod fields into one object.
func (s ServingRuntimeSpec) MarshalJSON() ([]byte, error) {
	type plain ServingRuntimeSpec
	return writeBeside(plain(s), s.PodFields)
}

// readBeside decodes an object into a struct and returns the fields that the struct does not have.
func readBeside(data []byte, into any) (PodFields, error) {
	var fields map[string]json.RawMessage
	if err := utiljson.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	var beside PodFields
	known := fieldNames(reflect.TypeOf(into).Elem())
	for name, value := range fields {
		if known[name] {
			continue
		}
		if beside == nil {
			beside = PodFields{}
		}
		beside[name] = runtime.RawExtension{Raw: value}
	}
	return beside, utiljson.Unmarshal(data, into)
}

func writeBeside(known any, beside PodFields) ([]byte, error) {
	data, err := json.Marshal(known)
	if err != nil || len(beside) == 0 {
		return data, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for name, value := range beside {
		if _, ok := all[name]; ok {
			continue
		}
		if all[name], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

// fieldNames are the names that a struct has in JSON.
func fieldNames(t reflect.Type) map[string]bool {
	names := map[string]bool{}
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			for name := range fieldNames(field.Type) {
				names[name] = true
			}
			continue
		}
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "-" {
			names[name] = true
		}
	}
	return names
}
