package display

import (
	"fmt"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

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
	return output.Word(d.GetKind())
}

// dutyNext returns what happens next about a duty, or what an operator can do.
func dutyNext(s Server, d *serverv1.Duty) string {
	switch d.GetKind() {
	case serverv1.DutyKind_DUTY_KIND_AGENT:
		switch {
		case d.GetEnded():
			return fmt.Sprintf("the registry retries it every 10m for a day; now: garrison server %s %s",
				leavingVerb(s), s.GetName())
		case d.GetTaskId() != "":
			return "garrison task show " + ident.Short(d.GetTaskId())
		}
		return "task"
	case serverv1.DutyKind_DUTY_KIND_PRESENCE:
		if s.GetReinstall() != nil {
			return "executor run on that machine; when it is replaced: garrison server replace " + s.GetName()
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

// leavingVerb returns the verb that removes every agent of a server.
func leavingVerb(s Server) string {
	if s.GetReinstall() != nil {
		return "reinstall"
	}
	return "decommission"
}

// leakNext returns the commands that resolve a leak.
func leakNext(s Server) string {
	name := s.GetName()
	return "garrison server clean " + name + "; when the machine is gone: garrison server forget " + name + " --leak"
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
		line := fmt.Sprintf("%s, since %s", dutyText(s, d), output.Stamp(d.GetSince()))
		if d.GetReason() != "" {
			line += ": " + output.Cell(d.GetReason())
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
