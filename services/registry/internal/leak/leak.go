// Package leak decides whether something of Garrison may still be on a dead server's machine.
//
// Guarantee: a server counts as leaked until its executor reports that it removed itself, an
// operator has the machine cleaned, or a provisioner takes the machine away. Agents that are only found on the machine
// do not keep the server from dying, since no task removes them, and it counts as leaked for them.
package leak

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Leaked reports whether something of Garrison may still be on a dead server's machine.
func Leaked(s *serverv1.Server) bool { return len(Leaks(s)) > 0 }

// Leaks returns why something of Garrison may still be on a dead server's machine; empty when nothing
// is, or when a provisioner takes the machine away.
//
//	leak                                          | ends when
//	----------------------------------------------|---------------------------------------------
//	no receipt that the executor removes itself   | the receipt arrives, or an operator cleans it
//	no receipt, and the ownership is unknown      | an operator cleans it
//	paths left that are, or may be, Garrison's    | an operator cleans it
//	unmanaged agents at its death                 | an operator cleans it
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
		leak(serverv1.DutyKind_DUTY_KIND_RECEIPT, strings.TrimPrefix(s.Reason+"; "+farewell(s), "; "))
	default:
		leak(serverv1.DutyKind_DUTY_KIND_OWNERSHIP,
			"ownership is unknown, so its executor does not remove itself; "+farewell(s))
	}
	if s.LeftOwn > 0 {
		leak(serverv1.DutyKind_DUTY_KIND_PATHS,
			fmt.Sprintf("%d paths of Garrison's own could not be deleted", s.LeftOwn))
	}
	if found := foundAtDeath(s); found != "" && !cleaned(s) {
		leak(serverv1.DutyKind_DUTY_KIND_FOUND, "unmanaged at its death: "+found)
	}
	return leaks
}

// farewell tells until when the executor of a dead server is let in to confirm that it removed itself. After that only
// an operator can have the machine cleaned.
func farewell(s *serverv1.Server) string {
	end := s.GetSince().AsTime().Add(server.FarewellPeriod)
	return "its login ends on " + end.UTC().Format("2006-01-02 15:04") + " UTC"
}

// cleaned reports whether an operator cleaned the machine, which leaves no agent.
func cleaned(s *serverv1.Server) bool { return s.GetCleanUp() != nil && s.GetCleanUp().Code == "" }

// namedAtDeath is how many unmanaged agents a reason names at most.
const namedAtDeath = 3

// foundAtDeath names the unmanaged agents at the server's death.
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
