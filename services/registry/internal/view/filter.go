package view

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
	"github.com/garrison-fleet/garrison/services/registry/internal/leak"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// ServerFilter selects servers. All fields that are set must match.
type ServerFilter struct {
	Environment string // environment.None selects those without one
	Labels      map[string]string
	Life        serverv1.Life // unspecified means all but dead ones
	Presence    serverv1.Presence
	Standing    serverv1.Standing
	Condition   serverv1.ExecutorState
	Trouble     string // its code
	Leaked      bool   // dead ones that may have something left on them
	Found       bool   // ones with agents that no instance explains
	Ahead       bool   // ones that are ahead of the ledger
	Unsigned    bool   // ones that take images that no key signed
	Token       string // ones that joined with this pooled token
	On          selector.Query
	Unconfirmed *Unconfirmed
	Shown       func(*serverv1.Server) bool // another test, which is not of the view; nil for none
	Among       []string                    // only servers with these ids, sorted; nil means all
	Late        []string                    // ids of those that counts show as late, sorted
}

// InstanceFilter selects instances. All fields that are set must match.
type InstanceFilter struct {
	Server      string // its id
	Agent       string
	ImageID     string // wanted or found
	Version     string // wanted or found
	Kind        agentv1.Kind
	Application string
	Environment string // of the server
	State       instancev1.State
	Health      instancev1.Health
	NotAtWanted bool           // ones with another image than the wanted one
	Executors   bool           // also the executors that were installed on their machines
	On          selector.Query // of the server
	Unconfirmed *Unconfirmed
	Late        []string // ids of the servers that counts show as late, sorted
	onLate      bool     // only instances on those
}

// Unconfirmed selects the servers under management, and their instances, that were not confirmed since a time. Who
// confirmed what is not part of the view: it is known to one process and not in the ledger.
type Unconfirmed struct {
	Since time.Time
	Of    Confirmations
}

// Confirmations is when each server last confirmed its inventory.
type Confirmations interface {
	// ConfirmedSince reports whether a server confirmed its inventory at a time or later.
	ConfirmedSince(server string, at time.Time) bool
	// Unconfirmed returns the servers that did not, by id, or ok false when there are more than most.
	Unconfirmed(at time.Time, most int) (servers []string, ok bool)
}

// term is one part of a filter: a test, and, if there is one, an index of at least the rows that pass it.
type term[T any] struct {
	match   func(T) bool
	size    int                                 // how many rows the index has; -1 without an index
	rows    func(after string) iter.Seq[string] // the keys in the index that sort after a key, in order
	indexed bool                                // every row of the groups passes the test, and no other
	groups  []index.Group
}

// inGroups returns the term of the members of groups.
func inGroups[T any](by *index.Set, match func(T) bool, groups ...index.Group) term[T] {
	t := term[T]{match: match, indexed: true, groups: groups}
	t.rows = func(after string) iter.Seq[string] { return by.Union(groups, after) }
	for _, g := range groups {
		t.size += by.Count(g)
	}
	return t
}

// among returns the term of listed keys.
func among[T any](keys []string, match func(T) bool) term[T] {
	return term[T]{match: match, size: len(keys), rows: func(after string) iter.Seq[string] {
		from, found := slices.BinarySearch(keys, after)
		if found && after != "" {
			from++
		}
		return slices.Values(keys[from:])
	}}
}

// unindexed returns the term of a test without an index.
func unindexed[T any](match func(T) bool) term[T] { return term[T]{match: match, size: -1} }

// filters makes the terms of filters, which use the most selective index.
type filters struct {
	*tables
	*fleet
}

// serverTerms returns the terms of a filter of servers.
func (v *filters) serverTerms(q ServerFilter) []term[*serverv1.Server] {
	terms := []term[*serverv1.Server]{v.lifeTerm(q)}
	if q.Found {
		found := func(s *serverv1.Server) bool { return len(s.GetFound()) > 0 || s.GetFoundMore() > 0 }
		terms = append(terms, inGroups(&v.serverBy, found, groupFound))
	}
	if q.Ahead {
		ahead := func(s *serverv1.Server) bool { return s.GetAhead() != nil }
		terms = append(terms, inGroups(&v.serverBy, ahead, groupAhead))
	}
	if q.Unsigned {
		terms = append(terms, inGroups(&v.serverBy, server.TakesUnsigned, groupUnsigned))
	}
	for _, is := range [][2]string{
		{byPresence, presenceWord(q.Presence)}, {byStanding, standingWord(q.Standing)},
		{byCondition, executorWord(q.Condition)}, {byTrouble, q.Trouble},
		{byToken, q.Token},
	} {
		if is[1] != "" {
			terms = append(terms, v.serverTerm(is[0], is[1]))
		}
	}
	if q.Environment != "" {
		terms = append(terms, v.environmentTerm(q.Environment))
	}
	for label, value := range q.Labels {
		terms = append(terms, v.labelTerm(label, value))
	}
	if q.Among != nil {
		terms = append(terms, v.amongTerm(q.Among))
	}
	if q.Shown != nil {
		terms = append(terms, unindexed(q.Shown))
	}
	terms = append(terms, v.selectorTerms(q.On)...)
	return append(terms, v.unconfirmedTerms(q.Unconfirmed)...)
}

// lifeTerm returns the term of the lives in which servers are listed.
func (v *filters) lifeTerm(q ServerFilter) term[*serverv1.Server] {
	switch {
	case q.Leaked:
		return inGroups(&v.serverBy, leak.Leaked, groupLeaked)
	case q.Life != serverv1.Life_LIFE_UNSPECIFIED:
		return v.serverTerm(byLife, lifeWord(q.Life))
	}
	living := func(s *serverv1.Server) bool { return s.GetLife() != serverv1.Life_LIFE_DEAD }
	return inGroups(&v.serverBy, living, groupLiving)
}

// serverTerm returns the term of the servers with a value of a field.
func (v *filters) serverTerm(field, value string) term[*serverv1.Server] {
	match := func(s *serverv1.Server) bool { return serverValue(s, field) == value }
	return inGroups(&v.serverBy, match, index.Group{Field: field, Value: value})
}

// environmentTerm returns the term of the servers of an environment, or of those without one.
func (v *filters) environmentTerm(name string) term[*serverv1.Server] {
	match := func(s *serverv1.Server) bool { return cmp.Or(s.GetEnvironment(), environment.None) == name }
	return inGroups(&v.serverBy, match, index.Group{Field: byEnvironment, Value: name})
}

// labelTerm returns the term of the servers with a label, which may have the empty value.
func (v *filters) labelTerm(label, value string) term[*serverv1.Server] {
	match := func(s *serverv1.Server) bool {
		have, ok := s.GetLabels()[label]
		return ok && have == value
	}
	return inGroups(&v.serverBy, match, labelGroup(label, value))
}

// amongTerm returns the term of servers with listed ids.
func (v *filters) amongTerm(ids []string) term[*serverv1.Server] {
	return among(ids, func(s *serverv1.Server) bool { return isAmong(ids, s) })
}

func isAmong(ids []string, s *serverv1.Server) bool {
	_, found := slices.BinarySearch(ids, s.GetId())
	return found
}

// selectorTerms returns the terms of a selector: its own test, and an index of each part that has one.
func (v *filters) selectorTerms(q selector.Query) []term[*serverv1.Server] {
	if !q.Active() {
		return nil
	}
	terms := []term[*serverv1.Server]{unindexed(q.Match)}
	tested := func(*serverv1.Server) bool { return true } // by the first term
	if len(q.IDs) > 0 {
		terms = append(terms, among(q.IDs, tested))
	}
	for _, c := range q.Where {
		if groups, ok := v.groupsOf(c); ok {
			terms = append(terms, inGroups(&v.serverBy, tested, groups...))
		}
	}
	return terms
}

// mostValues is up to how many values of a field are compared with a condition, instead of all servers.
const mostValues = 10_000

// groupsOf returns the groups of the servers that meet a condition; ok is false when the servers without the field
// meet it too, or when the field has too many values.
func (v *filters) groupsOf(c *intentv1.Condition) (groups []index.Group, ok bool) {
	switch c.Operator {
	case intentv1.Operator_OPERATOR_NOT_IN:
		return nil, false
	case intentv1.Operator_OPERATOR_IN:
		if selector.Ordered(c.Field) {
			break
		}
		for _, value := range c.Values {
			groups = join(groups, index.Group{Field: c.Field, Value: value})
		}
		return groups, true
	}
	if v.serverBy.Distinct(c.Field) > mostValues {
		return nil, false
	}
	for value := range v.serverBy.Values(c.Field) {
		if selector.Meets(c, value) {
			groups = append(groups, index.Group{Field: c.Field, Value: value})
		}
	}
	return groups, true
}

// mostUnconfirmed is up to how many unconfirmed servers are sorted. Where there are more, a page of them is soon found
// among all.
const mostUnconfirmed = 1000

// unconfirmedTerms returns the term of the servers that were not confirmed since a time.
func (v *filters) unconfirmedTerms(q *Unconfirmed) []term[*serverv1.Server] {
	if q == nil {
		return nil
	}
	match := func(s *serverv1.Server) bool { return server.Managed(s) && !q.Of.ConfirmedSince(s.Id, q.Since) }
	if ids, ok := q.Of.Unconfirmed(q.Since, mostUnconfirmed); ok {
		return []term[*serverv1.Server]{among(ids, match)}
	}
	return []term[*serverv1.Server]{unindexed(match)}
}

// instanceTerms returns the terms of a filter of instances, without those of their servers.
func (v *filters) instanceTerms(q InstanceFilter) []term[*instancev1.Instance] {
	all := func(*instancev1.Instance) bool { return true }
	terms := []term[*instancev1.Instance]{inGroups(&v.instanceBy, all, groupAll)}
	for _, is := range [][2]string{
		{byAgent, q.Agent}, {byState, stateWord(q.State)}, {byHealth, healthWord(q.Health)},
	} {
		if is[1] != "" {
			value := instanceValues[is[0]]
			match := func(i *instancev1.Instance) bool { return value(i) == is[1] }
			terms = append(terms, inGroups(&v.instanceBy, match, index.Group{Field: is[0], Value: is[1]}))
		}
	}
	if id := q.ImageID; id != "" {
		match := func(i *instancev1.Instance) bool {
			return i.GetWanted().GetId() == id || i.GetObserved().GetId() == id
		}
		terms = append(terms, inGroups(&v.instanceBy, match, index.Group{Field: byImage, Value: id}))
	}
	if version := q.Version; version != "" {
		match := func(i *instancev1.Instance) bool {
			return i.GetWanted().GetVersion() == version || i.GetObserved().GetVersion() == version
		}
		terms = append(terms, inGroups(&v.instanceBy, match, index.Group{Field: byVersion, Value: version}))
	}
	if q.NotAtWanted {
		terms = append(terms, inGroups(&v.instanceBy, notAtWanted, groupNotAtWanted))
	}
	if q.Kind != agentv1.Kind_KIND_UNSPECIFIED {
		terms = append(terms, v.agentsTerm(byKind, agentKindWord(q.Kind)))
	}
	if q.Application != "" {
		terms = append(terms, v.agentsTerm(byApplication, q.Application))
	}
	return terms
}

// agentsTerm returns the term of the instances whose agents have a value of a field.
func (v *filters) agentsTerm(field, value string) term[*instancev1.Instance] {
	var groups []index.Group
	for agent := range v.agentBy.Ascend(index.Group{Field: field, Value: value}, "") {
		groups = append(groups, index.Group{Field: byAgent, Value: agent})
	}
	if field == byKind && value == selfAgents.Value {
		groups = join(groups, index.Group{Field: byAgent, Value: Executor})
	}
	match := func(i *instancev1.Instance) bool { return v.instanceValue(i, nil, field) == value }
	return inGroups(&v.instanceBy, match, groups...)
}

// instanceServerTerms returns the terms of a filter of instances that are about their servers.
func (v *filters) instanceServerTerms(q InstanceFilter) []term[*serverv1.Server] {
	var terms []term[*serverv1.Server]
	if q.Server != "" {
		terms = append(terms, among([]string{q.Server}, func(s *serverv1.Server) bool { return s.GetId() == q.Server }))
	}
	if q.Environment != "" {
		terms = append(terms, v.environmentTerm(q.Environment))
	}
	if q.On.Active() {
		terms = append(terms, v.selectorTerms(q.On)...)
	}
	if q.onLate {
		terms = append(terms, v.amongTerm(q.Late))
	}
	return append(terms, v.unconfirmedTerms(q.Unconfirmed)...)
}

// ImagesWith returns the ids of the images that instances want or have, or that the catalog has, and that start with a
// prefix, sorted.
func (v *filters) ImagesWith(prefix string) []string {
	var ids []string
	for id := range v.instanceBy.Values(byImage) {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	for id := range v.images.All() {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
