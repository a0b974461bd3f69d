// Package labelrule decides which labels servers get by rules.
//
// Guarantees:
//
//  1. What a server gets follows from the rules and from what its machine is, and never from a label: no rule depends
//     on another one, so there are no loops.
//  2. Of two rules for one label, the one whose name sorts first wins. A label that an operator gave the server
//     wins over both.
package labelrule

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/server"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

const (
	// MaxRules is how many rules there are at most.
	MaxRules = 256
	// maxConditions is how many conditions one rule has at most.
	maxConditions = 16
	// MaxLabels is how many labels all rules together give at most, and so how many a server gets.
	MaxLabels = 64
)

// fields are the fields on which a rule may depend.
var fields = slices.Concat(selector.MachineFields, []string{"name", "env", "cell"})

// Rules are the rules by name, in the order of their names.
type Rules = iter.Seq2[string, *labelrulev1.LabelRule]

// Check refuses a rule that cannot be among the others.
func Check(r selector.Reader, rules Rules, next *labelrulev1.LabelRule) *apiv1.Refusal {
	labels, others := maps.Clone(next.Labels), 0
	for name, other := range rules {
		if name == next.Name {
			continue
		}
		others++
		for k := range other.Labels {
			labels[k] = ""
		}
	}
	switch {
	case len(next.When) == 0 || len(next.When) > maxConditions:
		return bad("%d conditions; a rule has 1 to %d", len(next.When), maxConditions)
	case len(next.Labels) == 0:
		return bad("a rule without a label")
	case others >= MaxRules:
		return bad("there are %d rules, which is the most", others)
	case len(labels) > MaxLabels:
		return bad("all rules together would give %d labels; %d are the most", len(labels), MaxLabels)
	}
	if refusal := selector.CheckConditions(r, next.When, fields...); refusal != nil {
		refusal.Code = code.Invalid
		return refusal
	}
	return nil
}

func bad(format string, args ...any) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.Invalid, Message: fmt.Sprintf(format, args...),
		Try: "garrison label-rule set NAME --when os=linux --label LABEL=VALUE",
	}
}

// Labels returns the labels that a server gets by rules, without those that an operator gave it.
func Labels(rules Rules, s *serverv1.Server) map[string]*serverv1.RuleLabel {
	own := server.OwnLabels(s)
	out := map[string]*serverv1.RuleLabel{}
	for name, r := range rules {
		if !selector.MeetsAll(s, r.When) {
			continue
		}
		for k, v := range r.Labels {
			if _, owned := own[k]; !owned && out[k] == nil {
				out[k] = &serverv1.RuleLabel{Value: v, Rule: name}
			}
		}
	}
	return out
}

// Due returns the fact with the labels that a server should have by rules, or nil when it has them. Only a server under
// management has any.
func Due(rules Rules, s *serverv1.Server) *serverv1.Labelled {
	if !server.Managed(s) {
		return nil
	}
	want := Labels(rules, s)
	same := maps.EqualFunc(want, s.RuleLabels, func(a, b *serverv1.RuleLabel) bool { return proto.Equal(a, b) })
	if same {
		return nil
	}
	return &serverv1.Labelled{Labels: want}
}
