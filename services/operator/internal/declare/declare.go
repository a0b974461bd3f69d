// Package declare is the inventory as YAML: the form of the files, and what an apply of them changes. It is pure.
//
// A file has a section for each kind, and in it the objects by name. The keys of an object are the JSON names of the
// fields of its proto, so that a new field of a record is read and written without a change here.
//
// Guarantees:
//
//  1. Write is deterministic: equal objects have equal bytes. Read returns what Write wrote.
//  2. Read refuses, with file and line: unknown and repeated keys, values of another form, aliases, anchors, tags, deep
//     and large input.
//  3. Compare changes only fields that the owner declares, or declared before and that still have the value that it
//     set. A field that another owner declares with another value is a conflict.
//  4. Comparing again after its changes were made finds nothing.
package declare

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Kind is one kind of object in a file.
type Kind struct {
	Section string               // the key of its section
	Word    string               // the noun, for messages
	Fixed   []protoreflect.Name  // fields that never change after the creation
	Blank   func() proto.Message // an empty record

	shown  []protoreflect.Name // the only fields of a file; nil means all but hidden ones
	hidden []protoreflect.Name
}

// hiddenFields are the fields of a declared record that operators do not set. A default of an environment is an object
// of its own.
var hiddenFields = []protoreflect.Name{
	"name", "created_at", "changed_at", "changed_by", "changed", "revision", "owners", "defaults", "braked",
}

// The kinds.
var (
	Channels = &Kind{
		Section: "channels", Word: "channel", Blank: func() proto.Message { return &channelv1.Channel{} },
		shown: []protoreflect.Name{"description"}, Fixed: []protoreflect.Name{"description"},
	}
	Applications = &Kind{
		Section: "applications", Word: "application",
		Blank: func() proto.Message { return &applicationv1.Application{} }, hidden: hiddenFields,
	}
	Agents = &Kind{
		Section: "agents", Word: "agent", Blank: func() proto.Message { return &agentv1.Agent{} },
		hidden: hiddenFields, Fixed: []protoreflect.Name{"kind"},
	}
	Environments = &Kind{
		Section: "environments", Word: "environment",
		Blank: func() proto.Message { return &environmentv1.Environment{} },
		// A freeze is of a moment: no file has it, and no apply ends it.
		hidden: append(slices.Clone(hiddenFields), "freezes"),
	}
	Defaults = &Kind{ // named ENVIRONMENT/AGENT; in a file, the key defaults of an environment
		Section: "defaults", Word: "default", Blank: func() proto.Message { return &environmentv1.Default{} },
		shown: []protoreflect.Name{"image", "metadata", "reach"},
	}
	LabelRules = &Kind{
		Section: "labelRules", Word: "label rule", Blank: func() proto.Message { return &labelrulev1.LabelRule{} },
		shown: []protoreflect.Name{"when", "labels"},
	}
	Servers = &Kind{
		Section: "servers", Word: "server", Blank: func() proto.Message { return &serverv1.Server{} },
		shown: []protoreflect.Name{"id", "cell", "ownership", "environment", "labels"},
		Fixed: []protoreflect.Name{"id", "cell", "ownership"},
	}
)

// Kinds lists the kinds in the order in which objects are created: each refers to earlier ones only.
var Kinds = []*Kind{Channels, Applications, Agents, Environments, Defaults, LabelRules, Servers}

// fields returns the fields that a file may have, in the order of their declaration.
func (k *Kind) fields() []protoreflect.FieldDescriptor {
	all := k.Blank().ProtoReflect().Descriptor().Fields()
	var out []protoreflect.FieldDescriptor
	for i := range all.Len() {
		f := all.Get(i)
		if k.shown != nil && !slices.Contains(k.shown, f.Name()) || slices.Contains(k.hidden, f.Name()) {
			continue
		}
		out = append(out, f)
	}
	return out
}

// Object is one object of a file.
type Object struct {
	Kind   *Kind
	Name   string
	Record proto.Message
	Paths  map[string]bool // the fields that the file has, also those with an empty value
	At     Position
}

// NewObject returns an object that declares the fields that are set in its record.
func NewObject(k *Kind, name string, record proto.Message, file string) *Object {
	o := &Object{Kind: k, Name: name, Record: record, Paths: map[string]bool{}, At: Position{File: file}}
	for _, f := range k.fields() {
		if record.ProtoReflect().Has(f) {
			for _, path := range paths(f, record) {
				o.Paths[path] = true
			}
		}
	}
	return o
}

// Position is a line of a file.
type Position struct {
	File string
	Line int // 0 for a whole file
}

// Set is what one or more files declare together.
type Set struct {
	Owner   string
	Objects []*Object
	Wanted  []Wanted // what runs in environments; the rest is what is recorded
}

// DefaultOwner is the owner of files that name none.
const DefaultOwner = "default"

// Objects returns records as objects of a file, without what a file does not hold.
func Objects(live Live) []*Object {
	var out []*Object
	for _, k := range Kinds {
		for _, name := range slices.Sorted(maps.Keys(live[k])) {
			out = append(out, &Object{Kind: k, Name: name, Record: live[k][name]})
		}
	}
	return out
}

// Trimmed returns a copy of a record with only what files hold, who declares it, and its revision, on which a change is
// based: a server's record is large.
func (k *Kind) Trimmed(record proto.Message) proto.Message {
	out := k.Blank()
	to, from := out.ProtoReflect(), record.ProtoReflect()
	for _, f := range k.fields() {
		if from.Has(f) {
			to.Set(f, from.Get(f))
		}
	}
	for _, name := range []protoreflect.Name{"owners", "revision"} {
		if f := from.Descriptor().Fields().ByName(name); f != nil && from.Has(f) {
			to.Set(f, from.Get(f))
		}
	}
	return out
}
