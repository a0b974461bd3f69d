package view

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// ServersNear returns every server that a query may match, from an id on, dead ones too, by id: those of its smallest
// index, and the one with that id.
func (v *search) ServersNear(q selector.Query, from string) iter.Seq[*serverv1.Server] {
	all := inGroups(&v.serverBy, func(*serverv1.Server) bool { return true }, groupAll)
	near := smallest(append(v.selectorTerms(q), all))
	return func(yield func(*serverv1.Server) bool) {
		if s, ok := v.servers.Get(from); ok && !yield(s) {
			return
		}
		for s := range at(v.servers, near.rows(from)) {
			if !yield(s) {
				return
			}
		}
	}
}

// ServersWhere returns the servers of an environment, or of all when it is empty, with all labels, by id.
func (v *search) ServersWhere(environment string, labels map[string]string) iter.Seq[*serverv1.Server] {
	return func(yield func(*serverv1.Server) bool) {
		for _, s := range v.Servers(ServerFilter{Environment: environment, Labels: labels}, "") {
			if !yield(s) {
				return
			}
		}
	}
}

// declared finds what people declare: agents, environments, holds, rules and tokens.
type declared struct{ *tables }

// Agents returns the agents that sort after a name, by name.
func (v *declared) Agents(after string) iter.Seq2[string, *agentv1.Agent] {
	return func(yield func(string, *agentv1.Agent) bool) {
		for name := range v.agentBy.Ascend(groupAll, after) {
			if a, ok := v.agents.Get(name); ok && !yield(name, a) {
				return
			}
		}
	}
}

// Applications returns the applications that sort after a name, by name.
func (v *declared) Applications(after string) iter.Seq2[string, *applicationv1.Application] {
	return sorted(v.applications, after)
}

// Environments returns the environments that sort after a name, by name.
func (v *declared) Environments(after string) iter.Seq2[string, *environmentv1.Environment] {
	return sorted(v.environments, after)
}

// Tokens returns the pooled tokens that sort after a name, by name.
func (v *declared) Tokens(after string) iter.Seq2[string, *tokenv1.Token] {
	return sorted(v.tokens, after)
}

// sorted returns the records of a small table in order. Operators name applications and environments,
// so there are few.
func sorted[T proto.Message](t *fold.Table[T], after string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, key := range slices.Sorted(keys(t)) {
			if r, ok := t.Get(key); key > after && ok && !yield(key, r) {
				return
			}
		}
	}
}

var _ selector.Reader = (*View)(nil)

// Hold returns a hold by id; its time may have passed.
func (v *declared) Hold(id string) (*holdv1.Hold, bool) { return v.holds.Get(id) }

// Holds returns the holds that sort after an id, by id; the time of some may have passed.
func (v *declared) Holds(after string) iter.Seq2[string, *holdv1.Hold] { return sorted(v.holds, after) }

// HoldCount returns how many holds there are.
func (v *declared) HoldCount() int { return v.holds.Len() }

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
func (v *declared) Rejection(publicKey string) (*lobbyv1.Rejection, bool) {
	return v.rejections.Get(publicKey)
}

// LabelRule returns a label rule by name.
func (v *declared) LabelRule(name string) (*labelrulev1.LabelRule, bool) {
	return v.labelRules.Get(name)
}

// LabelRules returns the label rules that sort after a name, by name.
func (v *declared) LabelRules(after string) iter.Seq2[string, *labelrulev1.LabelRule] {
	return sorted(v.labelRules, after)
}

// LabelRuleNames returns every label rule's name.
func (v *declared) LabelRuleNames() iter.Seq[string] { return keys(v.labelRules) }
