package view

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/external"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

func externalGroups(x *externalv1.External) []index.Group {
	if x == nil {
		return nil
	}
	return []index.Group{
		groupAll, {Field: byAgent, Value: x.Agent}, {Field: byServer, Value: x.GetFound().GetServer()},
		{Field: byHealth, Value: healthWord(x.GetFound().GetHealth())},
		{Field: byVersion, Value: x.GetFound().GetVersion()},
	}
}

func (v *View) applyExternal(f ledger.Fact) bool {
	have := row(v.externals, f.Key)
	next, fit := external.Apply(have, f)
	if fit {
		v.externalBy.Change(f.Key, externalGroups(have), externalGroups(next))
	}
	return own(v.externals, f, next, fit)
}

// dropExternalsOn removes what was reported on a server that is dead: it went with the machine.
func (v *View) dropExternalsOn(server string) {
	for _, key := range slices.Collect(v.externalBy.Ascend(index.Group{Field: byServer, Value: server}, "")) {
		v.externalBy.Change(key, externalGroups(row(v.externals, key)), nil)
		v.externals.Drop(key, v.externals.Sequence(key)) // the sequence of its last fact still guards the key
	}
}

// ExternalFilter selects external instances. All fields that are set must match.
type ExternalFilter struct {
	Agent, Server, Version string // Server is an id
	Health                 instancev1.Health
}

func (q ExternalFilter) terms(by *index.Set) []term[*externalv1.External] {
	every := func(*externalv1.External) bool { return true }
	terms := []term[*externalv1.External]{inGroups(by, every, groupAll)}
	for _, is := range []struct {
		field, want string
		value       func(*externalv1.External) string
	}{
		{byAgent, q.Agent, (*externalv1.External).GetAgent},
		{byServer, q.Server, func(x *externalv1.External) string { return x.GetFound().GetServer() }},
		{byVersion, q.Version, func(x *externalv1.External) string { return x.GetFound().GetVersion() }},
		{byHealth, healthWord(q.Health), func(x *externalv1.External) string {
			return healthWord(x.GetFound().GetHealth())
		}},
	} {
		if is.want != "" {
			match := func(x *externalv1.External) bool { return is.value(x) == is.want }
			terms = append(terms, inGroups(by, match, index.Group{Field: is.field, Value: is.want}))
		}
	}
	return terms
}

// foreign finds and counts external instances, which other systems run.
type foreign struct{ *counting }

// Externals returns the external instances that pass the filter and sort after a key, by agent and name.
func (v *foreign) Externals(q ExternalFilter, after string) iter.Seq2[string, *externalv1.External] {
	terms := q.terms(&v.externalBy)
	return func(yield func(string, *externalv1.External) bool) {
		for key := range smallest(terms).rows(after) {
			if x, ok := v.externals.Get(key); ok && meetsAll(terms, x) && !yield(key, x) {
				return
			}
		}
	}
}

// ExternalsOn returns the external instances on a server, or on none when it is empty, by agent and name.
func (v *foreign) ExternalsOn(server string) iter.Seq2[string, *externalv1.External] {
	return func(yield func(string, *externalv1.External) bool) {
		for key := range v.externalBy.Ascend(index.Group{Field: byServer, Value: server}, "") {
			if x, ok := v.externals.Get(key); ok && !yield(key, x) {
				return
			}
		}
	}
}

// ExternalsLike returns the external instances that a filter of instances selects and that sort after a key. They have
// neither image nor state, so a filter of those selects none. confirmed reports when one was last confirmed.
func (v *foreign) ExternalsLike(
	q InstanceFilter, after string, confirmed func(key string) time.Time,
) iter.Seq2[string, *externalv1.External] {
	return func(yield func(string, *externalv1.External) bool) {
		if q.ImageID != "" || q.State != 0 || q.NotAtWanted || q.Kind != 0 && q.Kind != agentv1.Kind_KIND_EXTERNAL {
			return
		}
		own := ExternalFilter{Agent: q.Agent, Server: q.Server, Version: q.Version, Health: q.Health}
		for key, x := range v.Externals(own, after) {
			if v.externalMeets(q, x, func() time.Time { return confirmed(key) }) && !yield(key, x) {
				return
			}
		}
	}
}

// externalMeets reports whether an external instance meets what a filter says of its agent, its server and its age.
func (v *foreign) externalMeets(q InstanceFilter, x *externalv1.External, confirmed func() time.Time) bool {
	s := row(v.servers, x.GetFound().GetServer())
	switch {
	case q.Application != "" && row(v.agents, x.Agent).GetApplication() != q.Application:
		return false
	case q.Environment != "" && (s == nil || !selector.Matches(s, q.Environment, nil)):
		return false
	case q.On.Active() && (s == nil || !q.On.Match(s) || len(q.On.IDs) > 0 && !slices.Contains(q.On.IDs, s.Id)):
		return false
	case q.Unconfirmed != nil && !confirmed().Before(q.Unconfirmed.Since):
		return false
	}
	return true
}

// CountWithExternals counts instances as CountInstances does, and the external ones that the filter selects.
func (v *foreign) CountWithExternals(
	q InstanceFilter, by []string, top int, confirmed func(key string) time.Time,
) *registryv1.Counts {
	t := v.tallyInstances(q, by)
	for _, x := range v.ExternalsLike(q, "", confirmed) {
		i, s := AsInstance(x), row(v.servers, x.GetFound().GetServer())
		value := func(field string) string { return v.instanceValue(i, s, field) }
		t.add(1, value)
		if slices.Contains(by, byPresence) && isAmong(q.Late, s) {
			t.moveToLate(value)
		}
	}
	return t.counts(top)
}

// AsInstance returns what an external instance has in common with the others.
func AsInstance(x *externalv1.External) *instancev1.Instance {
	f := x.GetFound()
	return &instancev1.Instance{
		ServerId: f.GetServer(), Agent: x.Agent, Health: f.GetHealth(), Since: x.Since, Reason: f.GetReason(),
		Observed: &imagev1.Ref{Version: f.GetVersion(), Digest: f.GetDigest()}, ObservedReason: f.GetReason(),
		ObservedAt: x.ChangedAt, ConfirmedAt: x.ConfirmedAt,
	}
}

// External returns the instance of an agent with a name.
func (v *foreign) External(agent, name string) (*externalv1.External, bool) {
	return v.externals.Get(ledger.Key(agent, name))
}

// ExternalsIn returns the external instances of an agent from a name on, by name.
func (v *foreign) ExternalsIn(agent, from string) iter.Seq2[string, *externalv1.External] {
	return func(yield func(string, *externalv1.External) bool) {
		after := ""
		if from != "" {
			if x, ok := v.External(agent, from); ok && !yield(from, x) {
				return
			}
			after = ledger.Key(agent, from)
		}
		for key, x := range v.Externals(ExternalFilter{Agent: agent}, after) {
			if !yield(strings.TrimPrefix(key, agent+"."), x) {
				return
			}
		}
	}
}

// ExternalAt returns the instance at a key of the noun.
func (v *foreign) ExternalAt(key string) (*externalv1.External, bool) { return v.externals.Get(key) }

// ExternalsOf returns how many external instances an agent has, or all agents have when it is empty.
func (v *foreign) ExternalsOf(agent string) int {
	if agent == "" {
		return v.externalBy.Count(groupAll)
	}
	return v.externalBy.Count(index.Group{Field: byAgent, Value: agent})
}
