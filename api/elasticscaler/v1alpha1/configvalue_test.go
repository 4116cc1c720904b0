package v1alpha1

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestConfigValueTakesStringsNumbersAndBooleans(t *testing.T) {
	const text = `{"string": "0.8", "number": 0.8, "integer": 60, "exponent": 1e3, "true": true, "empty": "", "quoted": "a \"b\"", "object": {"a": [1]}, "null": null}`
	var got map[string]ConfigValue
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]ConfigValue{
		"string": "0.8", "number": "0.8", "integer": "60", "exponent": "1e3", "true": "true", "empty": "", "quoted": `a "b"`,
		"object": `{"a": [1]}`, "null": "null",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is read as %q, want %q", name, got[name], value)
		}
	}
}

func TestConfigValueIsWrittenAsString(t *testing.T) {
	text, err := json.Marshal(map[string]ConfigValue{"threshold": "0.8"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"threshold":"0.8"}`; string(text) != want {
		t.Errorf("written as %s, want %s", text, want)
	}
}

func FuzzConfigValue(f *testing.F) {
	for _, seed := range []string{`"a"`, `0.8`, `true`, `{}`, `null`, `"é"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value, again ConfigValue
		if !utf8.Valid(data) || json.Unmarshal(data, &value) != nil {
			return
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if again != value {
			t.Errorf("%q comes back as %q", value, again)
		}
	})
}
