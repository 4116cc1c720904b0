package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// MaxBody is the greatest size of a request's document, in bytes.
const MaxBody = 1 << 20

// Decode reads exactly one JSON document into the struct that into points to. Unknown fields, a wrong type, an empty body, a
// second document and more than MaxBody bytes are findings.
func Decode(body io.Reader, into any) Errors {
	data, err := io.ReadAll(io.LimitReader(body, MaxBody+1))
	switch {
	case err != nil:
		return Errors{{Fix: fmt.Sprintf("the body must be readable to its end: %v", err)}}
	case len(data) > MaxBody:
		return Errors{{Fix: fmt.Sprintf("the body must be at most %d bytes", MaxBody)}}
	case len(bytes.TrimSpace(data)) == 0:
		return Errors{{Fix: "the body must be a JSON document, and is empty"}}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return decodeErrors(err, data, into)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Errors{{Fix: "the body must be one JSON document with nothing behind it"}}
	}
	return nil
}

func decodeErrors(err error, data []byte, into any) Errors {
	var value *valueError
	if !errors.As(err, &value) {
		return Errors{decodeError(err, into)}
	}
	// The decoder does not say which key it was at, and stops at the first.
	var document struct {
		Metrics map[string]json.RawMessage `json:"metrics"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return Errors{decodeError(err, into)}
	}
	var errs Errors
	for _, name := range sortedKeys(document.Metrics) {
		if err := new(Value).UnmarshalJSON(document.Metrics[name]); err != nil {
			errs = append(errs, Error{
				Field: fmt.Sprintf("metrics[%s]", name), Value: shorten(string(document.Metrics[name])),
				Fix: "must be a number without quotes, \"NaN\", \"+Inf\" or \"-Inf\"",
			})
		}
	}
	return errs
}

func decodeError(err error, into any) Error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType):
		return Error{Field: wrongType.Field, Value: wrongType.Value, Fix: "must be " + describeType(wrongType.Type)}
	case errors.As(err, &syntax):
		return Error{Fix: fmt.Sprintf("the body must be valid JSON: %v at byte %d", err, syntax.Offset)}
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Error{Field: strings.Trim(field, `"`), Fix: fmt.Sprintf("must not be set: there is no such field; the fields are %s", strings.Join(fieldNames(into), ", "))}
	}
	return Error{Fix: fmt.Sprintf("the body must be valid JSON: %v", err)}
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Map:
		return `an object, like {"app": "llm"}`
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return `a list, like ["queue_depth"]`
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Pointer:
		return describeType(t.Elem())
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "a whole number"
	default:
		return "a number"
	}
}

// fieldNames returns the names of all fields of a document, with those of objects in it as parent.child.
func fieldNames(document any) []string {
	var names []string
	var walk func(prefix string, t reflect.Type)
	walk = func(prefix string, t reflect.Type) {
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			names = append(names, prefix+name)
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				walk(prefix+name+".", inner)
			}
		}
	}
	t := reflect.TypeOf(document)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	walk("", t)
	slices.Sort(names)
	return names
}
