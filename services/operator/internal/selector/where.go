package selector

import (
	"maps"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// Where parses selectors as conditions, all of which must match, of the flag with a name. Other fields than those of
// servers are named in own; what else looks like a label is one.
func Where(flag string, texts []string, own ...string) ([]*intentv1.Condition, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	s, err := Parse(texts)
	if err != nil {
		return nil, cli.Usage("%s", strings.ReplaceAll(err.Error(), "--on", flag))
	}
	if s.All || len(s.Servers) > 0 {
		return nil, cli.Usage("%s: want conditions, such as os=linux or 'hostname in (web-1,web-2)'", flag)
	}
	is := func(field, value string) {
		s.Where = append(s.Where, &intentv1.Condition{
			Field: field, Operator: intentv1.Operator_OPERATOR_IN, Values: []string{value},
		})
	}
	if s.Environment != "" {
		is("env", s.Environment)
	}
	for _, label := range slices.Sorted(maps.Keys(s.Labels)) {
		is(labelPrefix+label, s.Labels[label])
	}
	for _, c := range s.Where {
		if field := strings.TrimPrefix(c.Field, labelPrefix); slices.Contains(own, field) {
			c.Field = field
		}
	}
	return s.Where, nil
}

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
