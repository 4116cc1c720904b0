package simulator

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pd-orchestrator/pd-orchestrator/lab/simulator/api"
)

// TestDocumentationIsComplete checks that docs/simulator.md names every metric, field, fault and trace.
func TestDocumentationIsComplete(t *testing.T) {
	data, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var wanted []string
	for _, m := range engineMetrics {
		wanted = append(wanted, m.name)
	}
	for _, document := range []any{api.Pin{}, api.Load{}, api.Engine{}} {
		fields := reflect.TypeOf(document)
		for i := range fields.NumField() {
			name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
			wanted = append(wanted, name)
		}
	}
	for _, fault := range api.Faults {
		wanted = append(wanted, string(fault))
	}
	for _, name := range wanted {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/simulator.md does not mention `%s`", name)
		}
	}
	for _, desc := range serviceAllDescs {
		name := strings.Split(desc.String(), `"`)[1]
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/simulator.md does not mention `%s`", name)
		}
	}
}
