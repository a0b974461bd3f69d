package metadata

import (
	"maps"
	"slices"
	"strings"
)

// Change is what a request does to the values of one layer: it deletes Unset, then updates with Set; or it replaces the
// whole layer by Set.
type Change struct {
	Set     map[string]string
	Unset   []string // NAME, or NAME.KEY.KEY in a nested value
	Replace bool
}

// Check refuses a change that cannot be meant. A value may be unset and set at once when it is nested: that replaces it
// instead of merging it.
func (c Change) Check() error {
	if err := Check(c.Set); err != nil {
		return err
	}
	if c.Replace && len(c.Unset) > 0 {
		return refuse("all values are replaced, so %q cannot be unset as well", c.Unset[0])
	}
	for _, path := range c.Unset {
		if err := CheckPath(path); err != nil {
			return err
		}
		if v, both := c.Set[path]; both && !IsNested(v) {
			return refuse("value %q is both set and unset", path)
		}
	}
	return nil
}

// Apply returns the layer after the change, nil when it is empty. It does not change have.
//
// An update merges objects by key at every level and replaces anything else. A null that is set stays in the layer: it
// deletes what the layers before have there. Unset takes the key out of this layer alone.
func (c Change) Apply(have map[string]string) map[string]string {
	if c.Replace {
		have = nil
	}
	out := maps.Clone(have)
	for _, path := range c.Unset {
		unset(out, path)
	}
	if out = over(out, c.Set); len(out) == 0 {
		return nil
	}
	return out
}

// Missing returns the paths of Unset that a layer does not have.
func (c Change) Missing(have map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(c.Unset), func(path string) bool {
		without := maps.Clone(have)
		unset(without, path)
		return !maps.Equal(without, have)
	})
}

// CheckPath refuses what cannot name a value, or a key of a nested one.
func CheckPath(path string) error {
	name, rest, nested := strings.Cut(path, ".")
	if err := CheckName(name); err != nil || !nested {
		return err
	}
	keys := strings.Split(rest, ".")
	if len(keys) > MaxDepth {
		return refuse("%.80q has more than %d keys", path, MaxDepth)
	}
	for _, k := range keys {
		if err := checkKey(k); err != nil {
			return refuse("%.80q: %v", path, err)
		}
	}
	return nil
}

// unset deletes what is at a path, if anything is.
func unset(m map[string]string, path string) {
	name, rest, nested := strings.Cut(path, ".")
	if !nested {
		delete(m, name)
		return
	}
	root, ok := Decode(m[name]).(map[string]any)
	if !ok {
		return
	}
	keys := strings.Split(rest, ".")
	o := root
	for _, k := range keys[:len(keys)-1] {
		if o, ok = o[k].(map[string]any); !ok {
			return
		}
	}
	delete(o, keys[len(keys)-1])
	m[name] = store(root)
}
