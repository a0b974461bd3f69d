package server

import (
	"maps"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// labelled is a record of a server that holds its labels.
type labelled interface {
	GetLabels() map[string]string
	GetRuleLabels() map[string]*serverv1.RuleLabel
}

// OwnLabels returns the labels that operators gave a server, without those that it has by rules. The result may be the
// record's own map.
func OwnLabels(s labelled) map[string]string {
	if len(s.GetRuleLabels()) == 0 {
		return s.GetLabels()
	}
	own := map[string]string{}
	for k, v := range s.GetLabels() {
		if s.GetRuleLabels()[k] == nil {
			own[k] = v
		}
	}
	return own
}

// WithRules returns all labels of a server that has some of its own, and others by rules; and which of them it has by a
// rule. A label of its own wins.
func WithRules(
	own map[string]string, rules map[string]*serverv1.RuleLabel,
) (labels map[string]string, byRule map[string]*serverv1.RuleLabel) {
	labels = own
	for k, l := range rules {
		if _, owned := own[k]; owned {
			continue
		}
		if byRule == nil {
			labels, byRule = map[string]string{}, map[string]*serverv1.RuleLabel{}
			maps.Copy(labels, own)
		}
		labels[k], byRule[k] = l.GetValue(), l
	}
	return labels, byRule
}
