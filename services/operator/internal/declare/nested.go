package declare

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/metadata"
)

// Metadata is text or JSON. In a file an object or a list of JSON is a mapping or a list of YAML, and any other JSON
// value, such as a number, has the tag !json: without it a number is text, as most programs want it.
const jsonTag = "!json"

// isMetadata reports whether a map holds metadata.
func isMetadata(f protoreflect.FieldDescriptor) bool { return f.IsMap() && f.Name() == "metadata" }

// isJSON reports whether a node of metadata is JSON instead of text.
func isJSON(n *yaml.Node) bool {
	return n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode || n.Tag == jsonTag
}

// jsonNode returns the node of a value of metadata that is JSON.
func jsonNode(value string) (*yaml.Node, error) {
	text := metadata.Plain(metadata.Decode(value))
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		return nil, err
	}
	if n.Content[0].Kind == yaml.ScalarNode {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: jsonTag, Value: text}, nil
	}
	return plainStyle(n.Content[0]), nil
}

// readJSON returns the value of metadata that a node of JSON stands for.
func readJSON(n *yaml.Node) (string, error) {
	var b strings.Builder
	if err := writeJSON(&b, n); err != nil {
		return "", err
	}
	return metadata.FromJSON(b.String())
}

func writeJSON(b *strings.Builder, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		return writeAll(b, "{", n.Content, "}")
	case yaml.SequenceNode:
		return writeAll(b, "[", n.Content, "]")
	}
	text, err := jsonScalar(n)
	b.WriteString(text)
	return err
}

// writeAll writes the nodes between two brackets; between braces each second one is a value.
func writeAll(b *strings.Builder, open string, nodes []*yaml.Node, end string) error {
	b.WriteString(open)
	for i, n := range nodes {
		isKey := open == "{" && i%2 == 0
		switch {
		case open == "{" && !isKey:
			b.WriteString(":")
		case i > 0:
			b.WriteString(",")
		}
		if isKey && n.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a key is not a single value", n.Line)
		}
		if isKey {
			b.WriteString(quoted(n.Value))
		} else if err := writeJSON(b, n); err != nil {
			return err
		}
	}
	b.WriteString(end)
	return nil
}

// jsonScalar returns a single value as JSON. What YAML takes for a time is text.
func jsonScalar(n *yaml.Node) (string, error) {
	switch n.Tag {
	case jsonTag:
		return n.Value, nil
	case "!!null":
		return "null", nil
	case "!!bool":
		var v bool
		err := n.Decode(&v)
		return strconv.FormatBool(v), err
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) { // as it is written, with all its digits
			return n.Value, nil
		}
		var v any
		if err := n.Decode(&v); err != nil {
			return "", err
		}
		data, err := json.Marshal(v)
		return string(data), err
	}
	return quoted(n.Value), nil
}

func quoted(text string) string {
	data, _ := json.Marshal(text) // a text never fails
	return string(data)
}
