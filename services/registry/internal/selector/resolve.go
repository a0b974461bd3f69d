package selector

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
)

// Resolve returns the servers that a selector matches, and the named ones that cannot be changed.
func Resolve(r Reader, on *intentv1.Selector) (Found, *apiv1.Refusal) {
	if empty(on) {
		return Found{}, &apiv1.Refusal{
			Code: code.EmptySelector, Message: "the selector names no server", Try: "--on all, to select every server",
		}
	}
	if refusal := check(r, on); refusal != nil {
		return Found{}, refusal
	}
	match, refusal := matcher(r, on)
	if refusal != nil {
		return Found{}, refusal
	}
	var out Found
	if len(on.GetServers()) > 0 {
		out, refusal = named(r, on, match)
	} else {
		out = where(r, on, match)
	}
	if refusal == nil && len(out.Servers) == 0 && len(out.Left) == 0 {
		refusal = noServers(r, on)
	}
	return out, refusal
}

// Matcher returns a function that reports whether a selector matches a server in any state.
func Matcher(r Reader, on *intentv1.Selector) (func(*serverv1.Server) bool, *apiv1.Refusal) {
	if on == nil {
		return func(*serverv1.Server) bool { return true }, nil
	}
	if refusal := check(r, on); refusal != nil {
		return nil, refusal
	}
	ids := map[string]bool{}
	for _, reference := range on.Servers {
		s, refusal := Find(r, reference)
		if refusal != nil {
			return nil, refusal
		}
		ids[s.Id] = true
	}
	rest, refusal := matcher(r, on)
	if refusal != nil {
		return nil, refusal
	}
	return func(s *serverv1.Server) bool { return (len(ids) == 0 || ids[s.GetId()]) && rest(s) }, nil
}

// empty reports whether a selector selects no servers. What it excludes does not count.
func empty(on *intentv1.Selector) bool {
	return !on.GetAll() && len(on.GetServers()) == 0 && on.GetEnvironment() == "" && len(on.GetLabels()) == 0 &&
		len(on.GetWhere()) == 0
}

// check refuses a selector that no server can match because it names something unknown.
func check(r Reader, on *intentv1.Selector) *apiv1.Refusal {
	if e := on.GetEnvironment(); e != "" && !environmentKnown(r, e) {
		return UnknownEnvironment(r, e)
	}
	for _, c := range on.GetWhere() {
		if refusal := checkCondition(r, c); refusal != nil {
			return refusal
		}
	}
	for _, n := range on.GetNot() {
		if empty(n) || len(n.Not) > 0 {
			return badSelector(
				"a nested selector after --not must select servers, and must not contain another --not",
				"--not SELECTOR",
			)
		}
		if refusal := check(r, n); refusal != nil {
			return refusal
		}
	}
	return nil
}

// matcher returns a function that reports whether a server matches a selector except for its names.
func matcher(r Reader, on *intentv1.Selector) (func(*serverv1.Server) bool, *apiv1.Refusal) {
	var not []func(*serverv1.Server) bool
	for _, n := range on.GetNot() {
		ids := map[string]bool{}
		for _, reference := range n.Servers {
			s, refusal := Find(r, reference)
			if refusal != nil {
				return nil, refusal
			}
			ids[s.Id] = true
		}
		rest, refusal := matcher(r, n)
		if refusal != nil {
			return nil, refusal
		}
		not = append(not, func(s *serverv1.Server) bool { return (len(ids) == 0 || ids[s.Id]) && rest(s) })
	}
	return func(s *serverv1.Server) bool {
		if !Matches(s, on.GetEnvironment(), on.GetLabels()) {
			return false
		}
		for _, c := range on.GetWhere() {
			if !meets(s, c) {
				return false
			}
		}
		return !slices.ContainsFunc(not, func(out func(*serverv1.Server) bool) bool { return out(s) })
	}, nil
}

// named returns the servers that a selector names and matches.
func named(r Reader, on *intentv1.Selector, match func(*serverv1.Server) bool) (Found, *apiv1.Refusal) {
	found := map[string]*serverv1.Server{}
	for _, reference := range on.Servers {
		s, refusal := Find(r, reference)
		if refusal != nil {
			return Found{}, refusal
		}
		if match(s) {
			found[s.Id] = s
		}
	}
	var out Found
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if s := found[id]; s.Life == serverv1.Life_LIFE_ALIVE {
			out.Servers = append(out.Servers, s)
		} else {
			out.Left = append(out.Left, Left{s, NotAlive(s)})
		}
	}
	return out, nil
}

// where returns the living servers that a selector matches.
func where(r Reader, on *intentv1.Selector, match func(*serverv1.Server) bool) Found {
	var out Found
	for s := range r.ServersWhere(on.Environment, on.Labels) {
		if s.Life == serverv1.Life_LIFE_ALIVE && match(s) {
			out.Servers = append(out.Servers, s)
		}
	}
	return out
}

// environmentKnown reports whether servers may be selected by an environment: it exists, or stands for none.
func environmentKnown(r Reader, name string) bool {
	return name == environment.None || r.EnvironmentExists(name)
}

// Matches reports whether a server is in an environment, unless that is empty, and has all labels.
func Matches(s *serverv1.Server, name string, labels map[string]string) bool {
	if name != "" && cmp.Or(s.Environment, environment.None) != name {
		return false
	}
	for k, v := range labels {
		if have, ok := s.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// noServers refuses a selector that matches nothing. It names how many servers were searched, how
// many each part matches by itself, and the nearest value of the first part that matches none.
func noServers(r Reader, on *intentv1.Selector) *apiv1.Refusal {
	refusal := &apiv1.Refusal{Code: code.NoServers, Try: "garrison server list"}
	var alive []*serverv1.Server
	for s := range r.ServersWhere("", nil) {
		if s.Life == serverv1.Life_LIFE_ALIVE {
			alive = append(alive, s)
		}
	}
	searched := fmt.Sprintf("%d searched", len(alive))
	for _, part := range parts(on) {
		n := 0
		for _, s := range alive {
			if meets(s, part) {
				n++
			}
		}
		searched += fmt.Sprintf("; %s matches %d", conditionText(part), n)
		if n == 0 && refusal.Nearest == "" {
			refusal.Nearest = nearestTo(part, alive)
		}
	}
	refusal.Message = fmt.Sprintf("no server that is alive matches %s (%s)", describe(on), searched)
	return refusal
}

// parts returns a selector as conditions, in the order of their text form.
func parts(on *intentv1.Selector) []*intentv1.Condition {
	var out []*intentv1.Condition
	is := func(field, value string) *intentv1.Condition {
		return &intentv1.Condition{Field: field, Operator: intentv1.Operator_OPERATOR_IN, Values: []string{value}}
	}
	if on.GetEnvironment() != "" {
		out = append(out, is("env", on.Environment))
	}
	for _, k := range slices.Sorted(maps.Keys(on.GetLabels())) {
		out = append(out, is(labelPrefix+k, on.Labels[k]))
	}
	return append(out, on.GetWhere()...)
}

// describe returns a selector as text.
func describe(on *intentv1.Selector) string {
	var words []string
	if len(on.GetServers()) > 0 {
		words = append(words, strings.Join(on.Servers[:min(3, len(on.Servers))], ","))
	}
	for _, p := range parts(on) {
		words = append(words, conditionText(p))
	}
	text := cmp.Or(strings.Join(words, " and "), "all")
	for _, n := range on.GetNot() {
		text += " and not (" + describe(n) + ")"
	}
	return text
}
