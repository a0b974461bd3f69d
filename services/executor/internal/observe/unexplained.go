package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Unexplained returns everything of agents on this server that the inventory does not
// explain, also processes of scripts. Another root's links do not count.
func (o *Observer) Unexplained() ([]Trace, error) {
	began := time.Now()
	before, err := o.inventory()
	if err != nil {
		return nil, err
	}
	traces := append(o.traces(o.Images.Whole), o.processes(newImagePaths(o.Root).started)...)
	after, err := o.inventory()
	found := o.unexplained(before.strict(), after.strict(), began, traces)
	return slices.DeleteFunc(found, func(t Trace) bool { return t.OtherRoot != "" }), err
}

// UnexplainedOf returns the same for one agent.
func (o *Observer) UnexplainedOf(agent string) ([]Trace, error) {
	found, err := o.Unexplained()
	return slices.DeleteFunc(found, func(t Trace) bool { return t.name != agent }), err
}

// maxNamed bounds the traces that Describe names.
const maxNamed = 5

// Describe names traces, each path once.
func Describe(traces []Trace) string {
	var names []string
	seen := map[string]bool{}
	for _, t := range traces {
		name := t.Path
		if t.Found.Trace == serverv1.Trace_TRACE_PROCESS {
			name = fmt.Sprintf("process %d of %s", t.Pid, t.Path)
		}
		if !seen[t.Path] {
			names = append(names, name)
		}
		seen[t.Path] = true
	}
	if n := len(names); n > maxNamed {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	return strings.Join(names, ", ")
}
