package selector

import (
	"maps"
	"slices"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// mostSpelled is how many servers Flags spells out.
const mostSpelled = 5

// Flags returns the flags of the CLI that express a selector, for the commands that refusals suggest. A long or nested
// selector is left to the reader, as SELECTOR.
func Flags(s *intentv1.Selector) string {
	if len(s.GetWhere())+len(s.GetNot()) > 0 || len(s.GetServers()) > mostSpelled {
		return "--on SELECTOR"
	}
	var out []string
	if s.GetAll() {
		out = append(out, "--on all")
	}
	if len(s.GetServers()) > 0 {
		out = append(out, "--on "+strings.Join(s.Servers, ","))
	}
	if s.GetEnvironment() != "" {
		out = append(out, "--on env="+s.Environment)
	}
	for _, name := range slices.Sorted(maps.Keys(s.GetLabels())) {
		out = append(out, "--on label."+name+"="+s.Labels[name])
	}
	if len(out) == 0 { // which is refused, so that the reader names servers
		return "--on SELECTOR"
	}
	return strings.Join(out, " ")
}
