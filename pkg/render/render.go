// Package render makes an agent's configuration files from their templates, in Go's
// text/template language. It is pure: a template sees its Data and nothing else.
//
// A value of .metadata that is JSON is what it holds: a number, a bool, a list to range over, or an object, as in
// .metadata.log.file.path. An action prints a list or an object as JSON; print and printf do not.
//
// Functions beside the comparisons and the logic that the language has: print, println;
// printf, in which a missing or unused argument is an error; quote, which writes text as a
// JSON string; json; lookup MAP NAME DEFAULT, which returns a value whose name is no
// identifier, or may be missing; and index, of a list or a map. Without a default a missing one is an error, as in
// .metadata.NAME.
//
// Guarantees:
//
//  1. The same template with the same data renders the same bytes.
//  2. A name that is not there is an error, never an empty text.
//  3. Rendering ends: loops and templates that call each other have a budget of steps, the whole has
//     a budget of time, and no action begins after it.
//  4. Memory is bounded before it is used: each text and the output have at most MaxOutput bytes, all
//     texts together eight times that. The widths and precisions of printf are known before it makes a
//     text.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/garrison-fleet/garrison/pkg/metadata"
)

// The bounds of a template. Conditions and loops may be nested, and each level needs stack.
const (
	MaxTemplate = 1 << 20 // bytes
	maxControls = 4096    // conditions, loops and definitions
)

// control finds the beginning of each action that can be nested.
var control = regexp.MustCompile(`\{\{-?\s*(if|else|with|range|define|block)\b`)

// Data is what a template sees.
type Data struct {
	Agent, Version, Server string
	State, Image, Config   string // directories
	Labels, Metadata       map[string]string
}

func (d Data) names() map[string]any {
	return map[string]any{
		"agent": d.Agent, "version": d.Version, "server": d.Server,
		"state": d.State, "image": d.Image, "config": d.Config,
		"labels": values(d.Labels), "metadata": d.metadata(),
	}
}

// metadata returns the metadata as text, or, when some of it is JSON, as what it holds.
func (d Data) metadata() any {
	for _, value := range d.Metadata {
		if metadata.IsNested(value) {
			return typed(metadata.Object(d.Metadata))
		}
	}
	return values(d.Metadata)
}

// typed replaces each number by one that a template can compare and print.
func typed(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".e") {
			return f
		}
		return v.String() // of 64 bits without a sign
	case []any:
		for n := range v {
			v[n] = typed(v[n])
		}
	case map[string]any:
		for k := range v {
			v[k] = typed(v[k])
		}
	}
	return v
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
	if n := len(control.FindAllStringIndex(text, maxControls+1)); n > maxControls {
		return nil, fmt.Errorf("template %s has more than %d conditions, loops and definitions", name, maxControls)
	}
	root, err := template.New(name).Option("missingkey=error").Funcs(functions(&budget{})).Parse(text)
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

// Render returns what the template becomes.
func (t *Template) Render(d Data) ([]byte, error) {
	return t.render(d, time.Now)
}

func (t *Template) render(d Data, now func() time.Time) ([]byte, error) {
	root, err := t.root.Clone()
	if err != nil {
		return nil, err
	}
	root.Funcs(functions(newBudget(now)))
	var out bounded
	if err := root.Execute(&out, d.names()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// bounded takes what a template writes, up to MaxOutput.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > MaxOutput {
		return 0, errLarge
	}
	return b.Buffer.Write(p)
}

// The functions that count. A template that calls one by itself only counts more.
const (
	stepName = "step"
	tickName = "tick"
	showName = "show"
)

// count puts a step at the start of each list of nodes, of a template and of what its loops do in each turn, and a tick
// before each further action; what an action prints goes through show. So every loop runs out of steps, and no action
// begins after the time.
func count(list *parse.ListNode) {
	if list == nil {
		return
	}
	nodes := []parse.Node{call(stepName)}
	for n, node := range list.Nodes {
		if _, text := node.(*parse.TextNode); !text && n > 0 {
			nodes = append(nodes, call(tickName))
		}
		nodes = append(nodes, node)
		switch node := node.(type) {
		case *parse.ActionNode:
			if len(node.Pipe.Decl) == 0 {
				show := call(showName).(*parse.ActionNode)
				node.Pipe.Cmds = append(node.Pipe.Cmds, show.Pipe.Cmds...)
			}
		case *parse.RangeNode:
			count(node.List)
			count(node.ElseList)
		case *parse.IfNode:
			count(node.List)
			count(node.ElseList)
		case *parse.WithNode:
			count(node.List)
			count(node.ElseList)
		}
	}
	list.Nodes = nodes
}

// call returns the action that calls a function.
func call(function string) parse.Node {
	trees, err := parse.Parse("", "{{"+function+"}}", "", "", map[string]any{function: ""})
	if err != nil {
		panic(err) // the text above is fixed
	}
	return trees[""].Root.Nodes[0]
}
