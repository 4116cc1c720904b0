package view

import "io"

// Node is an object and what belongs to it.
type Node struct {
	Object Reference `json:"object"`
	// State is how it is, in a few words.
	State string `json:"state,omitempty"`
	// Trouble tells that State is nothing that somebody would want.
	Trouble bool `json:"trouble,omitempty"`
	// Role is what it is to its parent, such as "group 1" or "scaled by".
	Role     string  `json:"role,omitempty"`
	Children []*Node `json:"children,omitempty"`
}

// Add adds a child and returns it.
func (n *Node) Add(child *Node) *Node {
	n.Children = append(n.Children, child)
	return child
}

// Print draws the tree.
func (n *Node) Print(w io.Writer, style Style) error {
	p := &printer{w: w}
	n.print(p, style, "", "", n.Object.Namespace)
	return p.err
}

// print draws a node. Namespaces are told where they differ from the parent's.
func (n *Node) print(p *printer, style Style, first, rest, namespace string) {
	ref := n.Object
	if ref.Namespace == namespace && first != "" {
		ref.Namespace = ""
	}
	text := ""
	if n.Role != "" {
		text = n.Role + ": "
	}
	if ref.Name == "" {
		text = n.Role
	} else {
		text += ref.String()
	}
	if n.State != "" {
		state := n.State
		if n.Trouble {
			state = style.Bad(state)
		}
		text += "  " + state
	}
	p.line("%s%s", first, text)
	for i, child := range n.Children {
		branch, below := "├─ ", "│  "
		if i == len(n.Children)-1 {
			branch, below = "└─ ", "   "
		}
		child.print(p, style, rest+branch, rest+below, n.namespaceOr(namespace))
	}
}

// namespaceOr is the namespace of the node, or of what it is in.
func (n *Node) namespaceOr(namespace string) string {
	if n.Object.Name == "" || n.Object.Namespace == "" {
		return namespace
	}
	return n.Object.Namespace
}
