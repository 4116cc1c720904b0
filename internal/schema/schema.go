// Package schema says what the API server would say of an object by its CustomResourceDefinition alone: unknown fields, types,
// and CEL rules. It fills in defaults, as the API server does before admission sees an object.
package schema

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/pd-orchestrator/pd-orchestrator/config/crd"
)

// Schemas are the schemas of a set of kinds. They are safe for concurrent use.
type Schemas struct {
	kinds map[schema.GroupVersionKind]*kindSchema
}

type kindSchema struct {
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
	namespaced bool
}

// Load reads the schemas of the product's kinds.
func Load() (*Schemas, error) {
	s := &Schemas{kinds: map[schema.GroupVersionKind]*kindSchema{}}
	files, err := fs.Glob(crd.Files, "bases/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := crd.Files.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := s.add(text); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
	}
	return s, nil
}

func (s *Schemas) add(text []byte) error {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		return err
	}
	for _, version := range definition.Spec.Versions {
		if version.Schema == nil {
			continue
		}
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return err
		}
		structural, err := structuralschema.NewStructural(&internal)
		if err != nil {
			return err
		}
		validator, _, err := validation.NewSchemaValidator(&internal)
		if err != nil {
			return err
		}
		gvk := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
		s.kinds[gvk] = &kindSchema{
			structural: structural, validator: validator,
			rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
			namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped,
		}
	}
	return nil
}

// Knows reports whether there is a schema for a kind.
func (s *Schemas) Knows(gvk schema.GroupVersionKind) bool { return s.kinds[gvk] != nil }

// Namespaced reports whether objects of a kind are in namespaces.
func (s *Schemas) Namespaced(gvk schema.GroupVersionKind) bool {
	return s.kinds[gvk] != nil && s.kinds[gvk].namespaced
}

// Validate returns everything that speaks against a new object, and fills in the defaults. readable tells that every field has
// the right type, so that the object can be decoded; what has not may lack further findings.
func (s *Schemas) Validate(ctx context.Context, u *unstructured.Unstructured) (errs field.ErrorList, readable bool) {
	k := s.kinds[u.GroupVersionKind()]
	if k == nil {
		return field.ErrorList{field.NotSupported[string](field.NewPath("kind"), u.GroupVersionKind().String(), nil)}, false
	}
	if u.GetName() != "" || u.GetGenerateName() == "" {
		for _, problem := range apivalidation.NameIsDNSSubdomain(u.GetName(), false) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), u.GetName(), problem))
		}
	}
	unknown := pruning.PruneWithOptions(u.Object, k.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(unknown)
	for _, path := range slices.Compact(unknown) {
		errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field: correct its name, or remove it"))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, k.structural)
	defaulting.Default(u.Object, k.structural)
	wrong := validation.ValidateCustomResource(nil, u.Object, k.validator)
	wrong = append(wrong, listtype.ValidateListSetsAndMaps(nil, k.structural, u.Object)...)
	if len(wrong) > 0 {
		return append(errs, wrong...), false
	}
	rules, _ := k.rules.Validate(ctx, nil, k.structural, u.Object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, rules...), true
}
