// Package selector holds the flags --on and --not, and others that are written as selectors.
package selector

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/selection"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// Where parses selectors as conditions, all of which must match, of the flag with a name. Other fields than those of
// servers are named in own; what else looks like a label is one.
func Where(flag string, texts []string, own ...string) ([]*intentv1.Condition, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	s, err := selection.Parse(texts)
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
		is(selection.LabelPrefix+label, s.Labels[label])
	}
	for _, c := range s.Where {
		if field := strings.TrimPrefix(c.Field, selection.LabelPrefix); slices.Contains(own, field) {
			c.Field = field
		}
	}
	return s.Where, nil
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
	on, err := selection.Parse(f.On)
	if err != nil {
		return nil, cli.Usage("%v", err)
	}
	for _, text := range f.not {
		n, err := selection.Parse([]string{text})
		if err != nil {
			return nil, cli.Usage("%s", strings.Replace(err.Error(), "--on", "--not", 1))
		}
		on.Not = append(on.Not, n)
	}
	return on, nil
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
