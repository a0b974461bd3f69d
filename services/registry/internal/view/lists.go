package view

import (
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fold"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
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

// Agents returns the agents that sort after a name, by name.
func (v *records) Agents(after string) iter.Seq2[string, *agentv1.Agent] {
	return func(yield func(string, *agentv1.Agent) bool) {
		for name := range v.agentBy.Ascend(groupAll, after) {
			if a, ok := v.agents.Get(name); ok && !yield(name, a) {
				return
			}
		}
	}
}

// Applications returns the applications that sort after a name, by name.
func (v *records) Applications(after string) iter.Seq2[string, *applicationv1.Application] {
	return sorted(v.applications, after)
}

// Environments returns the environments that sort after a name, by name.
func (v *records) Environments(after string) iter.Seq2[string, *environmentv1.Environment] {
	return sorted(v.environments, after)
}

// Tokens returns the pooled tokens that sort after a name, by name.
func (v *records) Tokens(after string) iter.Seq2[string, *tokenv1.Token] {
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
