package selector

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Query is a selector that is ready for a search through indexes. The zero value matches every server.
type Query struct {
	IDs   []string              // the servers that it names, by id; nil when it names none
	Where []*intentv1.Condition // what each server must meet
	match func(*serverv1.Server) bool
	not   []*intentv1.Selector
}

// NewQuery returns the query of a selector, which matches servers in any state; nil matches every server.
func NewQuery(r Reader, on *intentv1.Selector) (Query, *apiv1.Refusal) {
	if on == nil {
		return Query{}, nil
	}
	match, refusal := Matcher(r, on)
	if refusal != nil {
		return Query{}, refusal
	}
	q := Query{Where: parts(on), match: match, not: on.Not}
	for _, reference := range on.Servers {
		s, refusal := Find(r, reference)
		if refusal != nil {
			return Query{}, refusal
		}
		q.IDs = append(q.IDs, s.Id)
	}
	slices.Sort(q.IDs)
	q.IDs = slices.Compact(q.IDs)
	return q, nil
}

// Match reports whether the query matches a server.
func (q Query) Match(s *serverv1.Server) bool { return q.match == nil || q.match(s) }

// Active reports whether the query is one of a selector.
func (q Query) Active() bool { return q.match != nil }

// Fields returns the fields that Match looks at, and whether those are all that it looks at: not when servers are
// named.
func (q Query) Fields() (fields []string, all bool) {
	all = len(q.IDs) == 0
	for _, c := range q.Where {
		fields = append(fields, c.Field)
	}
	for _, n := range q.not {
		all = all && len(n.Servers) == 0
		for _, c := range parts(n) {
			fields = append(fields, c.Field)
		}
	}
	return fields, all
}

// Value returns a field of a server; empty when it is unknown or missing.
func Value(s *serverv1.Server, field string) string {
	value, _ := valueOf(s, field)
	return value
}

// Meets reports whether a server with a value of the condition's field meets the condition.
func Meets(c *intentv1.Condition, value string) bool { return meetsValue(c, value, value != "") }

// Ordered reports whether values of a field are compared as numbers or versions, so that two spellings may be equal.
func Ordered(field string) bool { return orders[field] != nil }

// FieldNames returns every field that a condition may compare, besides labels.
func FieldNames() iter.Seq[string] { return maps.Keys(fields) }

// MachineFields are the fields that a machine says of itself.
var MachineFields = []string{
	"platform", "os", "arch", "hostname", "kernel", "distribution", "cpus", "memory", "executor",
}

// CheckConditions refuses conditions that cannot be evaluated, or on a field that is not among those given.
func CheckConditions(r Reader, where []*intentv1.Condition, fields ...string) *apiv1.Refusal {
	for _, c := range where {
		if !slices.Contains(fields, c.GetField()) {
			return badSelector(fmt.Sprintf("%s: a condition on %q is not possible here (possible: %s)",
				conditionText(c), c.GetField(), strings.Join(fields, ", ")), "os=linux")
		}
		if refusal := checkCondition(r, c); refusal != nil {
			return refusal
		}
	}
	return nil
}

// MeetsAll reports whether a server meets all of some conditions, which CheckConditions accepted.
func MeetsAll(s *serverv1.Server, where []*intentv1.Condition) bool {
	return !slices.ContainsFunc(where, func(c *intentv1.Condition) bool { return !meets(s, c) })
}
