package render

import (
	"bytes"
	"errors"
	"fmt"
	"text/template"
	"text/template/parse"
)

// The bounds of a template, of what it is rendered to, and of how far it goes.
const (
	MaxTemplate = 1 << 20 // bytes
	MaxOutput   = 1 << 20 // bytes
	maxSteps    = 20_000  // turns of loops, and calls of templates
)

// Data is what a template sees.
type Data struct {
	Agent, Version, Server string
	State, Image, Config   string // directories
	Labels, Metadata       map[string]string
}

func (d Data) names() map[string]any {
	return map[string]any{
		"agent": d.Agent, "version": d.Version, "server": d.Server, "state": d.State, "image": d.Image, "config": d.Config,
		"labels": values(d.Labels), "metadata": values(d.Metadata),
	}
}

// values is never nil: in nothing every name would be there.
func values(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// Template is a template that can be rendered as often as one likes.
type Template struct{ root *template.Template }

// Parse reads a template. name is for errors.
func Parse(name, text string) (*Template, error) {
	if len(text) > MaxTemplate {
		return nil, fmt.Errorf("template %s has %d bytes; %d are the most", name, len(text), MaxTemplate)
	}
	root, err := template.New(name).Option("missingkey=error").Funcs(functions(nil)).Parse(text)
	if err != nil {
		return nil, err
	}
	for _, t := range root.Templates() {
		if t.Tree != nil {
			count(t.Tree.Root)
		}
	}
	return &Template{root: root}, nil
}

// Render gives what the template becomes.
func (t *Template) Render(d Data) ([]byte, error) {
	steps := 0
	root, err := t.root.Clone()
	if err != nil {
		return nil, err
	}
	root.Funcs(functions(func() (string, error) {
		if steps++; steps > maxSteps {
			return "", fmt.Errorf("it takes more than %d steps", maxSteps)
		}
		return "", nil
	}))
	var out bounded
	if err := root.Execute(&out, d.names()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// bounded takes what a template writes, up to MaxOutput.
type bounded struct{ bytes.Buffer }

var errLarge = errors.New("the output is too large")

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > MaxOutput {
		return 0, fmt.Errorf("%w: %d bytes are the most", errLarge, MaxOutput)
	}
	return b.Buffer.Write(p)
}

// stepName is the function that counts. A template that calls it by itself only counts more.
const stepName = "step"

// count puts a step at the start of each list of nodes: of a template, and of what its
// loops do in each turn. So nothing goes on for ever without one.
func count(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.RangeNode:
			count(n.List)
			count(n.ElseList)
		case *parse.IfNode:
			count(n.List)
			count(n.ElseList)
		case *parse.WithNode:
			count(n.List)
			count(n.ElseList)
		}
	}
	list.Nodes = append([]parse.Node{aStep()}, list.Nodes...)
}

func aStep() parse.Node {
	trees, err := parse.Parse("", "{{"+stepName+"}}", "", "", map[string]any{stepName: ""})
	if err != nil {
		panic(err) // the text above is fixed
	}
	return trees[""].Root.Nodes[0]
}
