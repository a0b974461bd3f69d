package triton

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// object is an object of a dump, as JSON has it; numbers are json.Number.
type object map[string]any

// text returns a value as text; "" for one that is missing, or is an object or an array.
func (o object) text(key string) string { return textOf(o[key]) }

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v)
	case json.Number:
		return v.String()
	case bool:
		if v {
			return "true"
		}
		return "false"
	}
	return ""
}

// uuid returns a UUID in lower case.
func (o object) uuid(key string) string { return strings.ToLower(o.text(key)) }

// is reports whether a truth value is true; it may be a text.
func (o object) is(key string) bool { return strings.EqualFold(o.text(key), "true") }

// within returns the object at a key; nil without one.
func (o object) within(key string) object {
	in, _ := o[key].(map[string]any)
	return in
}

// list returns the objects of the array at a key.
func (o object) list(key string) (out []object) {
	all, _ := o[key].([]any)
	for _, v := range all {
		if in, ok := v.(map[string]any); ok {
			out = append(out, in)
		}
	}
	return out
}

// has reports whether all keys are there.
func (o object) has(keys ...string) bool {
	for _, k := range keys {
		if _, ok := o[k]; !ok {
			return false
		}
	}
	return true
}

// hasAny reports whether one of the keys is there.
func (o object) hasAny(keys ...string) bool {
	for _, k := range keys {
		if o.has(k) {
			return true
		}
	}
	return false
}

// shape is what an object of a dump is, known by its keys.
type shape string

// The shapes.
const (
	application shape = "application"
	service     shape = "service"
	instance    shape = "instance"
	server      shape = "server"
	sysinfo     shape = "sysinfo"
	image       shape = "image"
	template    shape = "template"
	task        shape = "task"
	entry       shape = "entry" // of an agent in a list without its server
	unknown     shape = "unknown"
)

// shapes lists the keys by which each shape is known. The first that fits counts.
var shapes = []struct {
	shape shape
	all   []string
	any   []string // one of them as well; none means no more
}{
	{instance, []string{"uuid", "service_uuid"}, nil},
	{service, []string{"uuid", "name", "application_uuid"}, nil},
	{image, []string{"v", "uuid", "name", "version"}, nil},
	{template, []string{"name", "path", "template"}, nil},
	{task, []string{"task", "server_uuid", "status"}, nil},
	{sysinfo, []string{"System Type"}, nil},
	{server, []string{"uuid"}, []string{"sysinfo", "hostname", "boot_platform", "current_platform"}},
	{application, []string{"uuid", "name"}, []string{"owner_uuid", "metadata_schema", "manifests", "metadata"}},
	{entry, []string{"name", "version"}, nil},
}

func shapeOf(o object) shape {
	for _, s := range shapes {
		if o.has(s.all...) && (len(s.any) == 0 || o.hasAny(s.any...)) {
			return s.shape
		}
	}
	return unknown
}

// maxKeys is how many keys of an object a message names.
const maxKeys = 6

// keysOf names the keys of an object, the first of many.
func keysOf(o object) string {
	keys := slices.Sorted(maps.Keys(o))
	if len(keys) > maxKeys {
		return strings.Join(keys[:maxKeys], ", ") + " and others"
	}
	return strings.Join(keys, ", ")
}
