package intent

import (
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// verbOf returns the verb that the subject of an intent must hold; empty for an intent without one.
func verbOf(i *intentv1.Intent) string {
	switch i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		return topology.VerbInstall
	case *intentv1.Intent_Upgrade:
		return topology.VerbUpgrade
	case *intentv1.Intent_Remove:
		return topology.VerbRemove
	case *intentv1.Intent_Refresh:
		return topology.VerbRefresh
	case *intentv1.Intent_Decommission:
		return topology.VerbDecommission
	case *intentv1.Intent_Configure:
		return topology.VerbConfigure
	case *intentv1.Intent_Undo:
		return topology.VerbUndo
	case *intentv1.Intent_Adopt:
		return topology.VerbAdopt
	case *intentv1.Intent_Release:
		return topology.VerbRelease
	case *intentv1.Intent_Reinstall:
		return topology.VerbReinstall
	case *intentv1.Intent_Rollout:
		return topology.VerbRollout
	}
	return ""
}

// agentOf returns the agent that an intent names.
func agentOf(i *intentv1.Intent) string {
	switch ask := i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		return ask.Install.GetAgent()
	case *intentv1.Intent_Upgrade:
		return ask.Upgrade.GetAgent()
	case *intentv1.Intent_Remove:
		return ask.Remove.GetAgent()
	case *intentv1.Intent_Configure:
		return ask.Configure.GetAgent()
	case *intentv1.Intent_Adopt:
		return ask.Adopt.GetAgent()
	case *intentv1.Intent_Release:
		return ask.Release.GetAgent()
	}
	return ""
}
