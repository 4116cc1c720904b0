package api_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// readCRDs returns the generated CRDs by kind.
func readCRDs(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range manifestFiles(t, crdFolder+"/*.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crds[crd.Spec.Names.Kind] = crd
	}
	for kind := range resources {
		if crds[kind] == nil {
			t.Errorf("there is no CRD of %s", kind)
		}
	}
	return crds
}

// walk visits a schema and all below it.
func walk(path string, schema *apiextensionsv1.JSONSchemaProps, visit func(path string, schema *apiextensionsv1.JSONSchemaProps)) {
	visit(path, schema)
	for _, name := range sortedKeys(schema.Properties) {
		property := schema.Properties[name]
		walk(path+"."+name, &property, visit)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(path+"[]", schema.Items.Schema, visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(path+"{}", schema.AdditionalProperties.Schema, visit)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// TestEveryFieldIsExplained: kubectl explain has something to say on every field.
func TestEveryFieldIsExplained(t *testing.T) {
	for kind, crd := range readCRDs(t) {
		for _, v := range crd.Spec.Versions {
			walk(kind, v.Schema.OpenAPIV3Schema, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
				// The API server explains metadata itself; an element is explained by its list.
				if path == kind+".metadata" || strings.HasSuffix(path, "[]") || strings.HasSuffix(path, "{}") {
					return
				}
				if len(strings.TrimSpace(schema.Description)) < 10 {
					t.Errorf("%s has no description", path)
				}
			})
		}
	}
}

// TestSizes: etcd takes the CRD, and plain kubectl apply finds room for its copy in an annotation.
func TestSizes(t *testing.T) {
	const (
		etcd       = 500_000
		annotation = 256 * 1024
	)
	for kind, crd := range readCRDs(t) {
		text, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > etcd {
			t.Errorf("the CRD of %s has %d bytes, want at most %d", kind, len(text), etcd)
		}
		if len(text) > annotation {
			t.Errorf("the CRD of %s has %d bytes, more than the %d that kubectl apply can keep in an annotation", kind, len(text), annotation)
		}
	}
}

// TestRulesSayWhatToDo: each rule has a message that says what must hold. The two messages of the original
// AutoscalerPolicy are kept as they are.
func TestRulesSayWhatToDo(t *testing.T) {
	for kind, crd := range readCRDs(t) {
		walk(kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
			for _, rule := range schema.XValidations {
				if !strings.Contains(rule.Message, "must ") && !strings.Contains(rule.Message, "requires") {
					t.Errorf("%s: the message does not say what must hold: %q", path, rule.Message)
				}
			}
		})
	}
}

// TestRulesCompileOnOldest compiles every rule with the CEL of Kubernetes 1.27, all that a server of 1.28 takes in a new
// CRD.
func TestRulesCompileOnOldest(t *testing.T) {
	oldest := environment.MustBaseEnvSet(version.MajorMinor(1, 27))
	rules := 0
	for kind, crd := range readCRDs(t) {
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			t.Fatal(err)
		}
		structural, err := structuralschema.NewStructural(&internal)
		if err != nil {
			t.Fatal(err)
		}
		rules += compileRules(t, kind, structural, true, oldest)
	}
	if rules < 50 {
		t.Errorf("compiled %d rules only, the walk misses some", rules)
	}
}

func compileRules(t *testing.T, path string, s *structuralschema.Structural, isRoot bool, env *environment.EnvSet) int {
	t.Helper()
	count := 0
	if len(s.XValidations) > 0 {
		results, err := cel.Compile(s, model.SchemaDeclType(s, isRoot || s.XEmbeddedResource), celconfig.PerCallLimit, env, cel.NewExpressionsEnvLoader())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for i, result := range results {
			count++
			if result.Error != nil {
				t.Errorf("%s: rule %q: %v", path, s.XValidations[i].Rule, result.Error)
			}
		}
	}
	for _, name := range sortedKeys(s.Properties) {
		property := s.Properties[name]
		count += compileRules(t, path+"."+name, &property, false, env)
	}
	if s.Items != nil {
		count += compileRules(t, path+"[]", s.Items, false, env)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		count += compileRules(t, path+"{}", s.AdditionalProperties.Structural, false, env)
	}
	return count
}

// TestRulesAreCheapOnOldest estimates the cost of the rules as Kubernetes 1.28 does, which knows no bound of an
// int-or-string.
func TestRulesAreCheapOnOldest(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	for kind, crd := range readCRDs(t) {
		for i := range crd.Spec.Versions {
			walk(kind, crd.Spec.Versions[i].Schema.OpenAPIV3Schema, func(_ string, schema *apiextensionsv1.JSONSchemaProps) {
				if schema.XIntOrString {
					schema.MaxLength = nil
				}
			})
		}
		scheme.Default(crd)
		internal := &apiextensions.CustomResourceDefinition{}
		if err := scheme.Convert(crd, internal, nil); err != nil {
			t.Fatal(err)
		}
		internal.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
		for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestNamesAndColumns: what kubectl get takes and prints.
func TestNamesAndColumns(t *testing.T) {
	type names struct {
		Plural     string
		ShortNames []string
		Columns    []string
		Scope      apiextensionsv1.ResourceScope
	}
	runtimeColumns := []string{"Disabled", "ModelFormat", "ModelFramework", "ModelFrameworkVersion", "ModelArchitecture", "ModelSizeMin", "ModelSizeMax", "Images", "Age"}
	modelColumns := []string{"Disabled", "Version", "Vendor", "Framework", "FrameworkVersion", "ModelFormat", "Architecture", "Capabilities", "Size", "CompartmentID", "Ready", "Age"}
	want := map[string]names{
		"ResourceScalingGroup": {"resourcescalinggroups", []string{"rsg"},
			[]string{"Strategy", "Desired", "Current", "Ready", "Drift", "Age"}, apiextensionsv1.NamespaceScoped},
		"ElasticScaler": {"elasticscalers", []string{"esc"},
			[]string{"Target", "Trigger", "Min", "Max", "Current", "Desired", "Ready", "Age"}, apiextensionsv1.NamespaceScoped},
		"Tidal": {"tidals", []string{"tidal"},
			[]string{"Target", "Target Name", "Desired Replicas", "Active Rule", "Ready", "Age"}, apiextensionsv1.NamespaceScoped},
		"AutoscalerPolicy":      {"autoscalerpolicies", nil, []string{"Class", "Ready", "Attached", "Age"}, apiextensionsv1.NamespaceScoped},
		"InferenceService":      {"inferenceservices", []string{"isvc"}, []string{"URL", "Ready", "BaseModel", "Runtime", "Age"}, apiextensionsv1.NamespaceScoped},
		"ServingRuntime":        {"servingruntimes", nil, runtimeColumns, apiextensionsv1.NamespaceScoped},
		"BaseModel":             {"basemodels", nil, modelColumns, apiextensionsv1.NamespaceScoped},
		"ClusterServingRuntime": {"clusterservingruntimes", nil, runtimeColumns, apiextensionsv1.ClusterScoped},
		"ClusterBaseModel":      {"clusterbasemodels", nil, modelColumns, apiextensionsv1.ClusterScoped},
	}
	got := map[string]names{}
	for kind, crd := range readCRDs(t) {
		var columns []string
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			columns = append(columns, column.Name)
		}
		got[kind] = names{crd.Spec.Names.Plural, crd.Spec.Names.ShortNames, columns, crd.Spec.Scope}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
