package operator

import (
	"fmt"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// namedInNext is up to how many agents one cell names.
const namedInNext = 3

// dutyText returns one thing that the end of a server waits for, or because of which it is leaked.
func dutyText(s server, d *serverv1.Duty) string {
	switch d.GetKind() {
	case serverv1.DutyKind_DUTY_KIND_AGENT:
		return "agent " + d.GetAgent() + " to be removed"
	case serverv1.DutyKind_DUTY_KIND_PRESENCE:
		return s.GetName() + " to come back"
	case serverv1.DutyKind_DUTY_KIND_RECEIPT:
		return "its executor to say that it removes itself"
	case serverv1.DutyKind_DUTY_KIND_DEATH:
		return "its end to be recorded"
	case serverv1.DutyKind_DUTY_KIND_OWNERSHIP:
		return "an operator to clean its machine, whose ownership is unknown"
	case serverv1.DutyKind_DUTY_KIND_PATHS:
		return "an operator to clean its machine, where files were left"
	case serverv1.DutyKind_DUTY_KIND_FOUND:
		return "an operator to clean its machine, where an unmanaged agent was found"
	}
	return word(d.GetKind())
}

// dutyNext returns what happens next about it, or what an operator can do.
func dutyNext(s server, d *serverv1.Duty) string {
	switch d.GetKind() {
	case serverv1.DutyKind_DUTY_KIND_AGENT:
		switch {
		case d.GetEnded():
			return "garrison server decommission " + s.GetName() + " asks for it again"
		case d.GetTaskId() != "":
			return "garrison task show " + ident.Short(d.GetTaskId())
		}
		return "task"
	case serverv1.DutyKind_DUTY_KIND_PRESENCE:
		return "executor run there; when the machine is lost: garrison server decommission " + s.GetName() + " --lost"
	case serverv1.DutyKind_DUTY_KIND_RECEIPT:
		return "executor status there; when its executor is gone: " + leakNext(s)
	case serverv1.DutyKind_DUTY_KIND_DEATH:
		return "the registry tries again every 5s"
	case serverv1.DutyKind_DUTY_KIND_OWNERSHIP, serverv1.DutyKind_DUTY_KIND_PATHS, serverv1.DutyKind_DUTY_KIND_FOUND:
		return leakNext(s)
	}
	return ""
}

// leakNext returns the ways out of a leak.
func leakNext(s server) string {
	name := s.GetName()
	return "garrison server clean " + name + "; when the machine is gone: garrison server forget " + name + " --leak"
}

// leakText returns why a server is leaked, in a line.
func leakText(s server) string {
	var why []string
	for _, d := range s.GetDuties() {
		if leaked(s) && d.GetKind() == serverv1.DutyKind_DUTY_KIND_RECEIPT {
			why = append(why, "its executor never said that it removes itself")
		} else if leaked(s) {
			why = append(why, d.GetReason())
		}
	}
	return strings.Join(why, "; ")
}

// dutyLines say what the end of a server waits for, a line each.
func dutyLines(s server) string {
	var out []string
	for _, d := range s.GetDuties() {
		line := fmt.Sprintf("%s, since %s", dutyText(s, d), stamp(d.GetSince()))
		if d.GetReason() != "" {
			line += ": " + cell(d.GetReason())
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// whyDuty explains one thing that the end of a server waits for.
func whyDuty(v view, s server, d *serverv1.Duty) why {
	return why{
		What: "waits for", Name: dutyText(s, d), State: "open", Since: stamp(d.GetSince()), age: age(v, d.GetSince()),
		Next: dutyNext(s, d), Reason: d.GetReason(),
	}
}

// agentsGo names the agents that are still to be removed, or the first of them.
func agentsGo(s server) string {
	var names []string
	for _, d := range s.GetDuties() {
		if d.GetKind() == serverv1.DutyKind_DUTY_KIND_AGENT {
			names = append(names, d.GetAgent())
		}
	}
	if len(names) == 0 {
		return "agents go"
	}
	more := ""
	if n := len(names) - namedInNext; n > 0 {
		names, more = names[:namedInNext], fmt.Sprintf(" and %d more", n)
	}
	return "agents go: " + strings.Join(names, ", ") + more
}
