package operator

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// selectorArgs writes a selector as it is said on the command line.
func selectorArgs(s *intentv1.Selector) string {
	var out []string
	for _, words := range selectorWords(s) {
		out = append(out, "--on "+quote(words))
	}
	for _, n := range s.GetNot() {
		out = append(out, "--not "+quote(strings.Join(selectorWords(n), ",")))
	}
	return strings.Join(out, " ")
}

// selectorWords returns the values of --on that make a selector.
func selectorWords(s *intentv1.Selector) []string {
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

// labelWord writes a label's name so that it is not taken for a field.
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
		for _, o := range slices.Backward(operators) { // = before ==
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

var safe = regexp.MustCompile(`^[A-Za-z0-9_.,:/@=+-]+$`)

// quote makes a word safe to paste into a shell.
func quote(s string) string {
	if safe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
