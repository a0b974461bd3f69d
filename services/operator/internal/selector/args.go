package selector

import (
	"maps"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Args returns the flags that express a selector.
func Args(s *intentv1.Selector) string {
	var out []string
	for _, words := range words(s) {
		out = append(out, "--on "+output.Quote(words))
	}
	for _, n := range s.GetNot() {
		out = append(out, "--not "+output.Quote(strings.Join(words(n), ",")))
	}
	return strings.Join(out, " ")
}

// words returns the values of --on that express a selector.
func words(s *intentv1.Selector) []string {
	var out []string
	if s.GetAll() {
		out = append(out, "all")
	}
	if len(s.GetServers()) > 0 {
		out = append(out, strings.Join(s.GetServers(), ","))
	}
	if s.GetEnvironment() != "" {
		out = append(out, "env="+s.GetEnvironment())
	}
	for _, k := range slices.Sorted(maps.Keys(s.GetLabels())) {
		out = append(out, labelWord(k)+"="+s.GetLabels()[k])
	}
	for _, c := range s.GetWhere() {
		out = append(out, conditionWords(c))
	}
	return out
}

// labelWord returns a label's name in the form that is not parsed as a field.
func labelWord(name string) string {
	if serverFields[name] != "" || strings.HasPrefix(name, labelPrefix) {
		return labelPrefix + name
	}
	return name
}

func conditionWords(c *intentv1.Condition) string {
	field := c.GetField()
	if label, ok := strings.CutPrefix(field, labelPrefix); ok {
		field = labelWord(label)
	}
	if len(c.GetValues()) == 1 {
		for _, o := range slices.Backward(operators) { // prefer = to ==
			if o.op == c.GetOperator() {
				return field + o.symbol + c.GetValues()[0]
			}
		}
	}
	in := " in ("
	if c.GetOperator() == intentv1.Operator_OPERATOR_NOT_IN {
		in = " not in ("
	}
	return field + in + strings.Join(c.GetValues(), ",") + ")"
}
