// Package selection parses and writes server selectors, as in the values of --on and --not.
//
// Parse and Args are inverse: what Args writes, Parse reads back to the same selector.
package selection

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// serverFields maps the words that are fields of a server, not labels, to their names; some have an alias. A label with
// such a name is written label.NAME. The registry defines the fields.
var serverFields = map[string]string{
	"name": "name", "env": "env", "environment": "env", "cell": "cell", "presence": "presence", "platform": "platform",
	"os": "os", "arch": "arch", "hostname": "hostname", "kernel": "kernel", "distribution": "distribution",
	"cpus": "cpus", "processors": "cpus", "memory": "memory", "executor": "executor", "executor_version": "executor",
}

// LabelPrefix begins a label that has the name of a field.
const LabelPrefix = "label."

// Parse parses the values of --on. All of them must match.
func Parse(on []string) (*intentv1.Selector, error) {
	s := &intentv1.Selector{}
	for _, text := range on {
		if err := addSelector(s, text); err != nil {
			return nil, err
		}
	}
	if !s.All && s.Environment == "" && len(s.Servers) == 0 && len(s.Labels) == 0 && len(s.Where) == 0 {
		return nil, fmt.Errorf(
			"--on is missing. Try: --on all, --on SERVER,SERVER, --on env=NAME, --on LABEL=VALUE")
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
			return fmt.Errorf("--on %q mixes names of servers with labels; pass --on twice", text)
		}
	}
	return nil
}

// splitTerms splits a selector at commas outside parentheses.
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
			return nil, fmt.Errorf("--on %q: the parentheses do not match", text)
		}
		if c == ',' && depth == 0 {
			part := strings.TrimSpace(text[start:i])
			if part == "" {
				return nil, fmt.Errorf("--on %q has an empty part", text)
			}
			out, start = append(out, part), i+1
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("--on %q: the parentheses do not match", text)
	}
	return out, nil
}

// operators lists the comparison operators. One that begins with another precedes it.
var operators = []struct {
	symbol string
	op     intentv1.Operator
}{
	{"!=", intentv1.Operator_OPERATOR_NOT_IN}, {"==", intentv1.Operator_OPERATOR_IN},
	{">=", intentv1.Operator_OPERATOR_AT_LEAST}, {"<=", intentv1.Operator_OPERATOR_AT_MOST},
	{
		">",
		intentv1.Operator_OPERATOR_MORE,
	}, {"<", intentv1.Operator_OPERATOR_LESS}, {"=", intentv1.Operator_OPERATOR_IN},
}

var inList = regexp.MustCompile(`^([^\s()=!<>]+)\s+(not\s+in|notin|in)\s*\(([^()]*)\)$`)

// bareList matches a list whose values are not in parentheses.
var bareList = regexp.MustCompile(`^([^\s()=!<>,]+)\s+(not\s+in|notin|in)\s+([^\s()]+(?:\s*,\s*[^\s()]+)*)$`)

// parseTerm parses one term of a selector; a nil condition means that the term names a server.
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
	m := bareList.FindStringSubmatch(text) // the commas of the list have divided it
	if m == nil {
		m = bareList.FindStringSubmatch(part)
	}
	if m != nil {
		return nil, fmt.Errorf("--on %q: the values of a list are in parentheses. Try: --on '%s %s (%s)'", text, m[1],
			m[2], m[3])
	}
	at := strings.IndexAny(part, "=!<>")
	if at < 0 {
		if part == "env" || part == "environment" {
			return nil, fmt.Errorf("--on %q: the environment is missing. Try: --on env=NAME", text)
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
	return nil, fmt.Errorf("--on %q: %q is not understood; try NAME=VALUE, NAME!=VALUE or 'NAME in (A,B)'", text, part)
}

// checkTerm refuses a term without a name or a value, or with more than one operator.
func checkTerm(text, part string, c *intentv1.Condition) error {
	if c.Field == "" || c.Field == LabelPrefix || slices.Contains(c.Values, "") {
		return fmt.Errorf("--on %q: %q is not NAME=VALUE. Try: garrison help selectors", text, part)
	}
	if strings.ContainsAny(c.Field, " ()") || strings.ContainsAny(strings.Join(c.Values, ""), "=!<>() ") {
		return fmt.Errorf("--on %q: %q is not understood; try NAME=VALUE, NAME!=VALUE or 'NAME in (A,B)'", text, part)
	}
	return nil
}

// addCondition adds a condition. An environment and the single value of a label have fields of their own.
func addCondition(s *intentv1.Selector, text string, c *intentv1.Condition) error {
	field, known := serverFields[c.Field]
	label := strings.TrimPrefix(c.Field, LabelPrefix)
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
		return fmt.Errorf("--on: conflicting values of the label %s: %s and %s", label, s.Labels[label], c.Values[0])
	default:
		c.Field = LabelPrefix + label
		s.Where = append(s.Where, c)
	}
	return nil
}

func addEnvironment(s *intentv1.Selector, text string, c *intentv1.Condition) error {
	for _, name := range c.Values {
		if err := ident.CheckName("environment", name); err != nil {
			return fmt.Errorf("--on %q: %v", text, err)
		}
	}
	switch {
	case c.Operator != intentv1.Operator_OPERATOR_IN || len(c.Values) > 1:
		c.Field = "env"
		s.Where = append(s.Where, c)
	case s.Environment != "" && s.Environment != c.Values[0]:
		return fmt.Errorf("--on: conflicting environments: %s and %s", s.Environment, c.Values[0])
	default:
		s.Environment = c.Values[0]
	}
	return nil
}

func addServer(s *intentv1.Selector, text, name string) error {
	if name == "all" {
		return fmt.Errorf("--on %q: all cannot be combined with other terms", text)
	}
	if strings.ContainsAny(name, "*?[") {
		return fmt.Errorf("--on %q: wildcards are not supported. Try: a label, as in --on rack=a", text)
	}
	if err := ident.CheckHostname("server", name); err != nil {
		return fmt.Errorf("--on %q: %v", text, err)
	}
	s.Servers = append(s.Servers, name)
	return nil
}
