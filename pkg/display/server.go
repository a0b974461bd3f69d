// Package display describes how the nouns of Garrison look to an operator: their columns, states, reasons and next
// steps.
//
// It is pure: each function maps a proto message to text. Nouns that more than one command shows are here; a noun that
// only its own commands show describes itself in its own package.
package display

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// cleanedText returns who last tried to clean a server's machine, how, and the outcome.
func cleanedText(s Server) string {
	c := s.GetCleanUp()
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%s, %s by %s", listing.Stamp(c.GetAt()), c.GetActor(), c.GetVia())
	if strings.HasPrefix(c.GetVia(), "by ") {
		text = fmt.Sprintf("%s, %s %s", listing.Stamp(c.GetAt()), c.GetActor(), c.GetVia())
	}
	if c.GetCode() != "" {
		text += ", failed: " + c.GetCode() + ": " + c.GetReason()
	}
	return text
}

// serverReason returns the reason of a server's state; for a leaked server also why the last clean-up failed.
func serverReason(s Server) string {
	switch c := s.GetCleanUp(); {
	case Leaked(s) && c.GetCode() != "":
		return "clean-up failed: " + c.GetCode() + ": " + c.GetReason() + "; " + LeakText(s)
	case Leaked(s):
		return LeakText(s)
	}
	for _, d := range s.GetDuties() {
		if d.GetKind() == serverv1.DutyKind_DUTY_KIND_DEATH && d.GetReason() != "" {
			return "its death is not recorded: " + d.GetReason()
		}
	}
	if line := TroubleLine(s); line != "" {
		return line
	}
	if under := s.GetReinstall(); under != nil {
		return strings.TrimSuffix("reinstalled by "+under.GetActor()+"; "+s.GetReason(), "; ")
	}
	return s.GetReason()
}

// Server is a server as the registry returns it.
type Server = *serverv1.Server

// Servers lists servers.
var Servers = listing.Listing[Server]{
	Name:  func(s Server) string { return s.GetName() },
	Order: "name",
	Columns: []listing.Column[Server]{
		listing.Col("NAME", Server.GetName),
		{
			Title: "STATE", Value: func(_ listing.View, s Server) string { return ServerState(s) },
			Data: func(s Server) any { return strings.Split(ServerState(s), ",") },
		},
		listing.Since("SINCE", serverSince),
		{Title: "NEXT", Value: serverNext},
		listing.Col("REASON", serverReason),
		listing.Col("ENV", Server.GetEnvironment),
		{
			Title: "LABELS", Value: func(_ listing.View, s Server) string { return listing.Pairs(s.GetLabels()) },
			Data: func(s Server) any { return s.GetLabels() },
		},
		listing.Col("PLATFORM", func(s Server) string { return Platform(s.GetSysinfo().GetPlatform()) }),
		listing.Wide("ID", Server.GetId),
		listing.Wide("CELL", Server.GetCell),
		listing.Wide("OWNERSHIP", func(s Server) string { return listing.Word(s.GetOwnership()) }),
		listing.Wide("FOUND", func(s Server) string { return listing.Count(uint64(FoundCount(s))) }).Numeric(),
		listing.Wide("UNINSTALLED", uninstalled),
		listing.Wide("CLEANED", cleanedText),
		listing.Wide("HOST", func(s Server) string { return s.GetSysinfo().GetHostname() }),
		listing.Wide("SYSTEM", func(s Server) string { return s.GetSysinfo().GetDistribution() }),
		listing.Wide("KERNEL", func(s Server) string { return s.GetSysinfo().GetKernel() }),
		listing.Wide("EXECUTOR", func(s Server) string { return s.GetSysinfo().GetExecutorVersion() }),
		listing.Wide("CONFIRMED", serverConfirmed),
		listing.Wide("CLOCK", clock),
		{Title: "CREDENTIALS", Wide: true, Value: credentialsLine},
		listing.Wide("ENROLLED", func(s Server) string { return listing.Stamp(s.GetEnrolledAt()) }),
		listing.Wide("REINSTALLED", func(s Server) string { return listing.Stamp(s.GetReinstalledAt()) }),
	},
}

// Managed reports whether a server is under management.
func Managed(s Server) bool {
	return s.GetLife() == serverv1.Life_LIFE_ALIVE || s.GetLife() == serverv1.Life_LIFE_DYING
}

// serverConfirmed returns when a server under management last confirmed its inventory.
func serverConfirmed(s Server) string {
	switch at := s.GetInventoryConfirmedAt(); {
	case !Managed(s):
		return ""
	case at == nil:
		return "unknown"
	default:
		return listing.Stamp(at)
	}
}

// clock returns how far the clock of a server differs from the registry's; empty while it agrees.
func clock(s Server) string {
	if s.GetClockAhead() == nil {
		return ""
	}
	return server.ClockText(s.GetClockAhead().AsDuration())
}

// credentialsLine returns until when the credentials of a server are valid.
func credentialsLine(v listing.View, s Server) string {
	until := s.GetCredentialsExpireAt()
	switch {
	case !Managed(s) || shutOut(s):
		return ""
	case expired(v, s):
		return "expired " + listing.Stamp(until) + "; garrison server enroll " + s.GetName()
	case until == nil:
		return "do not expire"
	}
	return "until " + listing.Stamp(until)
}

// shutOut reports whether a server is quarantined or revoked.
func shutOut(s Server) bool {
	return s.GetStanding() == serverv1.Standing_STANDING_QUARANTINED ||
		s.GetStanding() == serverv1.Standing_STANDING_REVOKED
}

// expired reports whether the credentials of a server have expired.
func expired(v listing.View, s Server) bool {
	until := s.GetCredentialsExpireAt()
	return until != nil && !v.At.Before(until.AsTime())
}

// Platform formats a platform as OS/ARCH.
func Platform(p *serverv1.Platform) string {
	if p == nil {
		return ""
	}
	return p.GetOs() + "/" + p.GetArch()
}

// Leaked reports whether files or processes of Garrison may remain on a dead server's machine. The registry decides
// that: a leaked server still has duties.
func Leaked(s Server) bool {
	return s.GetLife() == serverv1.Life_LIFE_DEAD && len(s.GetDuties()) > 0
}

// uninstalled returns when the executor reported its own removal or the machine was cleaned, and how many paths stayed.
func uninstalled(s Server) string {
	if s.GetLeftPaths() > 0 {
		return fmt.Sprintf("%s, but %s left", listing.Stamp(s.GetUninstalledAt()),
			listing.Plural(int(s.GetLeftPaths()), "path"))
	}
	return listing.Stamp(s.GetUninstalledAt())
}

// ServerState returns life and presence, and what is exceptional: standing, trouble, unmanaged agents.
func ServerState(s Server) string {
	if Leaked(s) {
		return listing.Word(s.GetLife()) + ",leaked"
	}
	if !Managed(s) {
		return listing.Word(s.GetLife())
	}
	words := []string{listing.Word(s.GetLife())}
	if p := listing.Word(s.GetPresence()); p != "" {
		words = append(words, p)
	}
	if s.GetReinstall() != nil {
		words = append(words, "reinstalling")
	}
	if t := troubleOf(s); t.word != "" {
		words = append(words, t.word)
	}
	if FoundCount(s) > 0 {
		words = append(words, "found")
	}
	return strings.Join(words, ",")
}

// mayRejoin reports whether a server whose credentials were revoked has a new token: a revocation voids earlier ones.
func mayRejoin(v listing.View, s Server) bool {
	return s.GetStanding() == serverv1.Standing_STANDING_REVOKED && s.GetTokenExpiresAt() != nil &&
		v.At.Before(s.GetTokenExpiresAt().AsTime())
}

func serverNext(v listing.View, s Server) string {
	switch {
	case s.GetLife() == serverv1.Life_LIFE_INVITED:
		if s.GetTokenExpiresAt() != nil && !v.At.Before(s.GetTokenExpiresAt().AsTime()) {
			return "garrison server forget " + s.GetName() // its token expired; an invitation can then be made again
		}
		return "joins " + listing.Until(v, s.GetTokenExpiresAt())
	case Leaked(s):
		return "garrison server clean " + s.GetName() + " --ssh USER@HOST"
	case s.GetLife() == serverv1.Life_LIFE_DEAD:
		return "garrison server forget " + s.GetId() // its name may be that of another server by now
	case mayRejoin(v, s):
		return "joins " + listing.Until(v, s.GetTokenExpiresAt())
	case troubleOf(s).word != "":
		return troubleOf(s).next
	case expired(v, s):
		return "garrison server enroll " + s.GetName()
	case s.GetLife() == serverv1.Life_LIFE_DYING || s.GetReinstall() != nil:
		return emptyingNext(s)
	case s.GetPresence() == serverv1.Presence_PRESENCE_UNSPECIFIED: // it joined and has not connected yet
		return "executor run"
	case s.GetPresence() == serverv1.Presence_PRESENCE_LATE:
		return "beats, or is offline"
	case s.GetPresence() != serverv1.Presence_PRESENCE_ONLINE:
		return "reconnects"
	case FoundCount(s) > 0:
		return "garrison explain " + s.GetName()
	}
	return ""
}

// emptyingNext returns what happens next on a server whose agents are all removed.
func emptyingNext(s Server) string {
	switch {
	case s.GetPresence() != serverv1.Presence_PRESENCE_OFFLINE:
		return agentsLeft(s)
	case s.GetReinstall() != nil:
		return "reconnects, and is emptied"
	}
	return "reconnects, or is declared lost"
}
