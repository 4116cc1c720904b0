package docs

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
)

// The page on the manager's configuration shows every setting, with the value that it has where it is left out.
func TestTheConfigurationPageShowsTheDefaults(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join(root, "docs", "configuration.md"))
	block := regexp.MustCompile("(?s)```yaml\n(apiVersion: .*?)```").FindStringSubmatch(page)
	if block == nil {
		t.Fatal("docs/configuration.md shows no configuration")
	}
	// Nothing but the page gives values.
	var got config.Configuration
	if err := yaml.UnmarshalStrict([]byte(block[1]), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default(), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("docs/configuration.md shows other values than the defaults (-default +page):\n%s", diff)
	}
	var shown map[string]any
	if err := yaml.Unmarshal([]byte(block[1]), &shown); err != nil {
		t.Fatal(err)
	}
	for _, name := range missing(reflect.TypeFor[config.Configuration](), shown) {
		t.Errorf("docs/configuration.md does not show %s", name)
	}
}

// missing returns the names of the fields of a type, as they are written, that are not shown.
func missing(of reflect.Type, shown map[string]any) []string {
	var names []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue // apiVersion and kind, which are embedded.
		}
		value, ok := shown[name]
		if !ok {
			names = append(names, name)
			continue
		}
		if inner, ok := value.(map[string]any); ok && of.Field(i).Type.Kind() == reflect.Struct {
			for _, deeper := range missing(of.Field(i).Type, inner) {
				names = append(names, name+"."+deeper)
			}
		}
	}
	return names
}
