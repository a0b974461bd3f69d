package rollout

import (
	"slices"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// Ended reports whether a state is an end. A rollout that ended may still be undone.
func Ended(s rolloutv1.State) bool {
	return s == rolloutv1.State_STATE_SUCCEEDED || s == rolloutv1.State_STATE_ABORTED ||
		s == rolloutv1.State_STATE_UNDONE
}

// Open reports whether a target in a state may still be changed.
func Open(s rolloutv1.TargetState) bool {
	switch s {
	case rolloutv1.TargetState_TARGET_STATE_PENDING, rolloutv1.TargetState_TARGET_STATE_REACHED,
		rolloutv1.TargetState_TARGET_STATE_OWED:
		return true
	}
	return false
}

// Named returns the servers that an intent names which a rollout released.
func Named(i *intentv1.Intent) []string {
	switch ask := i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		return ask.Install.GetOn().GetServers()
	case *intentv1.Intent_Upgrade:
		return ask.Upgrade.GetOn().GetServers()
	case *intentv1.Intent_Configure:
		return ask.Configure.GetOn().GetServers()
	case *intentv1.Intent_Remove:
		return ask.Remove.GetOn().GetServers()
	case *intentv1.Intent_Undo:
		return ask.Undo.GetOn().GetServers()
	}
	return nil
}

// ChangeOf returns which change of a target an intent makes; -1 for none of them.
func ChangeOf(t *rolloutv1.Target, i *intentv1.Intent) int {
	agent, image := "", ""
	switch ask := i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		agent, image = ask.Install.GetAgent(), ask.Install.GetImage().GetImageId()
	case *intentv1.Intent_Upgrade:
		agent, image = ask.Upgrade.GetAgent(), ask.Upgrade.GetImage().GetImageId()
	case *intentv1.Intent_Configure:
		agent = ask.Configure.GetAgent()
	case *intentv1.Intent_Remove:
		agent = ask.Remove.GetAgent()
	case *intentv1.Intent_Undo:
		return slices.Index(t.UndoIntentIds, ask.Undo.GetIntentId())
	}
	// An agent that goes by way of other versions has several changes.
	if n := slices.IndexFunc(t.Changes, func(c *rolloutv1.Change) bool {
		return c.Agent == agent && c.To.GetId() == image
	}); n >= 0 {
		return n
	}
	return slices.IndexFunc(t.Changes, func(c *rolloutv1.Change) bool { return c.Agent == agent })
}

// Common returns an agent that both targets change, or "".
func Common(a, b *rolloutv1.Target) string {
	for _, x := range a.GetChanges() {
		for _, y := range b.GetChanges() {
			if x.Agent == y.Agent {
				return x.Agent
			}
		}
	}
	return ""
}
