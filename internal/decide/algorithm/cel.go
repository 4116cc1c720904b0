package algorithm

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
	"k8s.io/utils/lru"

	"github.com/pd-orchestrator/pd-orchestrator/pkg/scaling"
)

const (
	expressionSetting = "expression"
	// maxExpression is the longest expression, in bytes.
	maxExpression = 4096
	// costLimit is what one evaluation may cost at most, in the units of CEL, of which a comparison or a look-up takes one:
	// a few milliseconds.
	costLimit = 100_000
	// programsKept is how many expressions are kept ready for use.
	programsKept = 1024
	// maxMetrics is how many metrics an object may have, and maxName how long their names may be.
	maxMetrics, maxName = 100, 253
)

// celAlgorithm computes the count by an expression of the Common Expression Language that the user writes.
type celAlgorithm struct {
	env      *cel.Env
	programs *lru.Cache // of *program by expression
}

// celMetric is what an expression sees of a metric.
type celMetric struct {
	Value       float64 `cel:"value"`
	Target      float64 `cel:"target"`
	Load        float64 `cel:"load"`
	Base        float64 `cel:"base"`
	Average     float64 `cel:"average"`
	AverageLoad float64 `cel:"averageLoad"`
}

// program is an expression that is ready for use.
type program struct {
	expression string
	run        cel.Program
}

func newCEL() (*celAlgorithm, error) {
	metric := reflect.TypeFor[celMetric]()
	env, err := cel.NewEnv(
		ext.NativeTypes(ext.ParseStructTags(true), metric),
		ext.Math(),
		cel.Variable("metrics", cel.MapType(cel.StringType, cel.ObjectType("algorithm.celMetric"))),
		cel.Variable("replicas", cel.IntType),
		cel.Variable("min", cel.IntType),
		cel.Variable("max", cel.IntType),
		cel.Variable("now", cel.TimestampType),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(64),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing the expressions of algorithm CEL: %w", err)
	}
	return &celAlgorithm{env: env, programs: lru.New(programsKept)}, nil
}

// Name implements scaling.ScalingAlgorithm.
func (*celAlgorithm) Name() string { return "CEL" }

// Settings implements scaling.Described.
func (*celAlgorithm) Settings() []string { return []string{expressionSetting} }

// Validate implements scaling.Validator.
func (c *celAlgorithm) Validate(config map[string]string, metrics []scaling.MetricInfo) []error {
	var errs []error
	names := make([]string, len(metrics))
	for i, m := range metrics {
		if names[i] = m.Name; slices.Contains(names[:i], m.Name) {
			errs = append(errs, fmt.Errorf("with CEL each metric must have a name of its own, and %q is the name of several", m.Name))
		}
	}
	checked, err := c.check(config)
	if err != nil {
		return append(errs, err)
	}
	for _, name := range metricsOf(checked) {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("%s uses metric %q, which is none of the metrics %s", expressionSetting, name, strings.Join(names, ", ")))
		}
	}
	return errs
}

// check parses an expression, checks its types and estimates what it costs.
func (c *celAlgorithm) check(config map[string]string) (*cel.Ast, error) {
	expression := strings.TrimSpace(config[expressionSetting])
	if expression == "" {
		return nil, fmt.Errorf("%s must be set to the expression that computes the count, such as metrics[\"qps\"].value / 100.0", expressionSetting)
	}
	checked, issues := c.env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%s is no valid CEL expression: %s", expressionSetting, inWords(issues.Errors()))
	}
	if t := checked.OutputType(); !t.IsExactType(cel.IntType) && !t.IsExactType(cel.DoubleType) {
		return nil, fmt.Errorf("%s must give an int or a double, and gives %s", expressionSetting, t)
	}
	estimate, err := c.env.EstimateCost(checked, sizes{})
	if err != nil {
		return nil, fmt.Errorf("estimating the cost of %s: %w", expressionSetting, err)
	}
	if estimate.Max > costLimit {
		return nil, fmt.Errorf("%s may cost too much: up to %d units, and %d are allowed; nest fewer loops over metrics", expressionSetting, estimate.Max, costLimit)
	}
	return checked, nil
}

// inWords names the first few errors with their places: all of them, each with the expression, would fill pages.
func inWords(errs []*cel.Error) string {
	var words []string
	for i, err := range errs {
		if i == 3 {
			words = append(words, fmt.Sprintf("and %d more", len(errs)-i))
			break
		}
		words = append(words, fmt.Sprintf("line %d, column %d: %.200s", err.Location.Line(), err.Location.Column()+1, err.Message))
	}
	return strings.Join(words, "; ")
}

// CalculateDesiredReplicas implements scaling.ScalingAlgorithm.
func (c *celAlgorithm) CalculateDesiredReplicas(ctx context.Context, in scaling.Input) (scaling.Result, error) {
	p, ok := in.State.(*program)
	if !ok || p.expression != in.Config[expressionSetting] {
		var err error
		if p, err = c.program(in.Config); err != nil {
			return scaling.Result{}, err
		}
	}
	metrics := make(map[string]celMetric, len(in.Metrics))
	for _, m := range in.Metrics {
		if m.Missing || len(m.Samples) == 0 {
			continue
		}
		newest := m.Samples[len(m.Samples)-1]
		metrics[m.Name] = celMetric{
			Value: newest.Value, Target: m.Target, Load: newest.Load, Base: newest.Base,
			Average:     mean(m.Samples, in.Now, in.Window, func(s scaling.Sample) float64 { return s.Value }),
			AverageLoad: meanLoad(m.Samples, in.Now, in.Window),
		}
	}
	out, _, err := p.run.ContextEval(ctx, map[string]any{
		"metrics": metrics, "replicas": int64(in.CurrentReplicas), "min": int64(in.MinReplicas), "max": int64(in.MaxReplicas), "now": in.Now,
	})
	if err != nil {
		return scaling.Result{}, explain(err, in.Metrics)
	}
	var x float64
	switch v := out.(type) {
	case types.Int:
		x = float64(v)
	case types.Double:
		x = float64(v)
	}
	if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
		return scaling.Result{}, fmt.Errorf("%s gave %v, which is no count: it must be finite and 0 or more; math.greatest(0, ...) may help", expressionSetting, out.Value())
	}
	return scaling.Result{Replicas: ceil(x), Message: fmt.Sprintf("the expression gave %s", show(x)), State: p}, nil
}

// program returns an expression ready for use, and keeps it.
func (c *celAlgorithm) program(config map[string]string) (*program, error) {
	expression := config[expressionSetting]
	if p, ok := c.programs.Get(expression); ok {
		return p.(*program), nil
	}
	checked, err := c.check(config)
	if err != nil {
		return nil, err
	}
	run, err := c.env.Program(checked, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(100), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", expressionSetting, err)
	}
	p := &program{expression: expression, run: run}
	c.programs.Add(expression, p)
	return p, nil
}

// explain names the metric whose absence an expression did not expect.
func explain(err error, metrics []scaling.Metric) error {
	for _, m := range metrics {
		if m.Missing && strings.HasSuffix(err.Error(), "no such key: "+m.Name) {
			return fmt.Errorf("%s needs metric %q, which has no value now; ask %q in metrics first where it may be left out", expressionSetting, m.Name, m.Name)
		}
	}
	return fmt.Errorf("evaluating %s: %w", expressionSetting, err)
}

// metricsOf returns the names of metrics that an expression spells out.
func metricsOf(checked *cel.Ast) []string {
	var names []string
	ofMetrics := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "metrics" }
	ast.PostOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.SelectKind && ofMetrics(e.AsSelect().Operand()) {
			names = append(names, e.AsSelect().FieldName())
		}
		if e.Kind() != ast.CallKind {
			return
		}
		// m[name] and name in m
		call := e.AsCall()
		for function, of := range map[string]int{"_[_]": 0, "@in": 1} {
			if args := call.Args(); call.FunctionName() == function && len(args) == 2 && ofMetrics(args[of]) {
				if name, ok := literal(args[1-of]); ok {
					names = append(names, name)
				}
			}
		}
	}))
	return names
}

func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// sizes tells the estimate of costs how large the variables can be.
type sizes struct{}

func (sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	switch path := node.Path(); {
	case len(path) == 1 && path[0] == "metrics":
		return &cost.SizeEstimate{Max: maxMetrics}
	case len(path) == 2 && path[1] == "@keys":
		return &cost.SizeEstimate{Max: maxName}
	}
	return nil
}

func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
