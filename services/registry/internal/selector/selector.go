// Package selector turns what names servers into servers: a reference into one, a
// selector into a sorted list.
//
// Guarantees:
//
//  1. Find gives one server or a refusal; it never guesses between two.
//  2. Resolve gives servers that are alive, by id, each once; or a refusal. A server
//     that was named and is not alive is refused rather than passed over.
package selector

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ident"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/nearest"
)

// Reader is what is looked at. Lists are by id.
type Reader interface {
	Server(id string) (*serverv1.Server, bool)
	ServersNamed(name string) iter.Seq[*serverv1.Server]
	ServersPrefixed(idPrefix string) iter.Seq[*serverv1.Server]
	ServersWhere(environment string, labels map[string]string) iter.Seq[*serverv1.Server]
	ServerNames() iter.Seq[string]
	EnvironmentExists(name string) bool
	EnvironmentNames() iter.Seq[string]
}

// Find gives the server that is meant by an id, a prefix of an id that only one has, or
// a name. A name of one that is not dead comes before that of a dead one.
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

// Resolve gives the servers that a selector means.
func Resolve(r Reader, on *intentv1.Selector) ([]*serverv1.Server, *apiv1.Refusal) {
	if !on.GetAll() && len(on.GetServers()) == 0 && on.GetEnvironment() == "" && len(on.GetLabels()) == 0 {
		return nil, &apiv1.Refusal{Code: "EMPTY_SELECTOR", Message: "the selector names no server", Try: "--on all, to mean every server"}
	}
	if e := on.GetEnvironment(); e != "" && !r.EnvironmentExists(e) {
		return nil, UnknownEnvironment(r, e)
	}
	var out []*serverv1.Server
	var refusal *apiv1.Refusal
	if len(on.GetServers()) > 0 {
		out, refusal = named(r, on)
	} else {
		out = where(r, on)
	}
	if refusal == nil && len(out) == 0 {
		refusal = &apiv1.Refusal{Code: "NO_SERVERS", Message: "no server that is alive matches " + describe(on), Try: "garrison server list"}
	}
	return out, refusal
}

func named(r Reader, on *intentv1.Selector) ([]*serverv1.Server, *apiv1.Refusal) {
	found := map[string]*serverv1.Server{}
	for _, reference := range on.Servers {
		s, refusal := Find(r, reference)
		if refusal != nil {
			return nil, refusal
		}
		if s.Life != serverv1.Life_LIFE_ALIVE {
			return nil, NotAlive(s)
		}
		if Matches(s, on.Environment, on.Labels) {
			found[s.Id] = s
		}
	}
	out := make([]*serverv1.Server, 0, len(found))
	for _, s := range found {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *serverv1.Server) int { return strings.Compare(a.Id, b.Id) })
	return out, nil
}

func where(r Reader, on *intentv1.Selector) []*serverv1.Server {
	var out []*serverv1.Server
	for s := range r.ServersWhere(on.Environment, on.Labels) {
		if s.Life == serverv1.Life_LIFE_ALIVE {
			out = append(out, s)
		}
	}
	return out
}

// Matches says whether a server is of an environment, when one is said, and has all labels.
func Matches(s *serverv1.Server, environment string, labels map[string]string) bool {
	if environment != "" && s.Environment != environment {
		return false
	}
	for k, v := range labels {
		if have, ok := s.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func describe(on *intentv1.Selector) string {
	var parts []string
	if len(on.Servers) > 0 {
		parts = append(parts, strings.Join(on.Servers[:min(3, len(on.Servers))], ","))
	}
	if on.Environment != "" {
		parts = append(parts, "env="+on.Environment)
	}
	for k, v := range on.Labels {
		parts = append(parts, k+"="+v)
	}
	if len(parts) == 0 {
		return "all"
	}
	slices.Sort(parts)
	return strings.Join(parts, " and ")
}

func unknownServer(r Reader, reference string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: "UNKNOWN_SERVER", Message: fmt.Sprintf("no server has the id or name %q, or an id that starts so", reference),
		Nearest: nearest.Name(reference, r.ServerNames()), Try: "garrison server list",
	}
}

// UnknownEnvironment refuses an environment that is not there.
func UnknownEnvironment(r interface{ EnvironmentNames() iter.Seq[string] }, name string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: "UNKNOWN_ENVIRONMENT", Message: fmt.Sprintf("no environment %q", name),
		Nearest: nearest.Name(name, r.EnvironmentNames()), Try: "garrison env list",
	}
}

// NotAlive refuses a server that was named and cannot be changed. One that is dead is
// refused as unknown, with words that say what became of it.
func NotAlive(s *serverv1.Server) *apiv1.Refusal {
	state := strings.ToLower(strings.TrimPrefix(s.Life.String(), "LIFE_"))
	code := "NOT_ALIVE"
	if s.Life == serverv1.Life_LIFE_DEAD {
		code = "UNKNOWN_SERVER" // nothing can be asked of it any more; only its record is left
	}
	return &apiv1.Refusal{
		Code: code, Message: fmt.Sprintf("server %q (%s) is %s, not alive", s.Name, s.Id, state),
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
		Code: "AMBIGUOUS_SERVER", Message: fmt.Sprintf("%q means several servers: %s%s", reference, strings.Join(names, ", "), more),
		Try: "a longer prefix, or the whole id",
	}
}
