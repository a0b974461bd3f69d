package ansible

import (
	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep groups may lie in each other.
const maxDepth = 32

// readYAML reads the YAML form.
func readYAML(file string, doc *yaml.Node) (*Inventory, error) {
	y := &yamlReader{inventory: newInventory(), file: file}
	err := y.pairs(doc, func(key, value *yaml.Node) error { return y.group(key.Value, value, 0) })
	return y.inventory, err
}

type yamlReader struct {
	inventory *Inventory
	file      string
}

func (y *yamlReader) wrong(n *yaml.Node, format string, args ...any) error {
	return refuse("%s:%d: "+format, append([]any{y.file, n.Line}, args...)...)
}

// pairs calls f for each key of a mapping; nothing is an empty one.
func (y *yamlReader) pairs(n *yaml.Node, f func(key, value *yaml.Node) error) error {
	if n.Tag == "!!null" {
		return nil
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return y.wrong(n, "anchors and aliases are not accepted; ansible-inventory --list resolves them")
	}
	if n.Kind != yaml.MappingNode {
		return y.wrong(n, "not a mapping")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			return y.wrong(n.Content[i], "the merge key << is not accepted; ansible-inventory --list resolves it")
		}
		if err := f(n.Content[i], n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// group reads a group with its hosts, children and variables.
func (y *yamlReader) group(name string, n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return y.wrong(n, "more than %d groups in each other", maxDepth)
	}
	g := y.inventory.group(name)
	return y.pairs(n, func(key, value *yaml.Node) error {
		switch key.Value {
		case "hosts":
			return y.pairs(value, func(host, v *yaml.Node) error { return y.host(name, host, v) })
		case "children":
			return y.pairs(value, func(child, v *yaml.Node) error {
				g.children[child.Value] = true
				return y.group(child.Value, v, depth+1)
			})
		case "vars":
			v, err := y.vars(value)
			for k := range v {
				g.vars[k] = v[k]
			}
			return err
		}
		return y.wrong(key, "group %q has the key %q; want hosts, children or vars", name, key.Value)
	})
}

// host reads a host, or the hosts of a range.
func (y *yamlReader) host(group string, key, n *yaml.Node) error {
	v, err := y.vars(n)
	if err != nil {
		return err
	}
	hosts, err := expand(withoutPort(key.Value))
	for _, h := range hosts {
		if err == nil {
			err = y.inventory.host(h, group, v)
		}
	}
	if err != nil {
		return y.wrong(key, "%v", err)
	}
	return nil
}

// vars reads variables. One that is not a single value, or is encrypted, is empty: only single values become labels.
func (y *yamlReader) vars(n *yaml.Node) (vars, error) {
	out := vars{}
	err := y.pairs(n, func(key, value *yaml.Node) error {
		out[key.Value] = ""
		if value.Kind == yaml.ScalarNode && value.Style&yaml.TaggedStyle == 0 && value.Tag != "!!null" {
			out[key.Value] = value.Value
		}
		return nil
	})
	return out, err
}
