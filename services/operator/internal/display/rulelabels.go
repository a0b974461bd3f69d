package display

import (
	"maps"
	"slices"
	"strings"
)

// RuleLabelLines returns the labels that a server has by rules, each with its rule.
func RuleLabelLines(s Server) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(s.GetRuleLabels())) {
		l := s.GetRuleLabels()[k]
		out = append(out, k+"="+l.GetValue()+" (rule "+l.GetRule()+")")
	}
	return strings.Join(out, "\n")
}
