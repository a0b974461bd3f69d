package server

import (
	"fmt"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Leaked reports whether something of Garrison may still be on a dead server's machine.
func Leaked(s *serverv1.Server) bool { return len(Leaks(s)) > 0 }

// Leaks returns why something of Garrison may still be on a dead server's machine; none when
// nothing is, or when a provisioner takes the machine away.
//
//	there is                                         | until
//	-------------------------------------------------|-----------------------------------------
//	no word that the executor removes itself         | it says so, or an operator has it cleaned
//	the same, and nobody knows who made the machine  | an operator has it cleaned
//	paths left that are, or may be, Garrison's own   | an operator has it cleaned
//	at its death, what no instance explained         | an operator has it cleaned
func Leaks(s *serverv1.Server) (leaks []*serverv1.Duty) {
	if s.GetLife() != serverv1.Life_LIFE_DEAD || s.GetOwnership() == serverv1.Ownership_OWNERSHIP_PROVISIONED {
		return nil
	}
	leak := func(kind serverv1.DutyKind, reason string) {
		leaks = append(leaks, &serverv1.Duty{Kind: kind, Since: s.Since, Reason: reason})
	}
	switch {
	case s.UninstalledAt != nil:
	case s.Ownership == serverv1.Ownership_OWNERSHIP_MANUAL:
		leak(serverv1.DutyKind_DUTY_KIND_RECEIPT, s.Reason)
	default:
		leak(serverv1.DutyKind_DUTY_KIND_OWNERSHIP, "ownership is unknown, so its executor does not remove itself")
	}
	if s.LeftOwn > 0 {
		leak(serverv1.DutyKind_DUTY_KIND_PATHS, fmt.Sprintf("%d paths of Garrison's own could not be deleted", s.LeftOwn))
	}
	if found := foundAtDeath(s); found != "" && !cleaned(s) {
		leak(serverv1.DutyKind_DUTY_KIND_FOUND, "unmanaged at its death: "+found)
	}
	return leaks
}

// cleaned reports whether an operator had the machine cleaned, which leaves no agent.
func cleaned(s *serverv1.Server) bool { return s.GetCleanUp() != nil && s.GetCleanUp().Code == "" }

// namedAtDeath is up to how many of the found agents a reason names.
const namedAtDeath = 3

// foundAtDeath names what no instance explained when the server died.
func foundAtDeath(s *serverv1.Server) string {
	var names []string
	for _, f := range s.GetFoundAtDeath() {
		what := strings.ToLower(strings.TrimPrefix(f.Trace.String(), "TRACE_"))
		names = append(names, strings.TrimSpace(fmt.Sprintf("%s %s", f.Agent, f.Version))+" ("+what+" "+f.Path+")")
	}
	more := uint32(len(names)) + s.GetFoundAtDeathMore()
	if more == 0 {
		return ""
	}
	names = names[:min(len(names), namedAtDeath)]
	if more -= uint32(len(names)); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// keepFound keeps what no instance explained when the server died, but for what certainly
// belongs to another server or root.
func keepFound(s *serverv1.Server) {
	for _, f := range s.Found {
		if f.OtherServerId == "" && f.OtherRoot == "" {
			s.FoundAtDeath = append(s.FoundAtDeath, f)
		}
	}
	s.FoundAtDeathMore = s.FoundMore
	s.Found, s.FoundMore, s.FoundAt = nil, 0, nil // no server looks any more
}
