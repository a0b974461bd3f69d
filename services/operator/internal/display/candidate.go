package display

import (
	"fmt"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

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
