package observe

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

// inventory is what the journal explains: what is installed, and what comes and goes.
type inventory struct {
	instances []*change.Instance
	open      map[string]bool // agents that are being changed
	removing  []string        // those of them that are being removed
}

func (o *Observer) inventory() (inventory, error) {
	in := inventory{open: map[string]bool{}}
	now, err := o.Journal.Inventory()
	in.instances = now.Instances
	for _, r := range now.Changes {
		in.open[r.Agent] = true
		if r.Removes() {
			in.removing = append(in.removing, r.Agent)
		}
	}
	return in, err
}

// strict leaves out open removals: what they take away is in the inventory, or unexplained.
func (in inventory) strict() inventory {
	in.open = maps.Clone(in.open)
	for _, agent := range in.removing {
		delete(in.open, agent)
	}
	return in
}

// explains reports whether the inventory explains a trace.
func (in inventory) explains(t Trace) bool {
	if in.open[t.name] {
		return true
	}
	return slices.ContainsFunc(in.instances, func(i *change.Instance) bool {
		switch t.Trace {
		case serverv1.Trace_TRACE_LINK:
			return i.Agent == t.name
		case serverv1.Trace_TRACE_PROCESS:
			return bytes.Equal(i.Image.Digest(), t.Image.GetDigest())
		case serverv1.Trace_TRACE_UNIT:
			return i.Agent == t.name && strings.HasPrefix(plainID(i.Image.Ref()), t.slot)
		}
		return false
	})
}

func plainID(r *imagev1.Ref) string { return strings.ReplaceAll(r.GetId(), "-", "") }

// unexplained returns the traces, found since a time, that the inventory explains neither as
// it was then nor as it is now.
func (o *Observer) unexplained(before, after inventory, began time.Time, traces []Trace) []Trace {
	return slices.DeleteFunc(traces, func(t Trace) bool {
		return before.explains(t) || after.explains(t) || o.Health.EndedSince(t.name, began)
	})
}

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
