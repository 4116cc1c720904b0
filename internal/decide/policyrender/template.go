// Package policyrender answers what an AutoscalerPolicy means for one component: the policy with the component's names and
// bounds and the bindings of this cluster filled in, and the digests by which specs and renders are told apart. The
// same policy, component and bindings always give the same render.
package policyrender

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template/parse"
)

// Variables are the values that may stand in the metadata of a trigger. None has a character that PromQL or its regular
// expressions would read as more than itself: namespaces and names are made of lower case letters, digits and '-'.
type Variables struct {
	// Namespace and ISVCName are those of the InferenceService.
	Namespace, ISVCName string
	// Component is engine, decoder or router.
	Component string
	// MinReplicas and MaxReplicas are the bounds in effect.
	MinReplicas, MaxReplicas int32
	// TargetName is the name of the component: that of the service and of the component, joined by '-'.
	TargetName string
}

// variableNames are all variables, in the order in which they are documented.
var variableNames = []string{"Namespace", "ISVCName", "Component", "MinReplicas", "MaxReplicas", "TargetName"}

func (v Variables) value(name string) string {
	switch name {
	case "Namespace":
		return v.Namespace
	case "ISVCName":
		return v.ISVCName
	case "Component":
		return v.Component
	case "MinReplicas":
		return strconv.Itoa(int(v.MinReplicas))
	case "MaxReplicas":
		return strconv.Itoa(int(v.MaxReplicas))
	default:
		return v.TargetName
	}
}

// ErrForbidden says that a text uses more of the template language than its variables.
var ErrForbidden = errors.New("forbidden template construct")

// Template is a text with variables.
type Template struct {
	parts []part
}

// part is literal text, or the name of a variable.
type part struct {
	text, variable string
}

// Parse reads a text in the syntax of Go's text/template. The error is ErrForbidden for anything but literal text and the
// variables, and another for a text that has no meaning at all.
func Parse(text string) (Template, error) {
	const name = "value"
	tree := parse.New(name)
	// What functions there are does not matter: none is allowed.
	tree.Mode = parse.SkipFuncCheck | parse.ParseComments
	trees := map[string]*parse.Tree{}
	tree, err := tree.Parse(text, "", "", trees)
	if err != nil {
		return Template{}, errors.New(strings.TrimPrefix(err.Error(), "template: "+name+":"))
	}
	delete(trees, name)
	if len(trees) > 0 {
		return Template{}, fmt.Errorf("%w {{define}}: allowed are %s", ErrForbidden, allowed())
	}
	var t Template
	for _, node := range tree.Root.Nodes {
		p, err := read(node)
		if err != nil {
			return Template{}, err
		}
		t.parts = append(t.parts, p)
	}
	return t, nil
}

func read(node parse.Node) (part, error) {
	if text, ok := node.(*parse.TextNode); ok {
		return part{text: string(text.Text)}, nil
	}
	field := onlyField(node)
	if field == nil {
		return part{}, fmt.Errorf("%w %s: allowed are %s", ErrForbidden, node, allowed())
	}
	for _, name := range variableNames {
		if len(field.Ident) == 1 && field.Ident[0] == name {
			return part{variable: name}, nil
		}
	}
	return part{}, fmt.Errorf("%w: unknown template variable %s: allowed variables are %s", ErrForbidden, field, allowed())
}

// onlyField returns the field of a node that is {{ .Field }} and nothing more, or nil.
func onlyField(node parse.Node) *parse.FieldNode {
	action, ok := node.(*parse.ActionNode)
	if !ok || len(action.Pipe.Decl) > 0 || len(action.Pipe.Cmds) != 1 || len(action.Pipe.Cmds[0].Args) != 1 {
		return nil
	}
	field, _ := action.Pipe.Cmds[0].Args[0].(*parse.FieldNode)
	return field
}

func allowed() string {
	return "." + strings.Join(variableNames, ", .")
}

// Render fills the variables in.
func (t Template) Render(v Variables) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.variable != "" {
			b.WriteString(v.value(p.variable))
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}
