package policyspec

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"
)

// query says what is wrong with a query, "" for nothing. A comparison with bool binds weaker than arithmetic, so that
// `sum(x) > bool 0 * 8` compares with 0 * 8 and is 0 or 1, where 0 or 8 is meant. Where the arithmetic is on plain numbers
// only, it can hardly be meant as a threshold.
func query(text string) string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return fmt.Sprintf("rendered query does not parse as PromQL: %v", err)
	}
	for _, e := range folded(expr) {
		if numbersOnly(e.RHS) {
			return fmt.Sprintf("comparison %q folds the arithmetic into its threshold (%q) - parenthesize the comparison, e.g. (sum(...) > bool N) * M", e, e.RHS)
		}
	}
	return ""
}

// foldedSeries returns the comparisons with bool whose right side is arithmetic that reads series.
func foldedSeries(text string) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range folded(expr) {
		if !numbersOnly(e.RHS) {
			all = append(all, e.String())
		}
	}
	return all
}

// folded returns the comparisons with bool whose right side is arithmetic without parentheses around it.
func folded(expr parser.Expr) []*parser.BinaryExpr {
	var all []*parser.BinaryExpr
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if e, ok := node.(*parser.BinaryExpr); ok && e.ReturnBool && e.Op.IsComparisonOperator() {
			if right, ok := e.RHS.(*parser.BinaryExpr); ok && !right.Op.IsComparisonOperator() {
				all = append(all, e)
			}
		}
		return nil
	})
	return all
}

func numbersOnly(expr parser.Expr) bool {
	switch e := expr.(type) {
	case *parser.NumberLiteral:
		return true
	case *parser.ParenExpr:
		return numbersOnly(e.Expr)
	case *parser.StepInvariantExpr:
		return numbersOnly(e.Expr)
	case *parser.UnaryExpr:
		return numbersOnly(e.Expr)
	case *parser.BinaryExpr:
		return numbersOnly(e.LHS) && numbersOnly(e.RHS)
	}
	return false
}
