package display

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// found is an unmanaged agent: one on a server without an instance for it.
type found = *serverv1.FoundAgent

// foundCode returns the code for its trace.
func foundCode(f found) string {
	switch f.GetTrace() {
	case serverv1.Trace_TRACE_LINK:
		return code.FoundLink
	case serverv1.Trace_TRACE_PROCESS:
		return code.FoundProcess
	case serverv1.Trace_TRACE_UNIT:
		return code.FoundUnit
	}
	return code.FoundInstance
}

// FoundCount returns the number of unmanaged agents on a server.
func FoundCount(s Server) int { return len(s.GetFound()) + int(s.GetFoundMore()) }

// foundIs returns the version and the location of an unmanaged agent.
func foundIs(v output.View, f found) string {
	where := output.Word(f.GetTrace()) + " " + f.GetPath()
	if digest := fmt.Sprintf("%x", f.GetDigest()); f.GetTrace() == serverv1.Trace_TRACE_PROCESS && !v.Wide &&
		digest != "" {
		where = "process of image " + ident.Short(digest)
	}
	return strings.TrimSpace(f.GetVersion() + " " + where)
}

// foundWhose returns the owner of an unmanaged agent when that is certain.
func foundWhose(f found) string {
	switch {
	case f.GetOtherServerId() != "":
		return "started by the executor of server " + f.GetOtherServerId()
	case f.GetOtherRoot() != "":
		return "of the executor in " + f.GetOtherRoot()
	}
	return ""
}

// foundNext returns what an operator can do about an unmanaged agent; Garrison itself does nothing. Names come from a
// server and are quoted, since the line may be pasted into a shell.
func foundNext(s Server, f found) string {
	on, path := "on "+s.GetName(), output.Quote(f.GetPath())
	install := ""
	if ident.CheckName("agent", f.GetAgent()) == nil {
		install = "garrison install " + f.GetAgent() + " --on " + s.GetName()
	}
	switch f.GetTrace() {
	case serverv1.Trace_TRACE_LINK:
		return strings.TrimSuffix(on+", in the executor's root: rm "+path+", or "+install, ", or ")
	case serverv1.Trace_TRACE_PROCESS:
		return on + ": executor status names it; end it"
	case serverv1.Trace_TRACE_UNIT:
		return on + ": systemctl stop " + path
	case serverv1.Trace_TRACE_INSTANCE:
		return install
	}
	return ""
}

// FoundLines returns the unmanaged agents of a server, each followed by a line with the next step.
func FoundLines(v output.View, s Server) string {
	var lines []string
	for _, f := range ExplainFound(v, s, "") {
		if f.State == "" {
			lines = append(lines, f.Is)
			continue
		}
		line := f.Name + " " + f.Is + " since " + f.age(v) + " (" + f.State + "), " + f.Reason
		lines = append(lines, output.OneLine(strings.TrimSuffix(line, ", ")), "  "+output.OneLine(f.Next))
	}
	return strings.Join(lines, "\n")
}

type candidate = *serverv1.Candidate

// Candidates lists what a scan found.
var Candidates = output.Listing[candidate]{
	Name: candidate.GetId,
	Columns: []output.Column[candidate]{
		output.Col("ID", candidate.GetId),
		output.Col("NAME", candidate.GetName),
		output.Col("VERSION", candidate.GetVersion),
		output.Col("PID", func(c candidate) string { return output.Count(c.GetPid()) }).Numeric(),
		output.Col("USER", candidate.GetUser),
		output.Col("SOCKETS", func(c candidate) string { return strings.Join(c.GetSockets(), ", ") }),
		output.Col("STATE", candidate.GetState),
		output.Wide("DETECTOR", candidate.GetDetector),
		output.Wide("UNIT", candidate.GetUnit),
		output.Wide("PACKAGE", candidate.GetPackage),
		output.Wide("PROGRAM", candidate.GetExe),
		output.Wide("ARGS", func(c candidate) string { return strings.Join(c.GetArgs(), " ") }),
		output.Wide("PATH", candidate.GetPath),
		output.Wide("FILES", func(c candidate) string {
			files := strings.Join(c.GetFiles(), ", ")
			if c.GetFilesMore() > 0 {
				files += " and " + output.Count(c.GetFilesMore()) + " more"
			}
			return files
		}),
		{Title: "STARTED", Wide: true, Value: func(v output.View, c candidate) string {
			return output.Age(v, c.GetStartedAt())
		}},
	},
}

// AdoptionLine returns the proof of an adoption; empty for none.
func AdoptionLine(a *serverv1.Adoption) string {
	if a == nil {
		return ""
	}
	program := "another program than the image's"
	if a.GetSame() {
		program = "the image's program"
	}
	process := fmt.Sprintf("process %d since %s", a.GetPid(), output.Stamp(a.GetStartedAt()))
	if a.GetService() != "" {
		process += " of " + a.GetService()
	}
	return strings.Join(append([]string{
		process,
		fmt.Sprintf("%s, sha256 %.12x, %s", a.GetExe(), a.GetExeSha256(), program),
	}, a.GetSockets()...), "\n")
}

type unknownServer = *registryv1.UnknownServer

// UnknownServers lists senders of beats that are not under management.
var UnknownServers = output.Listing[unknownServer]{
	Name: func(u unknownServer) string { return u.GetServerId() },
	Columns: []output.Column[unknownServer]{
		{Title: "ID", Value: func(v output.View, u unknownServer) string { return u.GetServerId() }},
		output.Col("NAME", unknownServer.GetName),
		output.Col("HOST", unknownServer.GetHostname),
		output.Col("STATE", unknownServer.GetCode),
		output.Since("SINCE", unknownServer.GetSince),
		output.Col("NEXT", unknownNext),
		output.Col("REASON", unknownServer.GetReason),
		{Title: "HEARD", Wide: true, Value: func(v output.View, u unknownServer) string {
			return output.Age(v,
				u.GetHeardAt())
		}},
		output.Wide("CELL", unknownServer.GetCell),
		output.Wide("EXECUTOR", unknownServer.GetExecutorVersion),
	},
}

// unknownNext returns what an operator can do about an unmanaged sender of beats.
func unknownNext(u unknownServer) string {
	switch u.GetCode() {
	case code.StillRuns:
		return "executor status on that machine; garrison server show " + u.GetServerId()
	case code.OtherCell:
		return "garrison server show " + u.GetServerId()
	case code.NotEnrolled:
		return "garrison server forget " + u.GetServerId() + ", then treat it as unknown"
	}
	return "on that machine: stop its executor and agents, delete its root, then executor join with a token of " +
		"garrison server enroll NAME"
}
