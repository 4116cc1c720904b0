package scalerspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

// findings are what is wrong with a scaler, and what is allowed but probably not meant.
type findings struct {
	errors   field.ErrorList
	warnings []string
}

// shown is the beginning of a value, for messages.
func shown(text string) string { return fmt.Sprintf("%.200s", text) }

func (f *findings) warn(format string, args ...any) {
	f.warnings = append(f.warnings, fmt.Sprintf(format, args...))
}

var (
	specPath      = field.NewPath("spec")
	triggerPath   = specPath.Child("trigger", "metricsTrigger")
	configPath    = triggerPath.Child("algorithmConfig")
	metricsPath   = triggerPath.Child("metrics")
	behaviorPath  = specPath.Child("behavior")
	annotationKey = field.NewPath("metadata", "annotations").Key
)

// Validate returns every finding about a scaler that the schema cannot make, with the paths of the object, and what is
// allowed but probably not meant.
func Validate(scaler *v1alpha1.ElasticScaler, registry *scaling.Registry) (field.ErrorList, []string) {
	var f findings
	f.annotations(scaler)
	trigger := scaler.Spec.Trigger.MetricsTrigger
	if scaler.Spec.Trigger.Type != v1alpha1.MetricsTriggerType || trigger == nil {
		return f.errors, f.warnings
	}
	f.behavior(scaler)
	for i, m := range trigger.Metrics {
		f.metric(m, metricsPath.Index(i))
	}
	if LacksActivation(scaler.Spec) {
		f.warn("%s is 0, and every metric vanishes with the last pod, so that nothing starts the target again: set it to 1, or add an External or ExternalServer metric that exists without pods",
			specPath.Child("minReplicas"))
	}
	if IsHPA(scaler.Spec) {
		f.hpa(scaler)
	} else {
		f.algorithm(scaler, registry)
	}
	return f.errors, f.warnings
}

// annotations checks the values of our annotations, and whether fields of the spec hide them.
func (f *findings) annotations(scaler *v1alpha1.ElasticScaler) {
	hidden := map[string]*field.Path{}
	if b := scaler.Spec.Behavior; b != nil {
		for name, half := range map[string]*autoscalingv2.HPAScalingRules{"scaleUp": b.ScaleUp, "scaleDown": b.ScaleDown} {
			if half != nil && half.StabilizationWindowSeconds != nil {
				hidden[annotationPrefix+"behavior."+name+".stabilizationWindowSeconds"] = behaviorPath.Child(name, "stabilizationWindowSeconds")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(scaler.Annotations)) {
		if !strings.HasPrefix(name, annotationPrefix) {
			continue
		}
		_, known := annotations[name]
		_, err := readNote(name, scaler.Annotations[name])
		switch {
		case !known:
			f.warn("annotation %s is not known, and has no effect; the known ones are %s", name, strings.Join(slices.Sorted(maps.Keys(annotations)), ", "))
		case err != nil:
			f.errors = append(f.errors, field.Invalid(annotationKey(name), shown(scaler.Annotations[name]), err.Error()))
		case scaler.Spec.Trigger.Type != v1alpha1.MetricsTriggerType:
			f.warn("annotation %s has an effect with a MetricsTrigger only", name)
		case hidden[name] != nil:
			f.warn("annotation %s has no effect, since %s is set", name, hidden[name])
		case IsHPA(scaler.Spec):
			f.warn("annotation %s has no effect with scalingAlgorithm HPA; use %s", name, behaviorPath)
		}
	}
}

// behavior checks what the schema leaves open: tolerances, which a HorizontalPodAutoscaler has since Kubernetes 1.33.
func (f *findings) behavior(scaler *v1alpha1.ElasticScaler) {
	b := scaler.Spec.Behavior
	if b == nil {
		return
	}
	check := func(half *autoscalingv2.HPAScalingRules, name, setting string) {
		if half == nil || half.Tolerance == nil {
			return
		}
		path := behaviorPath.Child(name, "tolerance")
		if half.Tolerance.Sign() < 0 {
			f.errors = append(f.errors, field.Invalid(path, half.Tolerance.String(), "must be 0 or more"))
		}
		if _, ok := scaler.Spec.Trigger.MetricsTrigger.AlgorithmConfig[setting]; ok {
			f.warn("%s has no effect, since %s is set", configPath.Key(setting), path)
		}
	}
	check(b.ScaleUp, "scaleUp", "upTolerance")
	check(b.ScaleDown, "scaleDown", "downTolerance")
}

// metric checks what the schema leaves open: spellings of 0, and expressions.
func (f *findings) metric(m v1alpha1.MetricSpec, path *field.Path) {
	if target := TargetOf(m); !(target.Value > 0) {
		f.errors = append(f.errors, field.Invalid(targetPath(m, path), target.Value, "must be greater than 0"))
	}
	e := m.ExternalServer
	if e == nil || strings.TrimSpace(e.Query) == "" {
		return
	}
	path = path.Child("externalServer", "query")
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(e.Query)
	switch {
	case err != nil:
		f.errors = append(f.errors, field.Invalid(path, shown(e.Query), fmt.Sprintf("must be a PromQL expression: %v", err)))
	case expr.Type() != parser.ValueTypeScalar && expr.Type() != parser.ValueTypeVector:
		f.errors = append(f.errors, field.Invalid(path, shown(e.Query), fmt.Sprintf("must give one number, and gives a %s; wrap it, for example in rate(...) or last_over_time(...)", parser.DocumentedType(expr.Type()))))
	}
}

func targetPath(m v1alpha1.MetricSpec, path *field.Path) *field.Path {
	of := func(block string, t v1alpha1.MetricTarget) *field.Path {
		p := path.Child(block, "target")
		switch {
		case t.AverageUtilization != nil:
			return p.Child("averageUtilization")
		case t.AverageValue != nil:
			return p.Child("averageValue")
		case t.Value != nil:
			return p.Child("value")
		}
		return p
	}
	switch {
	case m.ExternalServer != nil:
		return path.Child("externalServer", "target")
	case m.Resource != nil:
		return of("resource", m.Resource.Target)
	case m.External != nil:
		return of("external", m.External.Target)
	case m.Custom != nil:
		return of("custom", m.Custom.Target)
	}
	return path
}

// algorithm checks the settings of an algorithm of ours or of a plug-in.
func (f *findings) algorithm(scaler *v1alpha1.ElasticScaler, registry *scaling.Registry) {
	trigger := scaler.Spec.Trigger.MetricsTrigger
	config, errs := configOf(trigger)
	a, ok := registry.Lookup(AlgorithmName(trigger))
	if !ok {
		f.warn("%s: %s", triggerPath.Child("scalingAlgorithm"), notRegistered(trigger, registry))
	} else if len(errs) == 0 {
		errs = validateConfig(a, config, trigger.Metrics)
	}
	for _, err := range errs {
		f.errors = append(f.errors, field.Invalid(configPath, field.OmitValueType{}, err.Error()))
	}
	if described, is := a.(scaling.Described); is {
		for _, key := range slices.Sorted(maps.Keys(config)) {
			if known := described.Settings(); !slices.Contains(known, key) {
				f.warn("%s is not read by scalingAlgorithm %s, which reads %s", configPath.Key(key), a.Name(), strings.Join(known, ", "))
			}
		}
	}
	if ok && a.Name() == "KPA" && rules(scaler.Spec.Behavior, notesOf(scaler).up, up, defaultScaleUpWindow).StabilizationWindow > 0 {
		f.warn("%s: KPA answers a burst within its panic window only with %s: 0", triggerPath.Child("scalingAlgorithm"), behaviorPath.Child("scaleUp", "stabilizationWindowSeconds"))
	}
}

// validateConfig asks an algorithm what is wrong with its settings.
func validateConfig(a scaling.ScalingAlgorithm, config map[string]string, metrics []v1alpha1.MetricSpec) (errs []error) {
	v, ok := a.(scaling.Validator)
	if !ok {
		return nil
	}
	infos := make([]scaling.MetricInfo, len(metrics))
	for i, m := range metrics {
		infos[i] = infoOf(m)
	}
	defer func() {
		if p := recover(); p != nil {
			errs = []error{fmt.Errorf("scaling algorithm %s panicked while it checked its settings: %v", a.Name(), p)}
		}
	}()
	return v.Validate(config, infos)
}

func joined(errs []error) string {
	return strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; ")
}

// hpa checks what a HorizontalPodAutoscaler cannot do.
func (f *findings) hpa(scaler *v1alpha1.ElasticScaler) {
	spec := scaler.Spec
	trigger := spec.Trigger.MetricsTrigger
	if ns := spec.TargetRef.Namespace; ns != "" && ns != scaler.Namespace {
		f.errors = append(f.errors, field.Invalid(specPath.Child("targetRef", "namespace"), ns,
			fmt.Sprintf("must be the namespace of the ElasticScaler, %s, with scalingAlgorithm HPA: a HorizontalPodAutoscaler scales targets of its own namespace only", scaler.Namespace)))
	}
	external := false
	for i, m := range trigger.Metrics {
		external = external || m.External != nil
		if m.ExternalServer != nil {
			f.errors = append(f.errors, field.Forbidden(metricsPath.Index(i).Child("externalServer"),
				"a HorizontalPodAutoscaler cannot read one: use External, or another scalingAlgorithm such as APA"))
		}
	}
	if *BoundsOf(spec).Min == 0 {
		path := specPath.Child("minReplicas")
		if external {
			f.warn("%s is 0 with scalingAlgorithm HPA, which needs a cluster with the feature HPAScaleToZero", path)
		} else {
			f.errors = append(f.errors, field.Invalid(path, 0, "must be 1 or more with scalingAlgorithm HPA and no External metric: a HorizontalPodAutoscaler goes to 0 only with one"))
		}
	}
	if len(trigger.AlgorithmConfig) > 0 {
		f.warn("%s has no effect with scalingAlgorithm HPA; use %s", configPath, behaviorPath)
	}
}
