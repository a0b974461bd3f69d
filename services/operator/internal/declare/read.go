package declare

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/nearest"
)

// The limits of a file.
const (
	MaxFile  = 64 << 20
	maxDepth = 16
	format   = "1"
)

// File is the name and the content of a file.
type File struct {
	Name string
	Data []byte
}

// Read returns what files declare together. An object may be in one file only, and all files have the same owner.
func Read(files []File) (*Set, error) {
	r := &reader{set: &Set{}, seen: map[string]Position{}}
	for _, f := range files {
		r.file = f.Name
		if err := r.read(f.Data); err != nil {
			return nil, err
		}
	}
	if r.set.Owner == "" {
		r.set.Owner = DefaultOwner
	}
	if len(r.set.Objects) == 0 {
		return nil, fault.Refusef(fault.Invalid, code.BadDeclaration, "the files declare nothing").
			Try("garrison export shows the form")
	}
	return r.set, nil
}

type reader struct {
	set  *Set
	file string
	seen map[string]Position
}

// wrong refuses something at a node.
func (r *reader) wrong(n *yaml.Node, text string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadDeclaration, "%s:%d: %s", r.file, n.Line, fmt.Sprintf(text, args...))
}

func (r *reader) read(data []byte) error {
	if len(data) > MaxFile {
		return fault.Refusef(fault.Invalid, code.BadDeclaration, "%s has %d bytes; %d are the most", r.file, len(data),
			MaxFile)
	}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fault.Refusef(fault.Invalid, code.BadDeclaration, "%s: %v", r.file, err)
		}
		if err := r.plain(&doc, 0); err != nil {
			return err
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue // an empty document
		}
		if err := r.document(doc.Content[0]); err != nil {
			return err
		}
	}
}

// plain refuses what makes YAML more than a tree of values: aliases, anchors, merge keys, tags, and great depth.
func (r *reader) plain(n *yaml.Node, depth int) error {
	switch {
	case depth > maxDepth:
		return r.wrong(n, "more than %d levels", maxDepth)
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return r.wrong(n, "anchors and aliases are not accepted; write the value out")
	case n.Tag == "!!merge":
		return r.wrong(n, "the merge key << is not accepted; write the values out")
	case n.Style&yaml.TaggedStyle != 0 && n.Tag != jsonTag:
		return r.wrong(n, "the tag %s is not accepted; quote a text that looks like a number", n.Tag)
	}
	for _, c := range n.Content {
		if err := r.plain(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// pairs calls f for each key of a mapping, and refuses one that is there twice.
func (r *reader) pairs(n *yaml.Node, what string, f func(key, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return r.wrong(n, "%s is not a mapping of keys to values", what)
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return r.wrong(key, "a key of %s is not a text", what)
		}
		if line, twice := seen[key.Value]; twice {
			return r.wrong(key, "%s has the key %q twice; the first is in line %d", what, key.Value, line)
		}
		seen[key.Value] = key.Line
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// unknownKey refuses a key and names the nearest one.
func (r *reader) unknownKey(key *yaml.Node, what string, known []string) error {
	err := fault.Refusef(fault.Invalid, code.BadRecipe, "%s:%d: %s has no key %q", r.file, key.Line, what, key.Value)
	return err.Near(nearest.Name(key.Value, slices.Values(known)))
}

func (r *reader) document(n *yaml.Node) error {
	known := []string{"format", "owner"}
	for _, k := range Kinds {
		if k != Defaults {
			known = append(known, k.Section)
		}
	}
	version := false
	err := r.pairs(n, "the file", func(key, value *yaml.Node) error {
		for _, k := range Kinds {
			if k.Section == key.Value && k != Defaults {
				return r.section(k, value)
			}
		}
		switch key.Value {
		case "format":
			if version = true; value.Value != format {
				return r.wrong(value, "format %q is not known (want %s)", value.Value, format)
			}
			return nil
		case "owner":
			return r.owner(value)
		}
		return r.unknownKey(key, "the file", known)
	})
	if err == nil && !version {
		return r.wrong(n, "the key format is missing (want format: %s)", format)
	}
	return err
}

func (r *reader) owner(value *yaml.Node) error {
	if err := ident.CheckName("owner", value.Value); err != nil || value.Kind != yaml.ScalarNode {
		return r.wrong(value, "owner %q is not a name", value.Value)
	}
	if have := r.set.Owner; have != "" && have != value.Value {
		return r.wrong(value, "owner is %q here and %q before; apply the files of one owner at a time", value.Value,
			have)
	}
	r.set.Owner = value.Value
	return nil
}

func (r *reader) section(k *Kind, n *yaml.Node) error {
	if n.Tag == "!!null" {
		return nil // an empty section
	}
	return r.pairs(n, k.Section, func(key, value *yaml.Node) error {
		id := k.Section + "\x00" + key.Value
		if before, twice := r.seen[id]; twice {
			return r.wrong(key, "%s %q is declared twice; the first is in %s:%d", k.Word, key.Value, before.File,
				before.Line)
		}
		r.seen[id] = Position{r.file, key.Line}
		check := ident.CheckName
		if k == Servers {
			check = ident.CheckHostname
		}
		if err := check(k.Word, key.Value); err != nil {
			return r.wrong(key, "%v", err)
		}
		o := r.add(k, key.Value, key)
		switch {
		case value.Tag == "!!null" && k != LabelRules:
			return nil // an object without fields
		case k == Environments:
			return r.environment(o, value)
		case k == LabelRules:
			return r.labelRule(o, value)
		}
		return r.object(o, value)
	})
}

// add adds an object that is declared at a node.
func (r *reader) add(k *Kind, name string, at *yaml.Node) *Object {
	o := &Object{
		Kind: k, Name: name, Record: k.Blank(), Paths: map[string]bool{}, At: Position{r.file, at.Line},
	}
	r.set.Objects = append(r.set.Objects, o)
	return o
}
