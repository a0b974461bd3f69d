package selector

import (
	"slices"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

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
