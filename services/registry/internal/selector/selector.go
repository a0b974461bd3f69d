// Package selector finds servers: one server for a reference, a sorted list for a selector.
//
// Guarantees:
//
//  1. Find returns one server or a refusal; it never guesses between two.
//  2. Resolve returns servers that are alive, by id, each once; or a refusal. A server that is
//     named and not alive is returned apart, with the reason. An unknown server, environment
//     or field is refused.
package selector

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Reader is the view that is searched. Lists are sorted by id.
type Reader interface {
	Server(id string) (*serverv1.Server, bool)
	ServersNamed(name string) iter.Seq[*serverv1.Server]
	ServersPrefixed(idPrefix string) iter.Seq[*serverv1.Server]
	ServersWhere(environment string, labels map[string]string) iter.Seq[*serverv1.Server]
	ServerNames() iter.Seq[string]
	EnvironmentExists(name string) bool
	EnvironmentNames() iter.Seq[string]
}

// Found is what a selector matches.
type Found struct {
	Servers []*serverv1.Server // alive, by id
	Left    []Left             // named, and not alive; by id
}

// Left is a server that is named and cannot be changed.
type Left struct {
	Server *serverv1.Server
	Reason *apiv1.Refusal
}

// Find returns the server with an id, with the only id that starts with a prefix, or with a name. A
// name of a server that is not dead comes before that of a dead one.
func Find(r Reader, reference string) (*serverv1.Server, *apiv1.Refusal) {
	if s, ok := r.Server(reference); ok {
		return s, nil
	}
	if ident.IsUUID(reference) {
		return nil, unknownServer(r, reference)
	}
	named := living(slices.Collect(r.ServersNamed(reference)))
	if len(named) == 1 {
		return named[0], nil
	}
	var prefixed []*serverv1.Server
	if looksLikeID(reference) {
		for s := range r.ServersPrefixed(reference) {
			if prefixed = append(prefixed, s); len(prefixed) > 3 {
				break
			}
		}
	}
	switch all := append(named, prefixed...); len(all) {
	case 0:
		return nil, unknownServer(r, reference)
	case 1:
		return all[0], nil
	default:
		return nil, ambiguous(reference, all)
	}
}

// living leaves out dead servers, unless all are dead.
func living(servers []*serverv1.Server) []*serverv1.Server {
	var out []*serverv1.Server
	for _, s := range servers {
		if s.Life != serverv1.Life_LIFE_DEAD {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return servers
	}
	return out
}

func looksLikeID(s string) bool {
	return s != "" && len(s) < 36 && strings.Trim(s, "0123456789abcdef-") == ""
}

func unknownServer(r Reader, reference string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.UnknownServer, Message: fmt.Sprintf(
			"no server has the id or name %q, or an id with that prefix", reference,
		),
		Nearest: nearest.Name(reference, r.ServerNames()), Try: "garrison server list",
	}
}

// UnknownEnvironment refuses an unknown environment.
func UnknownEnvironment(r interface{ EnvironmentNames() iter.Seq[string] }, name string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.UnknownEnvironment, Message: fmt.Sprintf("no environment %q", name),
		Nearest: nearest.Name(name, r.EnvironmentNames()), Try: "garrison env list",
	}
}

// NotAlive refuses a server that is named and cannot be changed. A dead one is refused as unknown,
// with a message that names its state.
func NotAlive(s *serverv1.Server) *apiv1.Refusal {
	state := strings.ToLower(strings.TrimPrefix(s.Life.String(), "LIFE_"))
	refused := code.NotAlive
	if s.Life == serverv1.Life_LIFE_DEAD {
		refused = code.UnknownServer // only its record is left
	}
	return &apiv1.Refusal{
		Code: refused, Message: fmt.Sprintf("server %q (%s) is %s, not alive", s.Name, s.Id, state),
		Try: "garrison server show " + s.Id,
	}
}

func ambiguous(reference string, all []*serverv1.Server) *apiv1.Refusal {
	var names []string
	for _, s := range all[:min(3, len(all))] {
		names = append(names, fmt.Sprintf("%s (%s)", s.Id, s.Name))
	}
	more := ""
	if len(all) > 3 {
		more = " and more"
	}
	return &apiv1.Refusal{
		Code: code.Ambiguous, Message: fmt.Sprintf(
			"%q matches several servers: %s%s", reference, strings.Join(names, ", "), more,
		),
		Try: "a longer prefix",
	}
}

// Fixed returns a function that reports whether a kept selector, whose servers are ids, matches a server in any state.
// What it names may be gone since: that matches no server, and the rest still does.
func Fixed(on *intentv1.Selector) func(*serverv1.Server) bool {
	return func(s *serverv1.Server) bool {
		return fixed(s, on) && !slices.ContainsFunc(on.GetNot(), func(n *intentv1.Selector) bool { return fixed(s, n) })
	}
}

// fixed reports whether a server matches a selector, regardless of what it excludes.
func fixed(s *serverv1.Server, on *intentv1.Selector) bool {
	if empty(on) || len(on.Servers) > 0 && !slices.Contains(on.Servers, s.GetId()) {
		return false
	}
	return Matches(s, on.Environment, on.Labels) && MeetsAll(s, on.Where)
}

// mostSpelled is how many servers Flags spells out.
const mostSpelled = 5

// Flags returns the flags of the CLI that express a selector, for the commands that refusals suggest. A long or nested
// selector is left to the reader, as SELECTOR.
func Flags(s *intentv1.Selector) string {
	if len(s.GetWhere())+len(s.GetNot()) > 0 || len(s.GetServers()) > mostSpelled {
		return "--on SELECTOR"
	}
	var out []string
	if s.GetAll() {
		out = append(out, "--on all")
	}
	if len(s.GetServers()) > 0 {
		out = append(out, "--on "+strings.Join(s.Servers, ","))
	}
	if s.GetEnvironment() != "" {
		out = append(out, "--on env="+s.Environment)
	}
	for _, name := range slices.Sorted(maps.Keys(s.GetLabels())) {
		out = append(out, "--on label."+name+"="+s.Labels[name])
	}
	if len(out) == 0 { // which is refused, so that the reader names servers
		return "--on SELECTOR"
	}
	return strings.Join(out, " ")
}
