package metadata

import (
	"maps"
	"slices"
)

// Merge returns all values of the layers, each over those before it: objects merge by key at every level; anything else
// replaces what was there; null deletes it. It returns nil without values.
//
// Merging may stop and go on at any layer: Merge(Merge(a, b), c) equals Merge(a, b, c). Merge(a, Merge(b, c)) does not
// where b deletes, or replaces an object by something else.
func Merge(layers ...map[string]string) map[string]string {
	var out map[string]string
	for _, l := range layers {
		out = over(out, l)
	}
	for k, v := range out {
		if !IsNested(v) {
			continue
		}
		if d := withoutNulls(Decode(v)); d != nil {
			out[k] = store(d)
		} else {
			delete(out, k)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// over puts a layer over out, which it changes unless it is nil. Nulls stay.
func over(out, layer map[string]string) map[string]string {
	if out == nil && len(layer) > 0 {
		out = make(map[string]string, len(layer))
	}
	for k, v := range layer {
		have, exists := out[k]
		if exists && IsNested(have) && IsNested(v) {
			v = store(join(Decode(have), Decode(v)))
		}
		out[k] = v
	}
	return out
}

// join merges two values: objects by key, otherwise the later one. It changes neither.
func join(have, next any) any {
	a, isA := have.(map[string]any)
	b, isB := next.(map[string]any)
	if !isA || !isB {
		return next
	}
	out := maps.Clone(a)
	for k, v := range b {
		if before, exists := out[k]; exists {
			v = join(before, v)
		}
		out[k] = v
	}
	return out
}

// withoutNulls removes the keys with null from objects; what is in an array stays.
func withoutNulls(v any) any {
	o, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k, v := range o {
		if v = withoutNulls(v); v == nil {
			delete(o, k)
		} else {
			o[k] = v
		}
	}
	return o
}

// Level returns the index of the layer that decides the value at a path, or -1: no layer has it.
func Level(path []string, layers ...map[string]string) int {
	for n, l := range slices.Backward(layers) {
		if len(path) == 0 {
			break
		}
		value, exists := l[path[0]]
		if !exists {
			continue
		}
		v := Decode(value)
		for _, key := range path[1:] {
			o, isObject := v.(map[string]any)
			if !isObject {
				break // it replaced what the layers before have there
			}
			if v, exists = o[key]; !exists {
				break
			}
		}
		if exists {
			return n
		}
	}
	return -1
}
