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

// undoable says whether another command sets back what a task of an order changed. A
// version that was undone is still wanted, and tried again with the next change; the line
// that undoes it settles for the one that runs.
func undoable(o order, t task) bool {
	if o.verb == topology.VerbUpgrade || o.verb == topology.VerbConfigure {
		ended := t.GetState() == taskv1.State_STATE_SUCCEEDED || t.GetState() == taskv1.State_STATE_UNDONE
		return ended && t.GetFrom().GetVersion() != t.GetTo().GetVersion()
	}
	return t.GetState() == taskv1.State_STATE_SUCCEEDED
}

// undoLines gives the commands that undo what an order did, one for each version that there was before.
func undoLines(o order, tasks []task, names map[string]string) []string {
	before := map[string][]string{} // servers by the version before
	for _, t := range tasks {
		if undoable(o, t) {
			v := t.GetFrom().GetVersion()
			before[v] = append(before[v], view{names: names}.server(t.GetServerId()))
		}
	}
	// The selector may stand for the servers only when it selects no others.
	whole := len(before) == 1 && o.record.GetAlready() == 0 && (o.verb == topology.VerbUpgrade || o.record.GetPassedOver() == 0)
	var out []string
	if o.undo != nil {
		out = o.undo(o)
	}
	for _, version := range slices.Sorted(maps.Keys(before)) {
		command := undoCommand(o, version)
		if command == "" {
			continue
		}
		on := selectorArgs(o.on)
		if servers := before[version]; !whole || len(servers) != len(tasks) {
			on = onServers(servers, "garrison task list --intent "+o.id+" -o wide")
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
	case topology.VerbUpgrade, topology.VerbConfigure:
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

// onServers names servers, as long as a line can.
func onServers(names []string, where string) string {
	if len(names) > namedInUndo {
		return fmt.Sprintf("--on … (%d servers; %s names them)", len(names), where)
	}
	return "--on " + strings.Join(slices.Sorted(slices.Values(names)), ",")
}

func (s *session) sayUndo(lines []string) {
	for _, line := range lines {
		s.say("to undo: %s", line)
	}
}
