package triton

import (
	"encoding/json"
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
