package operator

import (
	"fmt"
	"slices"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// found is an agent on a server that no instance explains.
type found = *serverv1.FoundAgent

// foundCode names what there is of it, as garrison explain knows it.
func foundCode(f found) string { return "FOUND_" + strings.ToUpper(word(f.GetTrace())) }

// foundCount is how many there are on a server.
func foundCount(s server) int { return len(s.GetFound()) + int(s.GetFoundMore()) }

// foundIs says what it is: its version and where it is.
func foundIs(v view, f found) string {
	where := word(f.GetTrace()) + " " + f.GetPath()
	if digest := fmt.Sprintf("%x", f.GetDigest()); f.GetTrace() == serverv1.Trace_TRACE_PROCESS && !v.wide && digest != "" {
		where = "process of image " + ident.Short(digest)
	}
	return strings.TrimSpace(f.GetVersion() + " " + where)
}

// foundWhose says whose it is when that is certain.
func foundWhose(f found) string {
	switch {
	case f.GetOtherServerId() != "":
		return "started by the executor of server " + f.GetOtherServerId()
	case f.GetOtherRoot() != "":
		return "of the executor in " + f.GetOtherRoot()
	}
	return ""
}

// foundNext says what a person can do about it. Nothing is done by itself. What it names
// comes from a server, so it is quoted: it may be copied into a shell.
func foundNext(s server, f found) string {
	on, path := "on "+s.GetName(), quote(f.GetPath())
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

// foundLines shows a server's, one line each with a line for what comes next.
func foundLines(v view, s server) string {
	var lines []string
	for _, f := range s.GetFound() {
		line := strings.TrimSpace(f.GetAgent()+" "+foundIs(v, f)) + " since " + age(v, f.GetSince()) + " (" + foundCode(f) + ")"
		if whose := foundWhose(f); whose != "" {
			line += ", " + whose
		}
		lines = append(lines, oneLine(line), "  "+oneLine(foundNext(s, f)))
	}
	if n := s.GetFoundMore(); n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(lines, "\n")
}

// oneLine keeps what a server says on its line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// whyFound explains what is on a server, of one agent or of all.
func whyFound(v view, s server, agent string) (rows []why) {
	for _, f := range s.GetFound() {
		if agent == "" || agent == f.GetAgent() {
			rows = append(rows, why{
				What: "found", Name: f.GetAgent(), Is: foundIs(v, f), State: foundCode(f),
				Since: stamp(f.GetSince()), age: age(v, f.GetSince()), Next: foundNext(s, f), Reason: foundWhose(f),
			})
		}
	}
	if n := s.GetFoundMore(); n > 0 && agent == "" {
		rows = append(rows, why{What: "found", Is: fmt.Sprintf("and %d more", n)})
	}
	return rows
}

// foundDetail says in a few words what a fact says was found.
func foundDetail(b *serverv1.AgentsFound) string {
	var words []string
	for _, f := range b.GetAgents() {
		words = append(words, strings.TrimSpace(f.GetAgent()+" "+word(f.GetTrace())))
	}
	words = slices.Compact(words)
	if b.GetMore() > 0 {
		words = append(words, fmt.Sprintf("and %d more", b.GetMore()))
	}
	if len(words) == 0 {
		return "nothing any more"
	}
	return strings.Join(words, ", ")
}
