package display

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// trouble is the reason why a server does not carry out its document, although it may be online.
type trouble struct {
	word   string // shown in the state
	code   string
	reason string
	next   string
	since  *timestamppb.Timestamp
}

// troubleOf returns the worst trouble of a server; its word is empty when the server has none.
func troubleOf(s Server) trouble {
	a, d, c := s.GetAhead(), s.GetDuplicate(), s.GetCondition()
	switch {
	case Managed(s) && shutOut(s):
		return exclusionOf(s)
	case a != nil:
		return trouble{
			"ahead",
			code.LedgerBehind,
			AheadText(a),
			"garrison restore --on " + s.GetName(),
			a.GetSince(),
		}
	case d != nil:
		reason := "executors beat on " + Sightings(d.GetSightings())
		return trouble{
			"duplicate", code.DuplicateIdentity, reason,
			"garrison server enroll " + s.GetName() + " --replace --force",
			d.GetSince(),
		}
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED:
		return trouble{"suspended", c.GetCode(), c.GetReason(), "garrison explain " + c.GetCode(), c.GetSince()}
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_BUSY:
		return trouble{"busy", c.GetCode(), c.GetReason(), "changes wait for its end", c.GetSince()}
	}
	return trouble{}
}

// exclusionOf describes why a server is quarantined or revoked.
func exclusionOf(s Server) trouble {
	e := s.GetExclusion()
	reason := e.GetReason()
	if e.GetActor() != "" {
		reason = strings.TrimPrefix(reason+", by "+e.GetActor(), ", ")
	}
	if s.GetStanding() == serverv1.Standing_STANDING_REVOKED {
		return trouble{"revoked", code.ServerRevoked, reason, "garrison server enroll " + s.GetName(), e.GetSince()}
	}
	return trouble{
		"quarantined", cmp.Or(e.GetCode(), code.ServerQuarantined), reason, "garrison server release " + s.GetName(),
		e.GetSince(),
	}
}

// AheadText describes by how much a server is ahead of the ledger.
func AheadText(a *serverv1.ServerAhead) string {
	p := a.GetPlace()
	return fmt.Sprintf("it applied document %d of epoch %d, which is missing from the ledger; the ledger ended at %d",
		p.GetGeneration(), p.GetEpoch(), a.GetLedgerEnd())
}

// Sightings names the machines that beat under the identity of one server.
func Sightings(of []*serverv1.Sighting) string {
	var out []string
	for _, m := range of {
		boot, session := ident.Short(m.GetBootId()), lastOf(m.GetSessionId())
		out = append(out, fmt.Sprintf("%s (boot %s, session %s)", listing.Dash(m.GetHostname()), boot, session))
	}
	return strings.Join(out, " and ")
}

// TroubleLines returns a server's trouble, and each machine that beats as the server on a line of its own.
func TroubleLines(v listing.View, s Server) string {
	line := TroubleLine(s)
	if machines := s.GetDuplicate().GetSightings(); len(machines) > 0 {
		line += "\n" + SightingLines(v, machines)
	}
	return line
}

// SightingLines describes each of the machines that beat under the identity of one server on a line.
func SightingLines(v listing.View, of []*serverv1.Sighting) string {
	var lines []string
	for _, m := range of {
		line := Sightings([]*serverv1.Sighting{m})
		if m.GetSince() != nil {
			line += ", since " + listing.Age(v, m.GetSince()) + " ago"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// lastOf returns the end of an id, which also differs between ids created at the same time.
func lastOf(id string) string { return id[max(0, len(id)-8):] }

// serverSince returns the time since which a server is in the state shown.
func serverSince(s Server) *timestamppb.Timestamp {
	if t := troubleOf(s); t.word != "" {
		return t.since
	}
	if under := s.GetReinstall(); under != nil {
		return under.GetSince()
	}
	return s.GetSince()
}

// TroubleLine returns a server's trouble on one line, or "" without trouble.
func TroubleLine(s Server) string {
	t := troubleOf(s)
	if t.word == "" {
		return ""
	}
	return strings.TrimSuffix(t.code+": "+t.reason, ": ")
}

// namedInNext is the number of agents that one cell names.
const namedInNext = 3

// dutyText describes one duty: what a dying server waits for, or why a dead one is leaked.
func dutyText(s Server, d *serverv1.Duty) string {
	switch d.GetKind() {
	case serverv1.DutyKind_DUTY_KIND_AGENT:
		return "agent " + d.GetAgent() + " to be removed"
	case serverv1.DutyKind_DUTY_KIND_PRESENCE:
		return s.GetName() + " to come back"
	case serverv1.DutyKind_DUTY_KIND_RECEIPT:
		return "its executor to report its own removal"
	case serverv1.DutyKind_DUTY_KIND_DEATH:
		return "its death to be recorded"
	case serverv1.DutyKind_DUTY_KIND_OWNERSHIP:
		return "an operator to clean its machine, whose ownership is unknown"
	case serverv1.DutyKind_DUTY_KIND_PATHS:
		return "an operator to clean its machine, where files were left"
	case serverv1.DutyKind_DUTY_KIND_FOUND:
		return "an operator to clean its machine, where an unmanaged agent was found"
	case serverv1.DutyKind_DUTY_KIND_EMPTY:
		return "its executor to delete what it kept of agents"
	}
	return listing.Word(d.GetKind())
}

// dutyNext returns what happens next about a duty, or what an operator can do.
func dutyNext(s Server, d *serverv1.Duty) string {
	switch d.GetKind() {
	case serverv1.DutyKind_DUTY_KIND_AGENT:
		switch {
		case d.GetEnded():
			return fmt.Sprintf("the registry retries it every 10m for a day; now: %s %s",
				leavingCommand(s), s.GetName())
		case d.GetTaskId() != "":
			return "garrison task show " + ident.Short(d.GetTaskId())
		}
		return "task"
	case serverv1.DutyKind_DUTY_KIND_PRESENCE:
		if s.GetReinstall() != nil {
			return "executor run on that machine; when it is replaced: garrison server enroll " + s.GetName() +
				" --replace"
		}
		return "executor run on that machine; when the machine is lost: garrison server decommission " +
			"" + s.GetName() + " --lost"
	case serverv1.DutyKind_DUTY_KIND_RECEIPT:
		return "executor status on that machine; when its executor is gone: " + leakNext(s)
	case serverv1.DutyKind_DUTY_KIND_DEATH:
		return "the registry retries every 5s"
	case serverv1.DutyKind_DUTY_KIND_EMPTY:
		return "its next beat; otherwise executor status on that machine"
	case serverv1.DutyKind_DUTY_KIND_OWNERSHIP, serverv1.DutyKind_DUTY_KIND_PATHS, serverv1.DutyKind_DUTY_KIND_FOUND:
		return leakNext(s)
	}
	return ""
}

// leavingCommand returns the command that removes every agent of a server.
func leavingCommand(s Server) string {
	if s.GetReinstall() != nil {
		return "garrison server reinstall"
	}
	return "garrison server decommission"
}

// leakNext returns the commands that resolve a leak.
func leakNext(s Server) string {
	name := s.GetName()
	return "garrison server clean " + name + " --ssh USER@HOST; when the machine is gone: garrison server " +
		"forget " + name + " --leak"
}

// LeakText returns on one line why a server is leaked.
func LeakText(s Server) string {
	var why []string
	for _, d := range s.GetDuties() {
		if Leaked(s) && d.GetKind() == serverv1.DutyKind_DUTY_KIND_RECEIPT {
			why = append(why, "its executor never reported its own removal")
		} else if Leaked(s) {
			why = append(why, d.GetReason())
		}
	}
	return strings.Join(why, "; ")
}

// DutyLines returns the duties of a server, one per line.
func DutyLines(s Server) string {
	var out []string
	for _, d := range s.GetDuties() {
		line := fmt.Sprintf("%s, since %s", dutyText(s, d), listing.Stamp(d.GetSince()))
		if d.GetReason() != "" {
			line += ": " + listing.Cell(d.GetReason())
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// agentsLeft names the first of the agents that remain to be removed.
func agentsLeft(s Server) string {
	var names []string
	for _, d := range s.GetDuties() {
		if d.GetKind() == serverv1.DutyKind_DUTY_KIND_AGENT {
			names = append(names, d.GetAgent())
		}
	}
	if len(names) == 0 && s.GetReinstall() != nil {
		return "deleting what is kept of agents"
	}
	if len(names) == 0 {
		return "removing agents"
	}
	more := ""
	if n := len(names) - namedInNext; n > 0 {
		names, more = names[:namedInNext], fmt.Sprintf(" and %d more", n)
	}
	return "removing agents: " + strings.Join(names, ", ") + more
}
