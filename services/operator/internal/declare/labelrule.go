package declare

import (
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// conditionName is the message that a file has as text, such as os=linux.
var conditionName = (&intentv1.Condition{}).ProtoReflect().Descriptor().FullName()

// labelRule reads a rule. It is set as a whole, so a file that declares one has its conditions and a label.
func (r *reader) labelRule(o *Object, n *yaml.Node) error {
	if err := r.object(o, n); err != nil {
		return err
	}
	rule := o.Record.(interface {
		GetWhen() []*intentv1.Condition
		GetLabels() map[string]string
	})
	if len(rule.GetWhen()) == 0 || len(rule.GetLabels()) == 0 {
		return r.wrong(n, "label rule %q needs the keys when and labels, both with a value", o.Name)
	}
	return nil
}

// condition reads one condition, as --when of garrison label-rule set has it.
func (r *reader) condition(n *yaml.Node, what string, m protoreflect.Message) error {
	if n.Kind != yaml.ScalarNode {
		return r.wrong(n, "%s: a condition is a text such as os=linux", what)
	}
	read, err := selector.Where(what, []string{n.Value})
	if err != nil {
		return r.wrong(n, "%v", err)
	}
	if len(read) != 1 {
		return r.wrong(n, "%s: %q has %d conditions; write each as an element of its own", what, n.Value, len(read))
	}
	proto.Merge(m.Interface(), read[0])
	return nil
}
