package view

import (
	"iter"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
)

// applyLobby folds a rejection, and drops those that no longer hold.
func (v *View) applyLobby(f ledger.Fact) bool {
	next, fit := lobby.Apply(row(v.rejections, f.Key), f)
	for key, r := range v.rejections.All() {
		if key != f.Key && !lobby.Holds(r, f.At) {
			v.rejections.Drop(key, v.rejections.Sequence(key))
		}
	}
	return own(v.rejections, f, next, fit)
}

// Rejection returns the rejection of a key; it may no longer hold.
func (v *records) Rejection(publicKey string) (*lobbyv1.Rejection, bool) {
	return v.rejections.Get(publicKey)
}

// LabelRule returns a label rule by name.
func (v *records) LabelRule(name string) (*labelrulev1.LabelRule, bool) {
	return v.labelRules.Get(name)
}

// LabelRules returns the label rules that sort after a name, by name.
func (v *records) LabelRules(after string) iter.Seq2[string, *labelrulev1.LabelRule] {
	return sorted(v.labelRules, after)
}

// LabelRuleNames returns every label rule's name.
func (v *records) LabelRuleNames() iter.Seq[string] { return keys(v.labelRules) }
