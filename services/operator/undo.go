package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// namedInUndo is up to how many servers a line names; a line that leaves some out would be wrong.
const namedInUndo = 100

// undoLines gives the commands that undo what an order did, one for each version that there was before.
func undoLines(o order, tasks []task, names map[string]string) []string {
	before := map[string][]string{} // servers by the version before
	for _, t := range tasks {
		if t.GetState() == taskv1.State_STATE_SUCCEEDED {
			v := t.GetFrom().GetVersion()
			before[v] = append(before[v], view{names: names}.server(t.GetServerId()))
		}
	}
	// The selector may stand for the servers only when it selects no others.
	whole := len(before) == 1 && o.record.GetAlready() == 0 && (o.verb == topology.VerbUpgrade || o.record.GetPassedOver() == 0)
	var out []string
	for _, version := range slices.Sorted(maps.Keys(before)) {
		command := undoCommand(o, version)
		if command == "" {
			continue
		}
		on := selectorArgs(o.on)
		if servers := before[version]; !whole || len(servers) != len(tasks) {
			slices.Sort(servers)
			on = "--on " + strings.Join(servers, ",")
			if len(servers) > namedInUndo {
				on = fmt.Sprintf("--on … (%d servers; garrison task list --intent %s -o wide names them)", len(servers), o.id)
			}
		}
		out = append(out, command+" "+on)
	}
	return out
}

// undoCommand gives the verb that undoes one, without its selector; empty when there is none.
func undoCommand(o order, version string) string {
	switch o.verb {
	case topology.VerbInstall:
		return "garrison remove " + o.agent
	case topology.VerbUpgrade:
		if version != "" {
			return "garrison up " + o.agent + "@" + version
		}
	case topology.VerbRemove:
		if version != "" {
			return "garrison install " + o.agent + "@" + version
		}
	}
	return ""
}
