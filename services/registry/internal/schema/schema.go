// Package schema checks merged metadata against the JSON schema of an agent. It is pure.
//
// Guarantees:
//
//  1. A schema is whole: it refers to nothing outside of itself, and nothing is loaded.
//  2. A check ends: references form no cycle, and followed they are at most MaxNodes parts.
//  3. No problem holds a value whose name is among the secret ones.
package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// The limits of a schema.
const (
	MaxBytes = 16 << 10
	MaxNodes = 4096 // values in it, those behind references counted at each of them
	maxWhat  = 200  // bytes of one problem
)

// location is where the compiler finds the schema; it loads nothing else.
const location = "garrison:schema"

// Schema is a schema that can be checked against.
type Schema struct{ root *jsonschema.Schema }

// nothing loads no schema.
type nothing struct{}

// Load implements jsonschema.URLLoader.
func (nothing) Load(string) (any, error) {
	return nil, errors.New("a schema cannot refer to another one")
}

// Compile reads a schema. An error is a refusal BAD_SCHEMA.
func Compile(text string) (*Schema, error) {
	if len(text) > MaxBytes {
		return nil, refuse("it has %d bytes; %d are the most", len(text), MaxBytes)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, refuse("it is not valid JSON: %v", err)
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, refuse("it is not a JSON object")
	}
	if err := bounded(doc); err != nil {
		return nil, refuse("%v", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	c.AssertFormat()
	if err := c.AddResource(location, doc); err != nil {
		return nil, refuse("%v", err)
	}
	root, err := c.Compile(location)
	if err != nil {
		return nil, refuse("%v", err)
	}
	return &Schema{root}, nil
}

// Problem is one way in which values break a schema.
type Problem struct {
	Path []string // of the value, or of the key that is missing or too much
	What string
	// Lacks means that something is missing there, which another level of the metadata may set.
	Lacks bool
}

// Check returns how values break the schema, by path. Values under the secret names are not part of any text.
func (s *Schema) Check(values map[string]any, secret func(name string) bool) []Problem {
	var failed *jsonschema.ValidationError
	err := s.root.Validate(values)
	if err == nil {
		return nil
	}
	if !errors.As(err, &failed) {
		return []Problem{{What: "it cannot be checked"}}
	}
	out := leaves(nil, failed, secret)
	slices.SortFunc(out, func(a, b Problem) int {
		return slices.Compare(append(slices.Clone(a.Path), a.What), append(slices.Clone(b.Path), b.What))
	})
	return slices.CompactFunc(out, func(a, b Problem) bool { return slices.Equal(a.Path, b.Path) && a.What == b.What })
}

var printer = message.NewPrinter(language.English)

// leaves appends the innermost problems.
func leaves(out []Problem, e *jsonschema.ValidationError, secret func(string) bool) []Problem {
	for _, cause := range e.Causes {
		out = leaves(out, cause, secret)
	}
	if len(e.Causes) > 0 {
		return out
	}
	path, what := slices.Clone(e.InstanceLocation), e.ErrorKind.LocalizedString(printer)
	if len(path) > 0 && secret(path[0]) {
		what = "the secret breaks " + strings.Join(e.ErrorKind.KeywordPath(), "/")
		return append(out, Problem{path, what, lacks(e)})
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			out = append(out, Problem{append(slices.Clone(path), name), "is required and missing", true})
		}
		return out
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			out = append(out, Problem{append(slices.Clone(path), name), "is not a property of the schema", false})
		}
		return out
	}
	if len(what) > maxWhat {
		what = strings.ToValidUTF8(what[:maxWhat], "") + "…"
	}
	return append(out, Problem{path, what, lacks(e)})
}

// lacks reports whether a problem is that something is missing.
func lacks(e *jsonschema.ValidationError) bool {
	switch e.ErrorKind.(type) {
	case *kind.Required, *kind.MinProperties, *kind.DependentRequired, *kind.Dependency:
		return true
	}
	return false
}

func refuse(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadSchema, "the JSON schema cannot be used: %s",
		fmt.Sprintf(format, args...))
}
