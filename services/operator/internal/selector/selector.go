// Package selector parses and writes server selectors, the values of --on and --not.
//
// Parse and Args are inverse: what Args writes, Parse reads back to the same selector.
package selector

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/nearest"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
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

// Help is the help text of --on.
const Help = "`SELECTOR`: all, SERVER[,SERVER], env=NAME, LABEL=VALUE and more: garrison help selectors"

// Flags are --on and --not, which select servers.
type Flags struct{ On, not []string }

// Add adds --on and --not.
func (f *Flags) Add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.On, "on", nil, Help)
	c.Flags().StringArrayVar(&f.not, "not", nil, "exclude the servers of this `SELECTOR`; repeatable")
}

// Selector parses the flags. Without --on it returns a usage error.
func (f *Flags) Selector() (*intentv1.Selector, error) {
	on, err := Parse(f.On)
	if err != nil {
		return nil, err
	}
	for _, text := range f.not {
		n, err := Parse([]string{text})
		if err != nil {
			return nil, cli.Usage("%s", strings.Replace(err.Error(), "--on", "--not", 1))
		}
		on.Not = append(on.Not, n)
	}
	return on, nil
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

// Filter parses the flags of a list, where both are optional; nil means all servers.
func (f *Flags) Filter() (*intentv1.Selector, error) {
	if len(f.On)+len(f.not) == 0 {
		return nil, nil
	}
	all := *f
	if len(f.On) == 0 {
		all.On = []string{"all"}
	}
	return all.Selector()
}
