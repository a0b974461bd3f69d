package selection

import (
	"maps"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/nearest"
)

// symbols are the operators in text form.
var symbols = map[intentv1.Operator]string{
	intentv1.Operator_OPERATOR_IN: "=", intentv1.Operator_OPERATOR_NOT_IN: "!=", intentv1.Operator_OPERATOR_LESS: "<",
	intentv1.Operator_OPERATOR_AT_MOST: "<=", intentv1.Operator_OPERATOR_MORE: ">",
	intentv1.Operator_OPERATOR_AT_LEAST: ">=",
}

// Text returns conditions as Where reads them.
func Text(where []*intentv1.Condition) string {
	var out []string
	for _, c := range where {
		switch {
		case len(c.GetValues()) == 1:
			out = append(out, c.GetField()+symbols[c.GetOperator()]+c.GetValues()[0])
		case c.GetOperator() == intentv1.Operator_OPERATOR_NOT_IN:
			out = append(out, c.GetField()+" not in ("+strings.Join(c.GetValues(), ",")+")")
		default:
			out = append(out, c.GetField()+" in ("+strings.Join(c.GetValues(), ",")+")")
		}
	}
	return strings.Join(out, ",")
}

// Args returns the flags that express a selection.
func Args(s *intentv1.Selector) string {
	var out []string
	for _, words := range words(s) {
		out = append(out, "--on "+listing.Quote(words))
	}
	for _, n := range s.GetNot() {
		out = append(out, "--not "+listing.Quote(strings.Join(words(n), ",")))
	}
	return strings.Join(out, " ")
}

// words returns the values of --on that express a selection.
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
	if serverFields[name] != "" || strings.HasPrefix(name, LabelPrefix) {
		return LabelPrefix + name
	}
	return name
}

func conditionWords(c *intentv1.Condition) string {
	field := c.GetField()
	if label, ok := strings.CutPrefix(field, LabelPrefix); ok {
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

// Nearest returns the term that a selector of no server most likely means, in place of a label that no server has: one
// with the name of a field, or of one of the labels that servers have; "" when nothing is near.
func Nearest(on *intentv1.Selector, labels []string) string {
	names := append(slices.Collect(maps.Keys(serverFields)), labels...)
	for _, label := range slices.Sorted(maps.Keys(on.GetLabels())) {
		if slices.Contains(labels, label) {
			continue
		}
		if near := nearest.Name(label, slices.Values(names)); near != "" {
			return near + "=" + on.GetLabels()[label]
		}
	}
	return ""
}
