package operator

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/ident"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

const selectorHelp = "`SELECTOR`: all, SERVER[,SERVER] (id, unique prefix or name), env=NAME, LABEL=VALUE, " +
	"LABEL!=VALUE, 'LABEL in (A,B)', or the same of platform, os, arch, hostname, kernel, distribution, presence, " +
	"cpus, memory, executor (memory>=16GiB); with commas between them or repeated, all must match"

// serverFields are the words before an operator that are no labels; some have a second name.
// A label of such a name is written label.NAME. The registry knows what they mean.
var serverFields = map[string]string{
	"name": "name", "env": "env", "environment": "env", "cell": "cell", "presence": "presence", "platform": "platform",
	"os": "os", "arch": "arch", "hostname": "hostname", "kernel": "kernel", "distribution": "distribution",
	"cpus": "cpus", "processors": "cpus", "memory": "memory", "executor": "executor", "executor_version": "executor",
}

const labelPrefix = "label."

// selectorFlags say which servers are meant.
type selectorFlags struct{ on, not []string }

func (f *selectorFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.on, "on", nil, selectorHelp)
	c.Flags().StringArrayVar(&f.not, "not", nil, "leave out the servers of this `SELECTOR`; repeatable")
}

// selector reads which servers are meant; none is a wrong command line.
func (f *selectorFlags) selector() (*intentv1.Selector, error) {
	on, err := parseSelector(f.on)
	if err != nil {
		return nil, err
	}
	for _, text := range f.not {
		n, err := parseSelector([]string{text})
		if err != nil {
			return nil, usageError{strings.Replace(err.Error(), "--on", "--not", 1)}
		}
		on.Not = append(on.Not, n)
	}
	return on, nil
}

// filter reads which servers a list is of; nil means all of them.
func (f *selectorFlags) filter() (*intentv1.Selector, error) {
	if len(f.on)+len(f.not) == 0 {
		return nil, nil
	}
	all := *f
	if len(f.on) == 0 {
		all.on = []string{"all"}
	}
	return all.selector()
}

// parseSelector reads the values of --on. Everything that is said must hold.
func parseSelector(on []string) (*intentv1.Selector, error) {
	s := &intentv1.Selector{}
	for _, text := range on {
		if err := addSelector(s, text); err != nil {
			return nil, err
		}
	}
	if !s.All && s.Environment == "" && len(s.Servers) == 0 && len(s.Labels) == 0 && len(s.Where) == 0 {
		return nil, usage("--on is missing: say on which servers. Try: --on all, --on SERVER,SERVER, --on env=NAME, --on LABEL=VALUE")
	}
	return s, nil
}

func addSelector(s *intentv1.Selector, text string) error {
	if text == "all" {
		s.All = true
		return nil
	}
	parts, err := splitTerms(text)
	if err != nil {
		return err
	}
	names, conditions := false, false
	for _, part := range parts {
		condition, err := parseTerm(text, part)
		switch {
		case err != nil:
			return err
		case condition != nil:
			conditions = true
			err = addCondition(s, text, condition)
		default:
			names = true
			err = addServer(s, text, part)
		}
		if err != nil {
			return err
		}
		if names && conditions {
			return usage("--on %q mixes names of servers with labels; say --on twice", text)
		}
	}
	return nil
}

// splitTerms splits a selector at its commas, but not within parentheses.
func splitTerms(text string) ([]string, error) {
	var out []string
	depth, start := 0, 0
	for i, c := range text + "," {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth < 0 || depth > 1 {
			return nil, usage("--on %q: the parentheses do not match", text)
		}
		if c == ',' && depth == 0 {
			part := strings.TrimSpace(text[start:i])
			if part == "" {
				return nil, usage("--on %q has an empty part", text)
			}
			out, start = append(out, part), i+1
		}
	}
	if depth != 0 {
		return nil, usage("--on %q: the parentheses do not match", text)
	}
	return out, nil
}

// operators are what may stand between a name and a value; a longer one comes before its beginning.
var operators = []struct {
	symbol string
	op     intentv1.Operator
}{
	{"!=", intentv1.Operator_OPERATOR_NOT_IN}, {"==", intentv1.Operator_OPERATOR_IN},
	{">=", intentv1.Operator_OPERATOR_AT_LEAST}, {"<=", intentv1.Operator_OPERATOR_AT_MOST},
	{">", intentv1.Operator_OPERATOR_MORE}, {"<", intentv1.Operator_OPERATOR_LESS}, {"=", intentv1.Operator_OPERATOR_IN},
}

var inList = regexp.MustCompile(`^([^\s()=!<>]+)\s+(not\s+in|notin|in)\s*\(([^()]*)\)$`)

// parseTerm reads one part of a selector; nil means that it is the name of a server.
func parseTerm(text, part string) (*intentv1.Condition, error) {
	if m := inList.FindStringSubmatch(part); m != nil {
		c := &intentv1.Condition{Field: m[1], Operator: intentv1.Operator_OPERATOR_IN}
		if m[2] != "in" {
			c.Operator = intentv1.Operator_OPERATOR_NOT_IN
		}
		for v := range strings.SplitSeq(m[3], ",") {
			c.Values = append(c.Values, strings.TrimSpace(v))
		}
		return c, checkTerm(text, part, c)
	}
	at := strings.IndexAny(part, "=!<>")
	if at < 0 {
		if part == "env" || part == "environment" {
			return nil, usage("--on %q: which environment? Try: --on env=NAME", text)
		}
		return nil, nil
	}
	for _, o := range operators {
		if value, ok := strings.CutPrefix(part[at:], o.symbol); ok {
			c := &intentv1.Condition{
				Field: strings.TrimSpace(part[:at]), Operator: o.op, Values: []string{strings.TrimSpace(value)},
			}
			return c, checkTerm(text, part, c)
		}
	}
	return nil, usage("--on %q: %q is not understood; try NAME=VALUE, NAME!=VALUE or 'NAME in (A,B)'", text, part)
}

// checkTerm refuses what lacks a name or a value, or has more operators than one.
func checkTerm(text, part string, c *intentv1.Condition) error {
	if c.Field == "" || c.Field == labelPrefix || slices.Contains(c.Values, "") {
		return usage("--on %q: %q lacks a name or a value", text, part)
	}
	if strings.ContainsAny(c.Field, " ()") || strings.ContainsAny(strings.Join(c.Values, ""), "=!<>() ") {
		return usage("--on %q: %q is not understood; try NAME=VALUE, NAME!=VALUE or 'NAME in (A,B)'", text, part)
	}
	return nil
}

// addCondition adds a condition: an environment and the value of a label have fields of their own.
func addCondition(s *intentv1.Selector, text string, c *intentv1.Condition) error {
	field, known := serverFields[c.Field]
	label := strings.TrimPrefix(c.Field, labelPrefix)
	single := c.Operator == intentv1.Operator_OPERATOR_IN && len(c.Values) == 1
	switch {
	case known && field == "env":
		return addEnvironment(s, text, c)
	case known:
		c.Field = field
		s.Where = append(s.Where, c)
	case single && (s.Labels[label] == "" || s.Labels[label] == c.Values[0]):
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		s.Labels[label] = c.Values[0]
	case single:
		return usage("--on: no server has two values of the label %s, %s and %s", label, s.Labels[label], c.Values[0])
	default:
		c.Field = labelPrefix + label
		s.Where = append(s.Where, c)
	}
	return nil
}

func addEnvironment(s *intentv1.Selector, text string, c *intentv1.Condition) error {
	for _, name := range c.Values {
		if err := ident.CheckName("environment", name); err != nil {
			return usage("--on %q: %v", text, err)
		}
	}
	switch {
	case c.Operator != intentv1.Operator_OPERATOR_IN || len(c.Values) > 1:
		c.Field = "env"
		s.Where = append(s.Where, c)
	case s.Environment != "" && s.Environment != c.Values[0]:
		return usage("--on: no server is in two environments, %s and %s", s.Environment, c.Values[0])
	default:
		s.Environment = c.Values[0]
	}
	return nil
}

func addServer(s *intentv1.Selector, text, name string) error {
	if name == "all" {
		return usage("--on %q: all stands alone", text)
	}
	if err := aServer(name); err != nil {
		return usage("--on %q: %v", text, err)
	}
	s.Servers = append(s.Servers, name)
	return nil
}

// parseLabel reads a label and its value.
func parseLabel(word string) (k, v string, err error) {
	k, v, ok := strings.Cut(word, "=")
	if !ok || k == "" {
		return "", "", fmt.Errorf("%q is not LABEL=VALUE", word)
	}
	return k, v, nil
}
