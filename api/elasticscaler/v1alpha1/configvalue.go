package v1alpha1

import (
	"bytes"
	"encoding/json"
)

// ConfigValue is one setting of a scaling algorithm. On the wire it is a string, a number or a boolean; here it is the
// text of that value, so that `threshold: 0.8` and `threshold: "0.8"` mean the same to an algorithm. A structural schema
// cannot say "a scalar of any type", so that objects and lists are refused where the algorithm reads its settings.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:pruning:PreserveUnknownFields
type ConfigValue string

// UnmarshalJSON takes the text of a JSON string, and the literal itself of anything else. It refuses no shape that the
// schema would refuse: an object that was stored before a rule existed must not keep a client from reading its list.
func (v *ConfigValue) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*v = ConfigValue(text)
		return nil
	}
	*v = ConfigValue(data)
	return nil
}

// MarshalJSON writes the value as a JSON string, which every reader of an algorithmConfig accepts.
func (v ConfigValue) MarshalJSON() ([]byte, error) {
	return json.Marshal(string(v))
}
