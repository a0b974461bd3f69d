package display

import (
	"fmt"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"

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
	for _, f := range s.GetFound() {
		line := strings.TrimSpace(f.GetAgent()+" "+foundIs(v, f)) + " since " + output.Age(v,
			f.GetSince()) + " (" + foundCode(f) + ")"
		if whose := foundWhose(f); whose != "" {
			line += ", " + whose
		}
		lines = append(lines, output.OneLine(line), "  "+output.OneLine(foundNext(s, f)))
	}
	if n := s.GetFoundMore(); n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(lines, "\n")
}
