package declare

import (
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// word returns the word of an enum's value, as every table prints it: KIND_DAEMON is daemon.
func word(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if v := d.Values().ByNumber(n); v != nil && v.Index() > 0 {
		return output.Words(d)[v.Index()-1]
	}
	return ""
}

// enumNumber returns the value that a word stands for. The empty word is the unspecified value.
func enumNumber(d protoreflect.EnumDescriptor, text string) (protoreflect.EnumNumber, bool) {
	if at := slices.Index(output.Words(d), text); at >= 0 {
		return d.Values().Get(at + 1).Number(), true
	}
	return 0, text == ""
}

// jsonOf returns a node as JSON.
func jsonOf(n *yaml.Node) ([]byte, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
