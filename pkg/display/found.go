package display

import (
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
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
func foundIs(v listing.View, f found) string {
	where := listing.Word(f.GetTrace()) + " " + f.GetPath()
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
	on, path := "on "+s.GetName(), listing.Quote(f.GetPath())
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
func FoundLines(v listing.View, s Server) string {
	var lines []string
	for _, f := range ExplainFound(v, s, "") {
		if f.State == "" {
			lines = append(lines, f.Is)
			continue
		}
		line := f.Name + " " + f.Is + " since " + f.age(v) + " (" + f.State + "), " + f.Reason
		lines = append(lines, listing.OneLine(strings.TrimSuffix(line, ", ")), "  "+listing.OneLine(f.Next))
	}
	return strings.Join(lines, "\n")
}

type candidate = *serverv1.Candidate

// Candidates lists what a scan found.
var Candidates = listing.Listing[candidate]{
	Name: candidate.GetId,
	Columns: []listing.Column[candidate]{
		listing.Col("ID", candidate.GetId),
		listing.Col("NAME", candidate.GetName),
		listing.Col("VERSION", candidate.GetVersion),
		listing.Col("PID", func(c candidate) string { return listing.Count(c.GetPid()) }).Numeric(),
		listing.Col("USER", candidate.GetUser),
		listing.Col("SOCKETS", func(c candidate) string { return strings.Join(c.GetSockets(), ", ") }),
		listing.Col("STATE", candidate.GetState),
		listing.Wide("DETECTOR", candidate.GetDetector),
		listing.Wide("UNIT", candidate.GetUnit),
		listing.Wide("PACKAGE", candidate.GetPackage),
		listing.Wide("PROGRAM", candidate.GetExe),
		listing.Wide("ARGS", func(c candidate) string { return strings.Join(c.GetArgs(), " ") }),
		listing.Wide("PATH", candidate.GetPath),
		listing.Wide("FILES", func(c candidate) string {
			files := strings.Join(c.GetFiles(), ", ")
			if c.GetFilesMore() > 0 {
				files += " and " + listing.Count(c.GetFilesMore()) + " more"
			}
			return files
		}),
		{Title: "STARTED", Wide: true, Value: func(v listing.View, c candidate) string {
			return listing.Age(v, c.GetStartedAt())
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
	process := fmt.Sprintf("process %d since %s", a.GetPid(), listing.Stamp(a.GetStartedAt()))
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
var UnknownServers = listing.Listing[unknownServer]{
	Name: func(u unknownServer) string { return u.GetServerId() },
	Columns: []listing.Column[unknownServer]{
		{Title: "ID", Value: func(v listing.View, u unknownServer) string { return u.GetServerId() }},
		listing.Col("NAME", unknownServer.GetName),
		listing.Col("HOST", unknownServer.GetHostname),
		listing.Col("STATE", unknownServer.GetCode),
		listing.Since("SINCE", unknownServer.GetSince),
		listing.Col("NEXT", unknownNext),
		listing.Col("REASON", unknownServer.GetReason),
		{Title: "HEARD", Wide: true, Value: func(v listing.View, u unknownServer) string {
			return listing.Age(v, u.GetHeardAt())
		}},
		listing.Wide("CELL", unknownServer.GetCell),
		listing.Wide("EXECUTOR", unknownServer.GetExecutorVersion),
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
