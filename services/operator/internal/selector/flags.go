package selector

import (
	"strings"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// Help is the help text of --on.
const Help = "`SELECTOR`: all, SERVER[,SERVER] (id, unique prefix or name), env=NAME, LABEL=VALUE, " +
	"LABEL!=VALUE, 'LABEL in (A,B)', or the same of platform, os, arch, hostname, kernel, distribution, " +
	"presence (online or offline; a late server is still online), cpus, memory, executor (memory>=16GiB); " +
	"repeatable, or with commas; all must match"

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

// Labelled is Filter of servers that also have labels.
func (f *Flags) Labelled(labels map[string]string) (*intentv1.Selector, error) {
	on, err := f.Filter()
	if err != nil || len(labels) == 0 {
		return on, err
	}
	if on == nil {
		on = &intentv1.Selector{}
	}
	for label, value := range labels {
		on.Where = append(on.Where, &intentv1.Condition{
			Field: labelPrefix + label, Operator: intentv1.Operator_OPERATOR_IN, Values: []string{value},
		})
	}
	on.All = false
	return on, nil
}
